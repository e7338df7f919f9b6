//! What filters reveal about their order, if nothing else does.
//!
//! The weights of one filter resemble each other more than those of different filters do: each has its own scale,
//! balance of signs and spread. Sixteen filters of n weights each are 2n runs of 8 numbers in memory, lane by lane.
//! In each lane, four sets of runs matter:
//!
//! ```text
//!               first half of the runs      second half
//!   even runs            a                       b
//!   odd runs             c                       d
//! ```
//!
//! In blocks of 16, a and b are of one filter, c and d of another; in blocks of 8 it is a and c, b and d. So each
//! lane is a vote, by which pairs have closer features: `|a−b|² + |c−d|² < |a−c|² + |b−d|²`, which is
//! `(a−d)·(c−b) < 0`, is one for 16. The two orders are mirror images, so random numbers vote for the wrong one in
//! half of the cases, and weights of filters in fewer. If n lanes vote independently, and wrong with a probability of
//! at most ½, a share of f or more votes wrong with a probability of at most `2^(−n·(1 − H(f)))`, where H is the
//! binary entropy (Chernoff).
//!
//! A verdict is certain if that bound is 2⁻³⁰ or less: one file in 10⁹. Of ten real models, with their filters in
//! blocks of 16 and of 8, all voted right, the weakest (a single convolution of 512 filters) with 2⁻³³, the others
//! with 2⁻¹⁰⁰ and less.

use ort_tensor::{Pace, Room, Tensor, TensorError};

/// A verdict is certain if it is wrong with a probability of two to the minus this, or less.
pub(super) const CERTAIN: f64 = 30.0;

/// The same for a verdict that is preferred to this machine's block size, which most files have. (Of 600 networks of
/// noise, two had seven of eight votes for the wrong size.)
pub(super) const LIKELY: f64 = 10.0;

/// After this many weights, no more vote. (The limit does not depend on the votes: stopping when a verdict is near
/// would be wrong more often.)
const MAX_WEIGHTS: usize = 1 << 22;

/// The number of features of a set.
const N_FEATURES: usize = 3;

/// Which block size the lanes of filters vote for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Votes {
    for_8: usize,
    for_16: usize,
    n_weights: usize,
}

impl Votes {
    /// Adds the votes of a convolution's filters, `[O, …]` in NCHWc, unless O is not a multiple of 16.
    ///
    /// # Errors
    /// If they are not float32.
    pub(super) fn count(&mut self, weights: &Tensor) -> Result<(), TensorError> {
        let n_filters = weights.shape().first().copied().unwrap_or(0);
        let is_enough = self.n_weights >= MAX_WEIGHTS;
        if is_enough || weights.is_empty() || !n_filters.is_multiple_of(16) {
            return Ok(());
        }
        self.n_weights += weights.len();
        let n_terms = weights.len() / n_filters;
        let mut lanes = lanes(weights.as_slice::<f32>()?, n_terms)?;
        standardize(&mut lanes);
        for [[a, b], [c, d]] in lanes {
            let terms = (0..N_FEATURES).map(|i| (a[i] - d[i]) * (c[i] - b[i]));
            match terms.sum::<f64>() {
                vote if vote < 0.0 => self.for_16 += 1,
                vote if vote > 0.0 => self.for_8 += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// How many votes there are.
    pub(super) const fn n(self) -> usize {
        self.for_8 + self.for_16
    }

    /// How many of them are for 16.
    pub(super) const fn n_for_16(self) -> usize {
        self.for_16
    }

    /// The block size with most votes, if it is wrong with a probability of at most two to the minus `n_bits`.
    pub(super) fn winner(self, n_bits: f64) -> Option<usize> {
        let n = self.n() as f64;
        let share = self.for_16 as f64 / n.max(1.0);
        let entropy: f64 = [share, 1.0 - share].into_iter().map(information).sum();
        let is_enough = n * (1.0 - entropy) >= n_bits;
        is_enough.then_some(if self.for_16 > self.for_8 { 16 } else { 8 })
    }
}

/// `−p·log₂ p`.
fn information(p: f64) -> f64 {
    if p > 0.0 { -p * p.log2() } else { 0.0 }
}

/// The features of the four sets of a lane, `[odd][second half]`.
type Lane = [[[f64; N_FEATURES]; 2]; 2];

/// The lanes of all filters, 16 filters at a time, without those that are not finite.
fn lanes(weights: &[f32], n_terms: usize) -> Result<Room<Lane>, TensorError> {
    let (mut sum, mut pace) = (0.0, Pace::new());
    for weights in weights.chunks(Pace::STEP) {
        pace.go(weights.len())?;
        sum = weights.iter().fold(sum, |sum, weight| sum + f64::from(weight.abs()));
    }
    let scale = sum / weights.len() as f64;
    let mut lanes = Room::new();
    for strip in weights.chunks_exact(16 * n_terms) {
        let mut sums = [[[Sums::default(); 8]; 2]; 2];
        for (run, weights) in strip.chunks_exact(8).enumerate() {
            pace.go(8)?;
            let sums = &mut sums[run % 2][usize::from(run >= n_terms)];
            sums.iter_mut().zip(weights).for_each(|(sums, &weight)| sums.add(weight));
        }
        for lane in 0..8 {
            let lane: Lane = sums.map(|halves| halves.map(|half| half[lane].features(scale)));
            if lane.as_flattened().as_flattened().iter().all(|feature| feature.is_finite()) {
                lanes.push(lane)?;
            }
        }
    }
    Ok(lanes)
}

/// Sums over a set of weights.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    n: f64,
    plain: f64,
    absolute: f64,
    squared: f64,
}

impl Sums {
    fn add(&mut self, weight: f32) {
        let weight = f64::from(weight);
        self.n += 1.0;
        self.plain += weight;
        self.absolute += weight.abs();
        self.squared += weight * weight;
    }

    /// Scale, in proportion to that of all weights; balance of signs; spread.
    fn features(self, scale: f64) -> [f64; N_FEATURES] {
        // Sets of almost zeros are all equal.
        const LEAST: f64 = 1e-3;
        if self.n == 0.0 {
            return [f64::NAN; N_FEATURES];
        }
        let mean = self.absolute / self.n;
        let size = if scale > 0.0 { mean / scale } else { 0.0 };
        if self.absolute == 0.0 {
            return [LEAST.ln(), 0.0, 0.0];
        }
        [
            (size + LEAST).ln(),
            self.plain / self.absolute,
            (self.squared / self.n / mean / mean).ln(),
        ]
    }
}

/// Subtracts from each feature what all lanes have in common, the effect of the position in memory, and gives all
/// features the same weight.
fn standardize(lanes: &mut [Lane]) {
    let n = lanes.len() as f64;
    for feature in 0..N_FEATURES {
        let mut variance = 0.0;
        for (odd, half) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let mean = lanes.iter().map(|lane| lane[odd][half][feature]).sum::<f64>() / n;
            for lane in &mut *lanes {
                let value = &mut lane[odd][half][feature];
                *value -= mean;
                variance += *value * *value / (4.0 * n);
            }
        }
        // Rounding alone makes no difference between lanes.
        let factor = if variance > 1e-18 { variance.sqrt().recip() } else { 0.0 };
        for value in lanes.iter_mut().flat_map(|lane| lane.as_flattened_mut()) {
            value[feature] *= factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_ops::blocked::{FilterForm, blocked_filter};

    use super::*;
    use crate::nchwc::tests::Noise;

    /// Filters in NCHWc, of the same scale or each with its own.
    fn filters(block: usize, has_scales: bool) -> Tensor {
        let mut noise = Noise::new(7);
        let weights: Vec<f32> = (0..1024)
            .flat_map(|_| {
                let scale = if has_scales { (2.0 * noise.next()).exp() } else { 1.0 };
                (0..16 * 9).map(|_| scale * noise.next()).collect::<Vec<f32>>()
            })
            .collect();
        let weights = Tensor::from_slice(&[1024, 16, 3, 3], &weights).unwrap();
        blocked_filter(weights.view(), FilterForm::InputsAndOutputs, block).unwrap()
    }

    #[test]
    fn filters_of_different_scales_reveal_their_order_and_noise_does_not() {
        for (block, has_scales, expected) in
            [(8, true, Some(8)), (16, true, Some(16)), (8, false, None), (16, false, None)]
        {
            let mut votes = Votes::default();
            votes.count(&filters(block, has_scales)).unwrap();
            assert_eq!(votes.winner(CERTAIN), expected, "{block} {votes:?}");
        }
    }

    #[test]
    fn few_votes_and_equal_numbers_decide_nothing() {
        let of = |for_8, for_16| Votes { for_8, for_16, n_weights: 0 };
        assert_eq!(of(0, 29).winner(CERTAIN), None);
        assert_eq!(of(0, 30).winner(CERTAIN), Some(16));
        assert_eq!(of(60, 40).winner(CERTAIN), None);
        assert_eq!(of(9, 0).winner(LIKELY), None);
        assert_eq!(of(10, 0).winner(LIKELY), Some(8));
        assert_eq!(Votes::default().winner(LIKELY), None);
        let mut votes = Votes::default();
        for fill in [0.0, 1.0, f32::NAN] {
            votes.count(&Tensor::from_slice(&[16, 4, 1, 1], &[fill; 64]).unwrap()).unwrap();
        }
        assert_eq!(votes.n(), 0);
    }
}
