//! The numbers that define a case: drawn at random, or read from a script, so that a case can be repeated with some
//! of them smaller.
//!
//! Every choice is recorded as a number of which 0 is the simplest choice. Shrinking a case is then shrinking a list
//! of numbers, and works for every family.

use ort_testing::Rng;

/// The source of the numbers of a case.
#[derive(Clone, Debug)]
pub struct Draw {
    rng: Option<Rng>,
    script: Vec<u64>,
    taken: Vec<u64>,
    budget: usize,
}

impl Draw {
    /// New numbers, for a case that takes about `budget` multiply-adds at most.
    pub const fn random(seed: u64, budget: usize) -> Self {
        Self { rng: Some(Rng::new(seed)), script: Vec::new(), taken: Vec::new(), budget }
    }

    /// The numbers of a script, then the simplest ones.
    pub const fn replay(script: Vec<u64>, budget: usize) -> Self {
        Self { rng: None, script, taken: Vec::new(), budget }
    }

    /// The numbers drawn so far.
    pub fn taken(&self) -> &[u64] {
        &self.taken
    }

    /// About how many multiply-adds the case may take.
    pub const fn budget(&self) -> usize {
        self.budget
    }

    /// A number below `n`, drawn by `distribution` or read from the script, and then clamped.
    fn choose(&mut self, n: usize, distribution: impl FnOnce(&mut Rng) -> usize) -> usize {
        let drawn = match &mut self.rng {
            Some(rng) => distribution(rng),
            None => {
                let number = self.script.get(self.taken.len()).copied().unwrap_or(0);
                usize::try_from(number).unwrap_or(usize::MAX)
            }
        };
        let drawn = drawn.min(n.saturating_sub(1));
        self.taken.push(drawn as u64);
        drawn
    }

    /// A number from `low` to `high`, all equally likely.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        let n = high.saturating_sub(low) + 1;
        low + self.choose(n, |rng| rng.index(n))
    }

    /// A number from `low` to `high`: one time in three uniform, else log-uniform, so that there are as many sizes of
    /// one digit as of three.
    pub fn size(&mut self, low: usize, high: usize) -> usize {
        let low = low.max(1);
        let n = high.saturating_sub(low) + 1;
        low + self.choose(n, |rng| {
            if rng.index(3) == 0 {
                return rng.index(n);
            }
            let (from, to) = ((low as f64).ln(), ((low + n) as f64).ln());
            let at = (f64::from(rng.uniform()) + 1.0) / 2.0;
            let size = (from + at * (to - from)).exp();
            // The number was passed as a `usize`.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "floor")]
            let size = size as usize;
            size.saturating_sub(low)
        })
    }

    /// One of these; the first is the simplest.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let n = items.len();
        items[self.choose(n, |rng| rng.index(n))]
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.choose(2, |rng| usize::from(rng.index(n) == 0)) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(draw: &mut Draw) -> (usize, usize, char, bool) {
        (draw.between(2, 9), draw.size(3, 500), draw.pick(&['a', 'b', 'c']), draw.one_in(2))
    }

    #[test]
    fn a_script_gives_the_same_numbers_again() {
        for seed in 0..100 {
            let mut draw = Draw::random(seed, 0);
            let first = some(&mut draw);
            assert!((2..=9).contains(&first.0) && (3..=500).contains(&first.1), "{first:?}");
            assert_eq!(some(&mut Draw::replay(draw.taken().to_vec(), 0)), first);
        }
    }

    #[test]
    fn an_empty_script_gives_the_simplest() {
        assert_eq!(some(&mut Draw::replay(Vec::new(), 0)), (2, 3, 'a', false));
        assert_eq!(some(&mut Draw::replay(vec![100, 1000, 7, 7], 0)), (9, 500, 'c', true));
    }
}
