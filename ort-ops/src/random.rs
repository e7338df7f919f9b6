//! Random numbers, the same for the same seed on every machine.

use std::hash::{BuildHasher, RandomState};

/// A generator of pseudo-random numbers: SplitMix64. Not for secrets.
///
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Debug)]
pub(crate) struct Generator {
    state: u64,
}

impl Generator {
    /// A generator that starts from `seed`, by default from the process's random state.
    pub(crate) fn new(seed: Option<f32>) -> Self {
        let state = match seed {
            Some(seed) => u64::from(seed.to_bits()),
            None => RandomState::new().hash_one(0_u8),
        };
        Self { state }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniformly distributed in 0.0..1.0, of 53 random bits.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 * 2.0_f64.powi(-53)
    }

    /// Normally distributed with mean 0 and variance 1, by the method of Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        // 1 − u is never 0, so the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_sequence() {
        // The first numbers of the published generator from state 0.
        let mut generator = Generator { state: 0 };
        assert_eq!(
            [generator.next(), generator.next()],
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]
        );
        let draw = |seed| Generator::new(seed).uniform();
        assert_eq!(draw(Some(1.0)), draw(Some(1.0)));
        assert_ne!(draw(Some(1.0)), draw(Some(2.0)));
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        const N: i32 = 10_000;
        let mut generator = Generator::new(Some(7.0));
        let mut mean_of = |mut draw: Box<dyn FnMut(&mut Generator) -> f64>| {
            (0..N).map(|_| draw(&mut generator)).sum::<f64>() / f64::from(N)
        };
        // Five standard deviations of a mean over N draws.
        let bound = |variance: f64| 5.0 * (variance / f64::from(N)).sqrt();
        assert!((mean_of(Box::new(|g| g.uniform())) - 0.5).abs() < bound(1.0 / 12.0));
        assert!(mean_of(Box::new(|g| g.normal())).abs() < bound(1.0));
        assert!((mean_of(Box::new(|g| g.normal().powi(2))) - 1.0).abs() < bound(2.0));
    }
}
