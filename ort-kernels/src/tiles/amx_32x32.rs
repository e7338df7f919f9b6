//! Two by two tiles of sums, two of A and two of B.

use super::{Lhs, Rhs, Sums, Variant};
use crate::Amx;

pub(super) const VARIANT: Variant = Variant { name: "amx_32x32" };

pub(super) fn multiply(token: Amx, a: Lhs<'_>, steps: &[u32], b: Rhs<'_>, sums: &mut [Sums]) {
    crate::isa::amx::multiply(token, a, steps, b, sums);
}
