//! What the machine can do at most, for the speed of nodes to be held against.

// collects are bounded: by the threads

use std::hint::black_box;
use std::thread;

use ort_kernels::{Isa, peak_gflops};
use web_time::{Duration, Instant};

use crate::IsaChoice;

/// Each thread copies so many bytes: more than the caches of a core hold.
const COPY_BYTES: usize = 32 << 20;
/// The fastest of so many copies counts.
const COPIES: usize = 5;

/// The peak performance of a machine: arithmetic is at most as fast as `gflops`, and memory as fast
/// as `gigabytes`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakPerformance {
    /// f32 operations a nanosecond: those of one core, times the threads.
    pub gflops: f64,
    /// Bytes a nanosecond between memory and the threads, read and written.
    pub gigabytes: f64,
}

impl PeakPerformance {
    /// Measures it with these instructions, or with those that every machine has where this one
    /// lacks them, and so many threads; takes some tens of milliseconds, and 64 MiB a thread
    /// meanwhile.
    #[must_use]
    pub fn measure(isa: IsaChoice, n_threads: usize) -> Self {
        let isa = isa.resolve().unwrap_or(Isa::Generic);
        #[expect(clippy::cast_precision_loss, reason = "there are fewer threads than 2^53")]
        let n_threads_f64 = n_threads as f64;
        Self { gflops: peak_gflops(isa) * n_threads_f64, gigabytes: bandwidth(n_threads) }
    }

    /// How long so much work takes at least.
    #[must_use]
    pub fn least_time(&self, n_flops: f64, n_bytes: f64) -> Duration {
        Duration::from_secs_f64((n_flops / self.gflops).max(n_bytes / self.gigabytes) * 1e-9)
    }

    /// Whether memory, not arithmetic, is what work of this kind waits for.
    #[must_use]
    pub fn is_memory_bound(&self, n_flops: f64, n_bytes: f64) -> bool {
        n_flops / self.gflops < n_bytes / self.gigabytes
    }
}

/// Bytes a nanosecond that all threads together copy, each its own: this one, and the others that the system
/// has.
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
    // Both are written before the first timing, so that none waits for the system's pages.
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
    fn a_machine_has_a_roof() {
        let peak = PeakPerformance::measure(IsaChoice::Best, 1);
        assert!(peak.gflops > 0.0 && peak.gigabytes > 0.0, "{peak:?}");
    }
}
