//! The register with the floating-point modes of this thread.
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(unsafe_code, reason = "reads and writes a control register")
)]

pub(super) use of_processor::{DENORMAL_SEEN, FLUSH, OPERAND_SEEN, RESULT_SEEN, Word, read, write};

#[cfg(target_arch = "x86_64")]
mod of_processor {
    use std::arch::asm;

    pub(in crate::isa) type Word = u32;
    /// Flush-to-zero (bit 15) and denormals-are-zero (bit 6). Source: Intel SDM volume 1, 10.2.3.
    pub(in crate::isa) const FLUSH: Word = 1 << 15 | 1 << 6;
    /// The sticky flag of a denormal operand (bit 1).
    pub(in crate::isa) const OPERAND_SEEN: Word = 1 << 1;
    /// The sticky flag of an underflow (bit 4).
    pub(in crate::isa) const RESULT_SEEN: Word = 1 << 4;
    pub(in crate::isa) const DENORMAL_SEEN: Word = OPERAND_SEEN | RESULT_SEEN;

    pub(in crate::isa) fn read() -> Word {
        let mut word = 0;
        // SAFETY: stores four bytes into `word`, which outlives the instruction.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags));
        }
        word
    }

    pub(in crate::isa) fn write(word: Word) {
        // SAFETY: loads four bytes of `word`, which came from `read` with defined bits changed, so
        // no reserved bit is set. Exceptions stay masked and rounding is unchanged; only the treatment of denormals
        // changes, as the caller intends for all following operations.
        // The compiler assumes the default mode: constant folding keeps denormals,
        // and nothing else follows from the assumption.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack));
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod of_processor {
    use std::arch::asm;

    pub(in crate::isa) type Word = u64;
    /// Flush-to-zero (bit 24). Source: Arm ARM, FPCR.
    pub(in crate::isa) const FLUSH: Word = 1 << 24;
    /// The sticky flags are in another register, FPSR, and are not read.
    pub(in crate::isa) const OPERAND_SEEN: Word = 0;
    pub(in crate::isa) const RESULT_SEEN: Word = 0;
    pub(in crate::isa) const DENORMAL_SEEN: Word = 0;

    pub(in crate::isa) fn read() -> Word {
        let word;
        // SAFETY: reads a register that user code may read.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack)) }
        word
    }

    pub(in crate::isa) fn write(word: Word) {
        // SAFETY: writes a register that user code may write, with only the flush bit changed.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack)) }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod of_processor {
    pub(in crate::isa) type Word = u32;
    pub(in crate::isa) const FLUSH: Word = 0;
    pub(in crate::isa) const OPERAND_SEEN: Word = 0;
    pub(in crate::isa) const RESULT_SEEN: Word = 0;
    pub(in crate::isa) const DENORMAL_SEEN: Word = 0;

    pub(in crate::isa) fn read() -> Word {
        0
    }

    pub(in crate::isa) fn write(_: Word) {}
}
