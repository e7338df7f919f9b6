//! That of f32, left to the vectoriser for another type.

pub(super) use crate::gemm_f32::generic::{VARIANT, tile};
