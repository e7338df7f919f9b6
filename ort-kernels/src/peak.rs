//! A core's peak performance, to compare the speed of kernels with.

use std::hint::black_box;

use web_time::{Duration, Instant};

use crate::Isa;
use crate::isa::{GENERIC_FMA, mul_add};

/// Rounds of one timing: a fifth of a millisecond where a round takes eight cycles.
const ROUNDS: usize = 100_000;
/// The number of timings, the fastest of which counts: disturbances only make them slower.
const TIMINGS: usize = 24;

/// f32 operations per nanosecond of one core: measured with independent multiply-adds in
/// registers. Products on matrix [`tiles`](crate::tiles) can be faster. Takes a few
/// milliseconds.
#[must_use]
pub fn peak_gflops(isa: Isa) -> f64 {
    let timed = || {
        let start = Instant::now();
        let n_flops = multiply_adds(isa, ROUNDS);
        (n_flops, start.elapsed())
    };
    let speed = |(n_flops, time): (usize, Duration)| n_flops as f64 / time.as_nanos().max(1) as f64;
    (0..TIMINGS).map(|_| speed(timed())).fold(0.0, f64::max)
}

/// `y = y·a + b` in each lane of enough registers to hide the latency, `n_rounds` times; returns the
/// number of operations.
fn multiply_adds(isa: Isa, n_rounds: usize) -> usize {
    // `black_box` prevents constant folding. The limit of y is 2.
    let (a, b) = (black_box(0.5), black_box(1.0));
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx512() {
        return x86::avx512(token, n_rounds, a, b);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx2() {
        return x86::avx2(token, n_rounds, a, b);
    }
    let _ = isa;
    generic(n_rounds, a, b)
}

fn generic(n_rounds: usize, a: f32, b: f32) -> usize {
    const LANES: usize = 4;
    const REGISTERS: usize = 10;
    let mut y = [[a; LANES]; REGISTERS];
    for _ in 0..n_rounds {
        y = y.map(|y| y.map(|y| mul_add::<GENERIC_FMA>(y, a, b)));
    }
    black_box(y);
    2 * LANES * REGISTERS * n_rounds
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps};
    use std::hint::black_box;

    kernel! {
        Avx512 => pub(super) fn avx512(n_rounds: usize, a: f32, b: f32) -> usize {
            const REGISTERS: usize = 16;
            let (a, b) = (_mm512_set1_ps(a), _mm512_set1_ps(b));
            let mut y = [a; REGISTERS];
            for _ in 0..n_rounds {
                for y in &mut y {
                    *y = _mm512_fmadd_ps(*y, a, b);
                }
            }
            black_box(y);
            2 * 16 * REGISTERS * n_rounds
        }
    }

    kernel! {
        Avx2 => pub(super) fn avx2(n_rounds: usize, a: f32, b: f32) -> usize {
            const REGISTERS: usize = 12;
            let (a, b) = (_mm256_set1_ps(a), _mm256_set1_ps(b));
            let mut y = [a; REGISTERS];
            for _ in 0..n_rounds {
                for y in &mut y {
                    *y = _mm256_fmadd_ps(*y, a, b);
                }
            }
            black_box(y);
            2 * 8 * REGISTERS * n_rounds
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_has_a_peak() {
        for isa in Isa::all() {
            assert!(multiply_adds(isa, 3) > 0);
            assert!(peak_gflops(isa) > 0.0, "{}", isa.name());
        }
    }
}
