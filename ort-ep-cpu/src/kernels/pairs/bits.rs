//! Functions of the bits of two operands: shifts, and extremes of 16-bit floats, whose bits are ordered like integers.

use ort_ep::{Io, KernelError};
use ort_ops::ops::bit_shift::BitShift;
use ort_tensor::{DType, with_dtype};

use super::Call;

/// The bits of infinity, above which those of NaN are.
const F16_INFINITY: u16 = 0x7c00;
const BF16_INFINITY: u16 = 0x7f80;

impl Call<'_> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless,
        clippy::unnecessary_cast,
        reason = "distances of any type, used where they are below its width"
    )]
    /// A distance that is negative or beyond the type shifts everything out.
    pub(super) fn shift(&self, op: BitShift, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let dtype = if op == BitShift::Left { self.dtype.unsigned() } else { self.dtype };
        with_dtype!(dtype, [u8, u16, u32, u64], T => return match op {
            BitShift::Left => self.combine(io, |x: T, n: T| {
                let shifted = x.wrapping_shl(n as u32);
                if n < (T::BITS as T) { shifted } else { 0 }
            }),
            BitShift::Right => self.combine(io, |x: T, n: T| {
                let shifted = x.wrapping_shr(n as u32);
                if n < (T::BITS as T) { shifted } else { 0 }
            }),
        }, else => {});
        with_dtype!(dtype, [i8, i16, i32, i64], T => self.combine(io, |x: T, n: T| {
            let last = (T::BITS - 1) as T;
            x.wrapping_shr((if (0..=last).contains(&n) { n } else { last }) as u32)
        }), else => Err(KernelError::ForeignState))
    }

    /// The larger or the smaller of 16-bit floats; NaN if either is.
    pub(super) fn half_extreme(
        &self,
        is_max: bool,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        match (self.dtype, is_max) {
            (DType::F16, true) => self.combine(io, extreme::<F16_INFINITY, true>),
            (DType::F16, false) => self.combine(io, extreme::<F16_INFINITY, false>),
            (_, true) => self.combine(io, extreme::<BF16_INFINITY, true>),
            (_, false) => self.combine(io, extreme::<BF16_INFINITY, false>),
        }
    }
}

#[inline(always)]
fn extreme<const INFINITY: u16, const IS_MAX: bool>(a: u16, b: u16) -> u16 {
    let is_nan = |x: u16| x & 0x7fff > INFINITY;
    // Magnitudes of negative numbers ascend with their bits.
    let order = |x: u16| x.cast_signed() ^ ((x.cast_signed() >> 15) & 0x7fff);
    let takes_a = if IS_MAX { order(a) > order(b) } else { order(a) < order(b) };
    let extreme = if takes_a { a } else { b };
    let extreme = if is_nan(b) { b } else { extreme };
    if is_nan(a) { a } else { extreme }
}
