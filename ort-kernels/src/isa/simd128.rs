//! Vectors of four f32 and pairs of them, with the same names on every processor that has them.
//!
//! `max` and `min` return their second operand when either is NaN, as on x86.

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::*;
#[cfg(target_arch = "wasm32")]
pub(crate) use wasm::*;

/// f32 per vector.
pub(crate) const LANES: usize = 4;

/// Functions over baseline instructions of aarch64, which std declares as `unsafe`.
#[cfg(target_arch = "aarch64")]
macro_rules! neon {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty { $value:expr })+) => {$(
        $(#[$meta])*
        #[expect(unsafe_code, reason = "in the baseline")]
        #[inline(always)]
        pub(crate) fn $name($($arg: $ty),*) -> $ret {
            const { assert!(cfg!(target_feature = "neon")) }
            // SAFETY: the only requirement is NEON, with which the caller is compiled.
            unsafe { $value }
        }
    )+};
}

#[cfg(target_arch = "aarch64")]
mod neon {
    pub(crate) use std::arch::aarch64::float32x4_t as Vector;
    use std::arch::aarch64::{
        vaddq_f32, vbslq_f32, vceqzq_f32, vcgtq_f32, vcltq_f32, vdupq_n_f32, vfmaq_f32, vfmsq_f32,
        vminvq_u32, vmulq_f32, vsubq_f32,
    };

    neon! {
        fn splat(x: f32) -> Vector { vdupq_n_f32(x) }
        fn add(a: Vector, b: Vector) -> Vector { vaddq_f32(a, b) }
        fn sub(a: Vector, b: Vector) -> Vector { vsubq_f32(a, b) }
        fn mul(a: Vector, b: Vector) -> Vector { vmulq_f32(a, b) }
        /// `a·b + c`.
        fn fmadd(a: Vector, b: Vector, c: Vector) -> Vector { vfmaq_f32(c, a, b) }
        /// `c − a·b`.
        fn fnmadd(a: Vector, b: Vector, c: Vector) -> Vector { vfmsq_f32(c, a, b) }
        fn max(a: Vector, b: Vector) -> Vector { vbslq_f32(vcgtq_f32(a, b), a, b) }
        fn min(a: Vector, b: Vector) -> Vector { vbslq_f32(vcltq_f32(a, b), a, b) }
        /// Whether every lane is zero.
        fn is_zero(x: Vector) -> bool { vminvq_u32(vceqzq_f32(x)) != 0 }
    }
}

#[cfg(target_arch = "wasm32")]
mod wasm {
    pub(crate) use std::arch::wasm32::{
        f32x4_add as add, f32x4_mul as mul, f32x4_splat as splat, f32x4_sub as sub, v128 as Vector,
    };
    use std::arch::wasm32::{f32x4_eq, f32x4_pmax, f32x4_pmin, i32x4_all_true};

    /// `a·b + c`, rounded twice.
    #[inline(always)]
    pub(crate) fn fmadd(a: Vector, b: Vector, c: Vector) -> Vector {
        add(mul(a, b), c)
    }

    /// `c − a·b`, rounded twice.
    #[inline(always)]
    pub(crate) fn fnmadd(a: Vector, b: Vector, c: Vector) -> Vector {
        sub(c, mul(a, b))
    }

    #[inline(always)]
    pub(crate) fn max(a: Vector, b: Vector) -> Vector {
        f32x4_pmax(b, a)
    }

    #[inline(always)]
    pub(crate) fn min(a: Vector, b: Vector) -> Vector {
        f32x4_pmin(b, a)
    }

    /// Whether every lane is zero.
    #[inline(always)]
    pub(crate) fn is_zero(x: Vector) -> bool {
        i32x4_all_true(f32x4_eq(x, splat(0.0)))
    }
}

#[inline(always)]
pub(crate) fn zero() -> Vector {
    splat(0.0)
}

/// Loads up to four elements, followed by zeros. Without a call, before which all registers would be saved.
#[inline(always)]
pub(crate) fn load(x: &[f32]) -> Vector {
    // Not a pattern: elements that are bound one by one are loaded one by one.
    if let Some(x) = x.first_chunk::<LANES>() {
        return bytemuck::cast(*x);
    }
    bytemuck::cast(match *x {
        [a, b, c, ..] => [a, b, c, 0.0],
        [a, b] => [a, b, 0.0, 0.0],
        [a] => [a, 0.0, 0.0, 0.0],
        [] => [0.0; LANES],
    })
}

/// Stores as many of four lanes as there are elements.
#[inline(always)]
pub(crate) fn store(x: &mut [f32], vector: Vector) {
    let lanes: [f32; LANES] = bytemuck::cast(vector);
    if let Some(x) = x.first_chunk_mut() {
        *x = lanes;
        return;
    }
    match x {
        [a, b, c, ..] => [*a, *b, *c] = [lanes[0], lanes[1], lanes[2]],
        [a, b] => [*a, *b] = [lanes[0], lanes[1]],
        [a] => *a = lanes[0],
        [] => {}
    }
}

pub(crate) mod ints;

/// Two vectors as one of eight lanes, for blocks of eight channels.
pub(crate) mod pair {
    use super::{LANES as HALF, Vector as Half};

    /// Lanes 0 to 3, and 4 to 7.
    pub(crate) type Vector = [Half; 2];
    /// f32 per pair.
    pub(crate) const LANES: usize = 8;

    macro_rules! of_halves {
        ($($name:ident($($arg:ident),+);)+) => {$(
            #[inline(always)]
            pub(crate) fn $name($($arg: Vector),+) -> Vector {
                [super::$name($($arg[0]),+), super::$name($($arg[1]),+)]
            }
        )+};
    }

    of_halves! {
        add(a, b);
        sub(a, b);
        mul(a, b);
        fmadd(a, b, c);
        fnmadd(a, b, c);
        max(a, b);
        min(a, b);
    }

    #[inline(always)]
    pub(crate) fn splat(x: f32) -> Vector {
        [super::splat(x); 2]
    }

    #[inline(always)]
    pub(crate) fn zero() -> Vector {
        splat(0.0)
    }

    /// Whether every lane is zero.
    #[inline(always)]
    pub(crate) fn is_zero([low, high]: Vector) -> bool {
        super::is_zero(low) && super::is_zero(high)
    }

    /// Loads up to eight elements, followed by zeros.
    #[inline(always)]
    pub(crate) fn load(x: &[f32]) -> Vector {
        let (low, high) = x.split_at(x.len().min(HALF));
        [super::load(low), super::load(high)]
    }

    /// Stores as many of eight lanes as there are elements.
    #[inline(always)]
    pub(crate) fn store(x: &mut [f32], [low, high]: Vector) {
        let (first, rest) = x.split_at_mut(x.len().min(HALF));
        super::store(first, low);
        super::store(rest, high);
    }
}
