//! The processor time of the process.

use std::time::Duration;

/// The processor time that all threads of this process have used, including those that have exited. A
/// difference divided by the elapsed time is the number of busy processors. `None` where the
/// system has no such clock.
///
/// Source: POSIX.1-2017, clock_gettime, CLOCK_PROCESS_CPUTIME_ID.
pub fn cpu_time() -> Option<Duration> {
    now()
}

#[cfg(unix)]
fn now() -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};

    clock_gettime(ClockId::ProcessCPUTime).try_into().ok()
}

#[cfg(not(unix))]
fn now() -> Option<Duration> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::cpu_time;

    #[test]
    fn it_increases_while_the_process_computes() {
        let before = cpu_time().unwrap();
        while cpu_time().unwrap() == before {}
        assert!(cpu_time().unwrap() > before);
    }
}
