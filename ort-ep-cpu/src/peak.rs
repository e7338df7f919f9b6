//! The machine's peak performance, to compare the speed of nodes with.

// collects are bounded: by the threads

use std::hint::black_box;
use std::thread;

use ort_kernels::{Isa, peak_gflops};
use web_time::{Duration, Instant};

use crate::IsaChoice;

/// Bytes that each thread copies: more than the caches of a core hold.
const COPY_BYTES: usize = 32 << 20;
/// The number of copies, the fastest of which counts.
const COPIES: usize = 5;

/// The peak performance of a machine: `gflops` bounds arithmetic, and `gigabytes` bounds
/// memory traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakPerformance {
    /// f32 operations per nanosecond: those of one core, times the threads.
    pub gflops: f64,
    /// Bytes per nanosecond between memory and the threads, read and written.
    pub gigabytes: f64,
}

impl PeakPerformance {
    /// Measures it with this instruction set, or the baseline if the machine does not
    /// support it, and this number of threads; takes some tens of milliseconds, and temporarily 64 MiB
    /// per thread.
    #[must_use]
    pub fn measure(isa: IsaChoice, n_threads: usize) -> Self {
        let isa = isa.resolve().unwrap_or(Isa::Generic);
        #[expect(clippy::cast_precision_loss, reason = "there are fewer threads than 2^53")]
        let n_threads_f64 = n_threads as f64;
        Self { gflops: peak_gflops(isa) * n_threads_f64, gigabytes: bandwidth(n_threads) }
    }

    /// A lower bound on the time that this work takes.
    #[must_use]
    pub fn least_time(&self, n_flops: f64, n_bytes: f64) -> Duration {
        Duration::from_secs_f64((n_flops / self.gflops).max(n_bytes / self.gigabytes) * 1e-9)
    }

    /// Whether work of this kind is bound by memory rather than arithmetic.
    #[must_use]
    pub fn is_memory_bound(&self, n_flops: f64, n_bytes: f64) -> bool {
        n_flops / self.gflops < n_bytes / self.gigabytes
    }
}

/// Bytes per nanosecond that all threads together copy, each its own: this thread and the others that could be
/// started.
fn bandwidth(n_threads: usize) -> f64 {
    let speeds = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, copy_speed).ok();
        let threads: Vec<_> = (1..n_threads).filter_map(spawn).collect();
        let own = copy_speed();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0.0)).sum::<f64>() + own
    });
    speeds.max(f64::MIN_POSITIVE)
}

fn copy_speed() -> f64 {
    // Both are written before the first timing, so that no copy has page faults.
    // bounded: a constant
    let (from, mut to) = (vec![1_u8; COPY_BYTES], vec![2_u8; COPY_BYTES]);
    let timed = |to: &mut [u8]| {
        let start = Instant::now();
        to.copy_from_slice(black_box(&from));
        black_box(to);
        start.elapsed()
    };
    let fastest = (0..COPIES).map(|_| timed(&mut to)).min().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "both are far below 2^53")]
    let speed = (2 * COPY_BYTES) as f64 / fastest.as_nanos().max(1) as f64;
    speed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_arithmetic_and_memory_bounds_the_time() {
        let peak = PeakPerformance { gflops: 100.0, gigabytes: 10.0 };
        assert_eq!(peak.least_time(2e9, 1e6), Duration::from_millis(20));
        assert!(!peak.is_memory_bound(2e9, 1e6));
        assert_eq!(peak.least_time(1e6, 1e8), Duration::from_millis(10));
        assert!(peak.is_memory_bound(1e6, 1e8));
    }

    #[test]
    fn a_machine_has_a_peak() {
        let peak = PeakPerformance::measure(IsaChoice::Best, 1);
        assert!(peak.gflops > 0.0 && peak.gigabytes > 0.0, "{peak:?}");
    }
}
