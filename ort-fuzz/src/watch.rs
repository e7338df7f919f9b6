//! The clock that ends mutants without end.

use std::fs::File;
use std::io::Write;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::attack::line;

/// How often the clock ticks.
const TICK: Duration = Duration::from_millis(50);
/// After so many ticks, a minute, the process reports the mutant that hangs, and exits.
const MAX_TICKS: u64 = 1200;

/// The code of a process that ended itself.
pub(crate) const HUNG: i32 = 3;

/// The seed of the current mutant.
static SEED: AtomicU64 = AtomicU64::new(0);
/// The ticks since it began. The clock does not tick while the process is stopped.
static TICKS: AtomicU64 = AtomicU64::new(0);

/// A mutant begins.
pub(crate) fn begin(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
    TICKS.store(0, Ordering::Relaxed);
}

/// Starts the clock, which reports to a file of findings.
pub(crate) fn start(mut findings: File) {
    begin(0);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(TICK);
            if TICKS.fetch_add(1, Ordering::Relaxed) > MAX_TICKS {
                let line = line(SEED.load(Ordering::Relaxed), "no end after a minute", "");
                let _ = findings.write_all(line.as_bytes());
                exit(HUNG);
            }
        }
    });
}
