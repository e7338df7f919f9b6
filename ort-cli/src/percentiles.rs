//! Percentiles of times.

use std::time::Duration;

use crate::number::as_f64;

/// Times in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Percentiles(Vec<Duration>);

impl Percentiles {
    /// Of these times.
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The time that `percent` of all do not exceed, interpolated linearly between neighbours. Zero
    /// if there are none.
    ///
    /// Source: R. Hyndman, Y. Fan, "Sample quantiles in statistical packages", 1996, definition 7;
    /// numpy's default.
    pub(crate) fn at(&self, percent: f64) -> Duration {
        let Some(last) = self.0.len().checked_sub(1) else { return Duration::ZERO };
        let place = (percent / 100.0).clamp(0.0, 1.0) * as_f64(last);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to last")]
        let below = place.floor() as usize;
        let above = (below + 1).min(last);
        let part = place - as_f64(below);
        self.0[below] + (self.0[above] - self.0[below]).mul_f64(part)
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_their_neighbours() {
        let of = |millis: &[u64]| {
            Percentiles::of(millis.iter().map(|&n| Duration::from_millis(n)).collect())
        };
        let hundred: Vec<u64> = (0..=100).rev().collect();
        for (millis, percent, expected) in [
            (&hundred[..], 10.0, 10.0),
            (&hundred, 99.0, 99.0),
            (&hundred, 0.0, 0.0),
            (&hundred, 100.0, 100.0),
            (&[3, 1], 50.0, 2.0),
            (&[1, 2, 10], 75.0, 6.0),
            (&[7], 99.0, 7.0),
            (&[], 50.0, 0.0),
        ] {
            let found = of(millis).at(percent).as_secs_f64() * 1e3;
            // A duration counts nanoseconds.
            assert!((found - expected).abs() <= 1e-6, "{percent} of {millis:?}: {found}");
        }
    }
}
