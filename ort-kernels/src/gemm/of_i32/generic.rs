//! The generic tile in i32.

pub(super) use crate::gemm::generic::{VARIANT, tile};
