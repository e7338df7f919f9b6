//! Vectors of 16 bytes, as four quads, and of four i32.

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::*;
#[cfg(target_arch = "wasm32")]
pub(crate) use wasm::*;

#[cfg(target_arch = "aarch64")]
mod neon {
    pub(crate) use std::arch::aarch64::int32x4_t as Ints;
    use std::arch::aarch64::{
        int16x8_t, vaddq_s32, vandq_s16, vdupq_n_s16, vdupq_n_s32, vget_low_s16, vmull_high_s16,
        vmull_s16, vpaddq_s32, vreinterpretq_s16_s32, vreinterpretq_s16_u16, vreinterpretq_s32_s16,
        vreinterpretq_u16_s32, vshlq_n_s16, vshrq_n_s16, vshrq_n_u16,
    };

    neon! {
        fn splat(x: i32) -> Ints { vdupq_n_s32(x) }
        fn add(a: Ints, b: Ints) -> Ints { vaddq_s32(a, b) }
        fn even_signed(x: int16x8_t) -> int16x8_t { vshrq_n_s16::<8>(vshlq_n_s16::<8>(x)) }
        fn even_unsigned(x: int16x8_t) -> int16x8_t { vandq_s16(x, vdupq_n_s16(0xff)) }
        fn odd_signed(x: int16x8_t) -> int16x8_t { vshrq_n_s16::<8>(x) }
        fn odd_unsigned(x: Ints) -> int16x8_t {
            vreinterpretq_s16_u16(vshrq_n_u16::<8>(vreinterpretq_u16_s32(x)))
        }
        fn words(x: Ints) -> int16x8_t { vreinterpretq_s16_s32(x) }
        fn ints(x: int16x8_t) -> Ints { vreinterpretq_s32_s16(x) }
        fn products(a: int16x8_t, b: int16x8_t) -> Ints {
            vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b))
        }
    }

    /// The even and the odd bytes as 16-bit integers.
    #[inline(always)]
    pub(crate) fn widened<const SIGNED: bool>(bytes: Ints) -> [Ints; 2] {
        match SIGNED {
            true => [ints(even_signed(words(bytes))), ints(odd_signed(words(bytes)))],
            false => [ints(even_unsigned(words(bytes))), ints(odd_unsigned(bytes))],
        }
    }

    /// The sums of two products of 16-bit integers.
    #[inline(always)]
    pub(crate) fn pair_sums(a: Ints, b: Ints) -> Ints {
        products(words(a), words(b))
    }
}

#[cfg(target_arch = "wasm32")]
mod wasm {
    use std::arch::wasm32::{i16x8_shl, i16x8_shr, i16x8_splat, u16x8_shr, v128_and};
    pub(crate) use std::arch::wasm32::{
        i32x4_add as add, i32x4_dot_i16x8 as pair_sums, i32x4_splat as splat, v128 as Ints,
    };

    /// The even and the odd bytes as 16-bit integers.
    #[inline(always)]
    pub(crate) fn widened<const SIGNED: bool>(bytes: Ints) -> [Ints; 2] {
        match SIGNED {
            true => [i16x8_shr(i16x8_shl(bytes, 8), 8), i16x8_shr(bytes, 8)],
            false => [v128_and(bytes, i16x8_splat(0xff)), u16x8_shr(bytes, 8)],
        }
    }
}
