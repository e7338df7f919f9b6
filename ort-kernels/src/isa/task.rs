//! Generic work that is compiled for each instruction set.

use super::{GENERIC_FMA, Isa};

/// Generic work, compiled for each instruction set by [`Isa::run`].
pub trait Task {
    /// The result.
    type Output;
    /// Whether AVX-512 is worth code of its own. If not, a machine with AVX-512 runs the code for AVX2, which makes the
    /// library smaller: for simple work that is compiled for many types, and that memory bounds beyond the first-level
    /// cache. Not for 64-bit elements, whose maximum, minimum and product AVX2 lacks: 2.6 times slower (ReduceMax of int64).
    const IS_WIDE: bool = true;

    /// Does the work. `FMA`: a fused multiply-add is one instruction. Implementations must be
    /// `#[inline(always)]`; otherwise they are compiled for the baseline only.
    fn run<const FMA: bool>(self) -> Self::Output;
}

#[cfg(target_arch = "x86_64")]
kernel! { Avx512 => fn run_avx512[T: Task](task: T) -> T::Output { task.run::<true>() } }
#[cfg(target_arch = "x86_64")]
kernel! { Avx2 => fn run_avx2[T: Task](task: T) -> T::Output { task.run::<true>() } }

impl Isa {
    /// Does the work with the instructions of this set.
    #[inline]
    pub fn run<T: Task>(self, task: T) -> T::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(token) if T::IS_WIDE => run_avx512(token.into(), task),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(token) if T::IS_WIDE => run_avx512(token, task),
            #[cfg(target_arch = "x86_64")]
            Self::Amx(token) => run_avx2(super::Avx512::from(token).into(), task),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(token) => run_avx2(token.into(), task),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(token) => run_avx2(token, task),
            _ => task.run::<GENERIC_FMA>(),
        }
    }
}
