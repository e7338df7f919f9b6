//! That of f32, left to the vectoriser for another type.

pub(super) use crate::gemm::generic::{VARIANT, tile};
