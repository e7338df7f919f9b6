//! The generic tile in i64.

pub(super) use crate::gemm::generic::{VARIANT, tile};
