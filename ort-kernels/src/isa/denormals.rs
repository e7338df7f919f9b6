//! How this thread treats denormals, and detection of them.

use super::control;

/// While it exists, this thread treats denormals as zero, as operands and as results; dropping it
/// restores the thread's previous mode exactly.
///
/// Bound to its thread (`!Send`); guards nest. x86-64: MXCSR.FTZ and DAZ; AArch64: FPCR.FZ;
/// no effect on other targets. Constant folding by the compiler is not
/// affected.
#[derive(Debug)]
pub struct FlushDenormals {
    previous: control::Word,
    this_thread: std::marker::PhantomData<*const ()>,
}

impl FlushDenormals {
    /// Enables flushing on this thread.
    #[must_use = "flushing ends when the guard is dropped"]
    pub fn new() -> Self {
        let previous = control::read();
        control::write((previous | control::FLUSH) & !control::DENORMAL_SEEN);
        Self { previous, this_thread: std::marker::PhantomData }
    }

    /// Whether arithmetic of this thread encountered a denormal while the guard was held: a result that was
    /// flushed or an operand that was not. The processor does not record operands that were taken
    /// as zero.
    #[must_use]
    pub fn met_denormal(&self) -> bool {
        control::read() & control::DENORMAL_SEEN != 0
    }
}

impl Default for FlushDenormals {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for FlushDenormals {
    fn drop(&mut self) {
        // Flags set meanwhile stay set, as without the guard.
        control::write(self.previous | control::read() & control::DENORMAL_SEEN);
    }
}

/// While it exists, reports the denormals that arithmetic of this thread encounters, in any mode.
///
/// x86-64: the sticky flags of MXCSR, which are cleared at the beginning and merged with their previous values
/// at the end. They do not record x87, integers or matrix tiles. Other targets report
/// nothing. Bound to its thread (`!Send`); guards nest: what an inner one records, the outer one reports.
#[derive(Debug)]
pub struct WatchDenormals {
    previous: control::Word,
    this_thread: std::marker::PhantomData<*const ()>,
}

impl WatchDenormals {
    /// Whether this target reports anything.
    pub const IS_SUPPORTED: bool = control::DENORMAL_SEEN != 0;

    /// Starts recording.
    #[must_use = "watching ends when the guard is dropped"]
    pub fn new() -> Self {
        let previous = control::read();
        if previous & control::DENORMAL_SEEN != 0 {
            control::write(previous & !control::DENORMAL_SEEN);
        }
        Self { previous, this_thread: std::marker::PhantomData }
    }

    /// Whether an operand was denormal and used as such. Operands taken as zero are not recorded.
    #[must_use]
    pub fn met_operand(&self) -> bool {
        control::read() & control::OPERAND_SEEN != 0
    }

    /// Whether a result was too small for a normal number: flushed to zero, or rounded. A denormal result that is
    /// exact is not recorded; an operation that uses it has a denormal operand.
    #[must_use]
    pub fn met_result(&self) -> bool {
        control::read() & control::RESULT_SEEN != 0
    }
}

impl Default for WatchDenormals {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for WatchDenormals {
    fn drop(&mut self) {
        let seen = self.previous & control::DENORMAL_SEEN;
        let now = control::read();
        if now | seen != now {
            control::write(now | seen);
        }
    }
}
