//! Rows in registers: folds, softmax and normalization, written once for every register width.
//!
//! The lanes, their order and the bits are those of [`super::reduce`] and [`super::formula`]. There
//! the compiler keeps lanes in memory, which takes longer than a short row.

#[cfg(target_arch = "x86_64")]
#[macro_use]
mod folds;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod norm;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod softmax;

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

/// Lanes of a row.
#[cfg(target_arch = "x86_64")]
const ALL: usize = 64;

/// Returns what the function computes in registers, if the instruction set has them.
macro_rules! by_registers {
    ($isa:expr => $function:ident($($arg:expr),*)) => {
        #[cfg(target_arch = "x86_64")]
        {
            use $crate::vec::registers::{avx2, avx512};
            if let Some(token) = $isa.avx512() {
                return avx512::$function(token, $($arg),*);
            }
            if let Some(token) = $isa.avx2() {
                return avx2::$function(token, $($arg),*);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = $isa;
    };
}
