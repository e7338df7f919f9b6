//! Dot products of bytes on NEON, in assembly: std's intrinsics for them are unstable.

use std::arch::aarch64::{int8x16_t, int32x4_t, vdupq_n_s8, veorq_s8};
use std::arch::asm;

/// `sums[i] + Σ_q b[4i + q]·a[4·LANE + q]`, bytes signed if `SIGNED`, else unsigned.
macro_rules! dots {
    ($($name:ident: $instruction:literal;)+) => {$(
        features! { NeonDotprod enabled
            #[expect(unsafe_code, reason = "assembly")]
            #[inline]
            pub(crate) fn $name<const LANE: usize>(
                sums: int32x4_t,
                b: int8x16_t,
                a: int8x16_t,
            ) -> int32x4_t {
                let mut sums = sums;
                // SAFETY: computes with registers only; the features of this function include the instruction.
                unsafe {
                    asm!(
                        concat!($instruction, " {sums:v}.4s, {b:v}.16b, {a:v}.4b[{lane}]"),
                        sums = inout(vreg) sums,
                        b = in(vreg) b,
                        a = in(vreg) a,
                        lane = const LANE,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
                sums
            }
        }
    )+};
}

dots! {
    signed: "sdot";
    unsigned: "udot";
}

features! { NeonDotprod enabled
    /// Bytes with their highest bits flipped.
    #[inline]
    pub(crate) fn flipped(bytes: int8x16_t) -> int8x16_t {
        veorq_s8(bytes, vdupq_n_s8(i8::MIN))
    }
}
