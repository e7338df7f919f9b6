//! The smallest case that still fails.

use super::check::{Failure, Setting, Ways, check};
use super::coverage::Coverage;
use super::draw::Draw;
use super::families::{Family, case_of};

/// The most runs of a search.
const MAX_RUNS: usize = 400;

/// The smallest case found that fails in the same setting, with its failure.
pub(crate) fn shrink(
    family: &Family,
    (script, budget): (&[u64], usize),
    setting: Option<Setting>,
) -> Option<(super::Case, Failure)> {
    let ways = setting.map_or(Ways::All, Ways::Only);
    let fails = |script: &[u64]| {
        let mut draw = Draw::replay(script.to_vec(), budget);
        let case = case_of(family, &mut draw);
        let failure = check(&case, ways, &Coverage::default()).err()?;
        // A case that even `Reference` rejects is another failure.
        (failure.setting == setting).then_some((case, failure))
    };
    let mut best = script.to_vec();
    let mut found = fails(&best);
    let (mut n_runs, mut has_changed) = (1, found.is_some());
    while std::mem::take(&mut has_changed) {
        for i in 0..best.len() {
            let n = best[i];
            for smaller in [0, n / 2, n - n / 4, n.saturating_sub(1)] {
                if smaller >= best[i] || n_runs >= MAX_RUNS {
                    continue;
                }
                let mut script = best.clone();
                script[i] = smaller;
                n_runs += 1;
                if let Some(smaller) = fails(&script) {
                    (best, found, has_changed) = (script, Some(smaller), true);
                }
            }
        }
    }
    found
}
