//! Instruction sets as proof tokens, and every line of `unsafe` in this crate.
//!
//! A token such as [`Avx512`] can only be created by `detect`, so code that has one may call functions
//! compiled for those instructions. `kernel!` wraps a body into an inner function with
//! the features, and calls it on the evidence of the token; `per_isa!` compiles one body three
//! times. Features are listed once, in `features!`, which feeds both detection and compilation.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the only file with processor-specific code")
)]

pub use denormals::{FlushDenormals, WatchDenormals};
pub use set::Isa;
pub use token::{Amx, Avx2, Avx512, Avx512Vnni, Neon, NeonDotprod, Simd128};

/// Passes the feature list of a token to the macro `$then`: empty, if the target's baseline includes them.
macro_rules! features {
    (Avx512 $then:ident $($rest:tt)*) => {
        $then! { ["avx512f" "avx512bw" "avx512dq" "avx512vl" "avx2" "fma" "f16c"] $($rest)* }
    };
    (Avx512Vnni $then:ident $($rest:tt)*) => {
        $then! {
            ["avx512vnni" "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx2" "fma" "f16c"] $($rest)*
        }
    };
    (Avx2 $then:ident $($rest:tt)*) => { $then! { ["avx2" "fma" "f16c"] $($rest)* } };
    (NeonDotprod $then:ident $($rest:tt)*) => { $then! { ["dotprod" "neon"] $($rest)* } };
    (Neon $then:ident $($rest:tt)*) => { $then! { [] $($rest)* } };
    (Simd128 $then:ident $($rest:tt)*) => { $then! { [] $($rest)* } };
}

#[cfg(target_arch = "x86_64")]
macro_rules! detected {
    ([$($feature:tt)+]) => { $(std::arch::is_x86_feature_detected!($feature))&&+ };
}

#[cfg(target_arch = "aarch64")]
macro_rules! detected {
    ([$($feature:tt)+]) => { $(std::arch::is_aarch64_feature_detected!($feature))&&+ };
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
mod control;
mod denormals;
mod set;
mod token;

/// Compiles an item or statement only for processors that may have the instructions of a token.
macro_rules! cfg_isa {
    (Neon $($code:tt)*) => { #[cfg(target_arch = "aarch64")] $($code)* };
    (NeonDotprod $($code:tt)*) => { #[cfg(target_arch = "aarch64")] $($code)* };
    (Simd128 $($code:tt)*) => {
        #[cfg(any(target_arch = "aarch64", target_feature = "simd128"))] $($code)*
    };
    ($isa:ident $($code:tt)*) => { #[cfg(target_arch = "x86_64")] $($code)* };
}

macro_rules! enabled {
    ([] $item:item) => { $item };
    ([$($feature:tt)+] $item:item) => { #[target_feature($(enable = $feature),+)] $item };
}

/// `kernel! { Avx512 => fn f<const R: usize>(x: &[f32]) { … } }` is `fn f(token: Avx512, x:
/// &[f32])`, safe to call, whose body is compiled with the features that the token proves.
macro_rules! kernel {
    ($(#[$meta:meta])* $isa:ident => $($function:tt)*) => {
        features! { $isa compiled $isa, $(#[$meta])* $($function)* }
    };
}

macro_rules! compiled {
    ([] $isa:ident, $(#[$meta:meta])* $vis:vis fn $name:ident
     $(<$(const $const:ident : $const_ty:ty),+>)? $([$generic:ident : $bound:path])?
     ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name $(<$(const $const: $const_ty),+>)? $(<$generic: $bound>)? (
            _: $crate::$isa,
            $($arg: $ty),*
        ) $(-> $ret)? $body
    };
    ($features:tt $isa:ident, $(#[$meta:meta])* $vis:vis fn $name:ident
     $(<$(const $const:ident : $const_ty:ty),+>)? $([$generic:ident : $bound:path])?
     ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[expect(unsafe_code, reason = "the token proves the features of the inner function")]
        $vis fn $name $(<$(const $const: $const_ty),+>)? $(<$generic: $bound>)? (
            _: $crate::$isa,
            $($arg: $ty),*
        ) $(-> $ret)? {
            enabled! { $features
                fn inner $(<$(const $const: $const_ty),+>)? $(<$generic: $bound>)? (
                    $($arg: $ty),*
                ) $(-> $ret)? $body
            }
            // SAFETY: a token exists only if `detect` found every feature of its list on this
            // machine, and `inner` enables the same list.
            unsafe { inner $(::<$($const),+>)? $(::<$generic>)? ($($arg),*) }
        }
    };
}

/// `per_isa! { pub fn f<FMA>(x: &mut [f32]) { … } }` is `pub fn f(isa: Isa, x: &mut [f32])`: one
/// body, compiled and autovectorised for each instruction set. `FMA` is a `const bool` in
/// the body, true where [`mul_add`] is one instruction.
macro_rules! per_isa {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident <$fma:ident>
     ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block)+) => {$(
        $(#[$meta])*
        $vis fn $name(isa: $crate::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<const $fma: bool>($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            kernel! { Avx512 => fn avx512($($arg: $ty),*) $(-> $ret)? { body::<true>($($arg),*) } }
            #[cfg(target_arch = "x86_64")]
            kernel! { Avx2 => fn avx2($($arg: $ty),*) $(-> $ret)? { body::<true>($($arg),*) } }
            match isa {
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Amx(token) => avx512(token.into(), $($arg),*),
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx512(token) => avx512(token, $($arg),*),
                #[cfg(target_arch = "x86_64")]
                $crate::Isa::Avx2(token) => avx2(token, $($arg),*),
                _ => body::<{ $crate::isa::GENERIC_FMA }>($($arg),*),
            }
        }
    )+};
}

/// Whether the baseline instructions of this target include a fused multiply-add.
pub(crate) const GENERIC_FMA: bool =
    cfg!(any(target_feature = "fma", target_arch = "aarch64", target_arch = "riscv64"));

/// `a·b + c`, rounded once if `FMA`, else twice: never a call into a mathematics library.
#[inline(always)]
pub(crate) fn mul_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

mod convert;
mod task;

pub(crate) use convert::fused;
pub use convert::{f32_to_i32, f32_to_i64, f64_to_i32, f64_to_i64};
pub use task::Task;

/// The cache levels for [`prefetch`]: the hints T0 and T1 of x86.
pub(crate) const FIRST_LEVEL: i32 = 3;
pub(crate) const SECOND_LEVEL: i32 = 2;

/// Prefetches the cache line of an address into the cache `LEVEL`. Any address is allowed: an invalid
/// one has no effect.
#[inline(always)]
pub(crate) fn prefetch<const LEVEL: i32>(line: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes nothing that a program can read.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<LEVEL>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(any(target_arch = "aarch64", target_feature = "simd128"))]
pub(crate) mod simd128;

#[cfg(target_arch = "aarch64")]
pub(crate) mod dotprod;

/// Loads and stores of registers from and to slices: the length is in the type, or determines the mask.
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use std::arch::x86_64::{
        __m256, __m256i, __m512, __m512i, _mm_castps_si128, _mm_cvtsi128_si64, _mm_cvtss_f32,
        _mm_movehl_ps, _mm_storeu_ps, _mm256_castps256_ps128, _mm256_extractf128_ps,
        _mm256_loadu_ps, _mm256_loadu_si256, _mm256_maskload_ps, _mm256_setzero_ps,
        _mm256_setzero_si256, _mm256_storeu_ps, _mm256_storeu_si256, _mm512_loadu_ps,
        _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_mask_storeu_ps,
        _mm512_maskz_loadu_epi8, _mm512_maskz_loadu_ps, _mm512_setzero_ps, _mm512_setzero_si512,
        _mm512_storeu_ps, _mm512_storeu_si512,
    };

    /// A mask of the first `n` of sixteen lanes, at most all.
    #[inline(always)]
    pub(crate) fn mask16(n: usize) -> u16 {
        // In two steps, because a shift by all sixteen bits would overflow.
        let half = n.min(16) / 2;
        !(u16::MAX << half << (n.min(16) - half))
    }

    features! { Avx512 enabled
        /// Loads up to 16 elements, followed by zeros.
        #[inline]
        pub(crate) fn load16(x: &[f32]) -> __m512 {
            match x.first_chunk::<16>() {
                // A masked load of nothing takes hundreds of cycles at an invalid address.
                None if x.is_empty() => _mm512_setzero_ps(),
                // SAFETY: the pointer is valid for the 16 elements of the array; no alignment is
                // required.
                Some(x) => unsafe { _mm512_loadu_ps(x.as_ptr()) },
                // SAFETY: lanes outside the mask are not read, and the mask has one bit per element.
                None => unsafe { _mm512_maskz_loadu_ps((1 << x.len()) - 1, x.as_ptr()) },
            }
        }
    }

    features! { Avx512 enabled
        /// Stores as many of 16 lanes as there are elements.
        #[inline]
        pub(crate) fn store16(x: &mut [f32], lanes: __m512) {
            if x.is_empty() {
                return;
            }
            match x.first_chunk_mut::<16>() {
                // SAFETY: the pointer is valid for the 16 elements of the array; no alignment is
                // required.
                Some(x) => unsafe { _mm512_storeu_ps(x.as_mut_ptr(), lanes) },
                // SAFETY: lanes outside the mask are not written, and the mask has one bit per
                // element.
                None => unsafe {
                    _mm512_mask_storeu_ps(x.as_mut_ptr(), (1 << x.len()) - 1, lanes);
                },
            }
        }
    }

    /// Eight ones and eight zeros: the eight entries starting at `8 - n` are a mask of `n` lanes.
    static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    features! { Avx2 enabled
        /// All bits of the first `n` of eight lanes, at most all.
        #[inline]
        pub(crate) fn mask8(n: usize) -> __m256i {
            let mask = MASKS[8 - n.min(8)..].as_ptr().cast();
            // SAFETY: 8 - n is at most 8, so 8 of the 16 entries follow it.
            unsafe { _mm256_loadu_si256(mask) }
        }
    }

    features! { Avx2 enabled
        /// Loads up to 8 elements, followed by zeros.
        #[inline]
        pub(crate) fn load8(x: &[f32]) -> __m256 {
            if let Some(x) = x.first_chunk::<8>() {
                // SAFETY: the pointer is valid for the 8 elements of the array; no alignment is
                // required.
                return unsafe { _mm256_loadu_ps(x.as_ptr()) };
            }
            if x.is_empty() {
                return _mm256_setzero_ps();
            }
            let mask = mask8(x.len());
            // SAFETY: lanes outside the mask are not read, and the mask has one lane per element.
            unsafe { _mm256_maskload_ps(x.as_ptr(), mask) }
        }
    }

    features! { Avx2 enabled
        /// Stores as many of 8 lanes as there are elements. In pieces if not all: processors up to
        /// Zen 3 take tens of cycles for a masked store.
        #[inline]
        pub(crate) fn store8(x: &mut [f32], lanes: __m256) {
            if let Some(x) = x.first_chunk_mut::<8>() {
                // SAFETY: the pointer is valid for the 8 elements of the array; no alignment is
                // required.
                return unsafe { _mm256_storeu_ps(x.as_mut_ptr(), lanes) };
            }
            let (fours, rest) = x.as_chunks_mut::<4>();
            let mut lanes4 = _mm256_castps256_ps128(lanes);
            if let [four] = fours {
                // SAFETY: the pointer is valid for the 4 elements of the array; no alignment is
                // required.
                unsafe { _mm_storeu_ps(four.as_mut_ptr(), lanes4) };
                lanes4 = _mm256_extractf128_ps::<1>(lanes);
            }
            let (twos, rest) = rest.as_chunks_mut::<2>();
            if let [two] = twos {
                *two = bytemuck::cast(_mm_cvtsi128_si64(_mm_castps_si128(lanes4)));
                lanes4 = _mm_movehl_ps(lanes4, lanes4);
            }
            if let [one] = rest {
                *one = _mm_cvtss_f32(lanes4);
            }
        }
    }

    features! { Avx512 enabled
        /// Loads 64 bytes.
        #[inline]
        pub(crate) fn load_bytes64(x: &[u8; 64]) -> __m512i {
            // SAFETY: the pointer is valid for the 64 bytes of the array; no alignment is required.
            unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
        }
    }

    features! { Avx512 enabled
        /// Loads up to 64 bytes, followed by zeros.
        #[inline]
        pub(crate) fn load_bytes(x: &[u8]) -> __m512i {
            match x.first_chunk() {
                Some(x) => load_bytes64(x),
                None if x.is_empty() => _mm512_setzero_si512(),
                // SAFETY: lanes outside the mask are not read, and the mask has one bit per byte.
                None => unsafe {
                    _mm512_maskz_loadu_epi8((1 << x.len()) - 1, x.as_ptr().cast())
                },
            }
        }
    }

    features! { Avx512 enabled
        /// Stores up to 64 bytes.
        #[inline]
        pub(crate) fn store_bytes(x: &mut [u8], lanes: __m512i) {
            if x.is_empty() {
                return;
            }
            match x.first_chunk_mut::<64>() {
                // SAFETY: the pointer is valid for the 64 bytes of the array; no alignment is required.
                Some(x) => unsafe { _mm512_storeu_si512(x.as_mut_ptr().cast(), lanes) },
                // SAFETY: lanes outside the mask are not written, and the mask has one bit per byte.
                None => unsafe {
                    _mm512_mask_storeu_epi8(x.as_mut_ptr().cast(), (1 << x.len()) - 1, lanes);
                },
            }
        }
    }

    features! { Avx512 enabled
        /// Stores 32 bytes.
        #[inline]
        pub(crate) fn store_bytes32(x: &mut [u8; 32], lanes: __m256i) {
            // SAFETY: the pointer is valid for the 32 bytes of the array; no alignment is required.
            unsafe { _mm256_storeu_si256(x.as_mut_ptr().cast(), lanes) }
        }
    }

    features! { Avx512 enabled
        /// Stores 16 lanes.
        #[inline]
        pub(crate) fn store_ints16(x: &mut [i32; 16], lanes: __m512i) {
            // SAFETY: the pointer is valid for the 64 bytes of the array; no alignment is required.
            unsafe { _mm512_storeu_si512(x.as_mut_ptr().cast(), lanes) }
        }
    }

    features! { Avx2 enabled
        /// Loads up to 32 bytes, followed by zeros.
        #[inline]
        pub(crate) fn load_up_to32(x: &[u8]) -> __m256i {
            let mut copy;
            let x = match x.first_chunk() {
                Some(x) => x,
                None if x.is_empty() => return _mm256_setzero_si256(),
                None => {
                    copy = [0; 32];
                    copy[..x.len()].copy_from_slice(x);
                    &copy
                }
            };
            load_bytes32(x)
        }
    }

    features! { Avx2 enabled
        /// Loads 32 bytes.
        #[inline]
        pub(crate) fn load_bytes32(x: &[u8; 32]) -> __m256i {
            // SAFETY: the pointer is valid for the 32 bytes of the array; no alignment is required.
            unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
        }
    }

    features! { Avx2 enabled
        /// Stores 8 lanes.
        #[inline]
        pub(crate) fn store_ints8(x: &mut [i32; 8], lanes: __m256i) {
            // SAFETY: the pointer is valid for the 32 bytes of the array; no alignment is required.
            unsafe { _mm256_storeu_si256(x.as_mut_ptr().cast(), lanes) }
        }
    }
}

#[cfg(test)]
mod tests;
