//! How this thread treats denormals, and which it meets.

use super::control;

/// While it lives, this thread treats denormals as zero, as operands and as results; dropping it
/// gives the thread back exactly the mode it had.
///
/// It belongs to its thread (`!Send`) and nests. x86-64: MXCSR.FTZ and DAZ; AArch64: FPCR.FZ;
/// elsewhere it does nothing. Arithmetic the compiler did beforehand, on constants, is not
/// affected.
#[derive(Debug)]
pub struct FlushDenormals {
    previous: control::Word,
    this_thread: std::marker::PhantomData<*const ()>,
}

impl FlushDenormals {
    /// Switches this thread to flushing.
    #[must_use = "flushing ends when the guard is dropped"]
    pub fn new() -> Self {
        let previous = control::read();
        control::write((previous | control::FLUSH) & !control::DENORMAL_SEEN);
        Self { previous, this_thread: std::marker::PhantomData }
    }

    /// Whether arithmetic of this thread met a denormal while the guard was held: a result that was
    /// flushed or an operand that was not. An operand taken as zero leaves no trace in the
    /// processor.
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
        // What was seen stays seen, as it would have without the guard.
        control::write(self.previous | control::read() & control::DENORMAL_SEEN);
    }
}

/// While it lives, tells what denormals arithmetic of this thread meets, in whatever mode the thread is.
///
/// x86-64: the sticky flags of MXCSR, which are cleared at the beginning and joined with those of before
/// at the end. Neither x87, nor integers, nor matrix tiles leave a trace in them. Elsewhere nothing is
/// told. It belongs to its thread (`!Send`) and nests: what an inner one saw the outer one tells.
#[derive(Debug)]
pub struct WatchDenormals {
    previous: control::Word,
    this_thread: std::marker::PhantomData<*const ()>,
}

impl WatchDenormals {
    /// Whether this processor tells anything.
    pub const IS_TOLD: bool = control::DENORMAL_SEEN != 0;

    /// Begins to watch.
    #[must_use = "watching ends when the guard is dropped"]
    pub fn new() -> Self {
        let previous = control::read();
        if previous & control::DENORMAL_SEEN != 0 {
            control::write(previous & !control::DENORMAL_SEEN);
        }
        Self { previous, this_thread: std::marker::PhantomData }
    }

    /// Whether an operand was denormal and counted as such. One that counted as zero leaves no trace.
    #[must_use]
    pub fn met_operand(&self) -> bool {
        control::read() & control::OPERAND_SEEN != 0
    }

    /// Whether a result was too small for a normal number: flushed to zero, or rounded. One that is kept
    /// and exact leaves no trace; whoever computes with it meets a denormal operand.
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
