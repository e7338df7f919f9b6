//! Exponential functions in registers: the formulas, and the bits, of [`super::formula`].

pub(super) mod avx2;
pub(super) mod avx512;
#[cfg(test)]
mod tests;
