//! The generic tile in f64.

pub(super) use crate::gemm::generic::{VARIANT, tile};
