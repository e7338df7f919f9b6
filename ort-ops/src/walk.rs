//! One pass over a tensor that combines elements along some of its axes.
//!
//! ```text
//! merge neighbouring axes that are both kept or both reduced
//! the last merged axis is a run: contiguous in x
//! for each run of x:
//!     reduced: result[at] = combine(result[at], run[0] … run[n])
//!     kept:    result[at + i] = combine(result[at + i], run[i])
//! ```

use ort_tensor::{Pace, Shape, TensorError, by_pieces, filled, go_on};

/// How a tensor of some shape is walked to reduce it over some axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// The merged axes before the run, outermost first: elements, and how far apart in the result
    /// (0 where they are reduced).
    outer: Vec<(usize, usize)>,
    /// The elements of a run.
    run: usize,
    /// Whether a run ends in one element of the result.
    is_run_reduced: bool,
    /// The elements of the result.
    n_results: usize,
}

/// The number of independent partial results, so that additions need not wait for each other.
const N_PARTIAL: usize = 8;

impl Walk {
    /// The walk over a tensor of `shape`, reduced where `is_reduced` says; equally long.
    pub(crate) fn new(shape: &[usize], is_reduced: &[bool]) -> Self {
        let mut merged: Vec<(usize, bool)> = Vec::new();
        for (&dim, &is_reduced) in shape.iter().zip(is_reduced) {
            match merged.last_mut() {
                _ if dim == 1 => {}
                Some((len, same)) if *same == is_reduced => *len = len.saturating_mul(dim),
                _ => merged.push((dim, is_reduced)),
            }
        }
        let (run, is_run_reduced) = merged.pop().unwrap_or((1, true));
        let mut n_results = if is_run_reduced { 1 } else { run };
        // bounded: rank
        let mut outer = Vec::with_capacity(merged.len());
        for (len, is_reduced) in merged.into_iter().rev() {
            outer.push((len, if is_reduced { 0 } else { n_results }));
            n_results = if is_reduced { n_results } else { n_results.saturating_mul(len) };
        }
        outer.reverse();
        Self { outer, run, is_run_reduced, n_results }
    }

    /// `result[j] = combine(start, map(x[i]), …)` over all `i` reduced to `j`. `combine` must be
    /// associative and commutative up to rounding, with `start` neutral.
    pub(crate) fn fold<T: Copy, A: Copy>(
        &self,
        x: &[T],
        start: A,
        map: impl Fn(T) -> A,
        combine: impl Fn(A, A) -> A,
    ) -> Result<Vec<A>, TensorError> {
        let mut results = filled(start, self.n_results)?;
        self.for_each_run(x.chunks_exact(self.run.max(1)), |run, at| {
            if self.is_run_reduced {
                results[at] = combine(results[at], fold_run(run, start, &map, &combine)?);
            } else {
                let mut run = run.iter();
                by_pieces(&mut results[at..at + self.run], |_, results| {
                    let both = results.iter_mut().zip(&mut run);
                    both.for_each(|(result, &x)| *result = combine(*result, map(x)));
                })?;
            }
            Ok(())
        })?;
        Ok(results)
    }

    /// `update(x[i], results[j])` for all `i`, which are reduced to `j`.
    ///
    /// # Errors
    /// If the run was cancelled.
    pub(crate) fn spread<T, A>(
        &self,
        x: &mut [T],
        results: &[A],
        update: impl Fn(&mut T, &A),
    ) -> Result<(), TensorError> {
        self.for_each_run(x.chunks_exact_mut(self.run.max(1)), |run, at| {
            if self.is_run_reduced {
                by_pieces(run, |_, run| run.iter_mut().for_each(|x| update(x, &results[at])))
            } else {
                let mut results = results[at..].iter();
                by_pieces(run, |_, run| {
                    run.iter_mut().zip(&mut results).for_each(|(x, result)| update(x, result));
                })
            }
        })
    }

    /// Calls `f` with each run and where in the results it begins.
    fn for_each_run<R>(
        &self,
        runs: impl Iterator<Item = R>,
        mut f: impl FnMut(R, usize) -> Result<(), TensorError>,
    ) -> Result<(), TensorError> {
        // bounded: rank
        let mut index = Shape::from_elem(0, self.outer.len());
        let (mut at, mut pace) = (0, Pace::new());
        for run in runs {
            pace.go(self.run)?;
            f(run, at)?;
            // The next index, as an odometer counts.
            for (index, &(len, stride)) in index.iter_mut().zip(&self.outer).rev() {
                *index += 1;
                at += stride;
                if *index < len {
                    break;
                }
                at -= stride * *index;
                *index = 0;
            }
        }
        Ok(())
    }
}

fn fold_run<T: Copy, A: Copy>(
    run: &[T],
    start: A,
    map: impl Fn(T) -> A,
    combine: impl Fn(A, A) -> A,
) -> Result<A, TensorError> {
    let (blocks, rest) = run.as_chunks::<N_PARTIAL>();
    let rest = rest.iter().fold(start, |sum, &x| combine(sum, map(x)));
    if blocks.is_empty() {
        return Ok(rest);
    }
    let mut partial = [start; N_PARTIAL];
    for (i, blocks) in blocks.chunks(Pace::STEP).enumerate() {
        if i > 0 {
            go_on()?;
        }
        for block in blocks {
            for (partial, &x) in partial.iter_mut().zip(block) {
                *partial = combine(*partial, map(x));
            }
        }
    }
    Ok(partial.into_iter().fold(rest, combine))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbouring_axes_merge_and_ones_vanish() {
        let walk = |shape: &[usize], reduced: &[bool]| Walk::new(shape, reduced);
        assert_eq!(walk(&[2, 3, 1, 4], &[true; 4]), walk(&[24], &[true]));
        assert_eq!(walk(&[2, 1, 3], &[false, true, false]), walk(&[6], &[false]));
        assert_eq!(walk(&[], &[]).fold(&[7], 0, |x| x, |a, b| a + b).unwrap(), [7]);
    }

    proptest! {
        #[test]
        fn every_element_lands_where_its_kept_indices_say(
            axes in prop::collection::vec((0_usize..12, any::<bool>()), 0..5)
        ) {
            let shape: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
            let reduced: Vec<bool> = axes.iter().map(|axis| axis.1).collect();
            let n: usize = shape.iter().product();
            let kept = shape.iter().zip(&reduced).filter(|axis| !axis.1).map(|axis| axis.0);
            let mut expected = vec![0; kept.product()];
            for i in 0..n {
                let (mut rest, mut at, mut stride) = (i, 0, 1);
                for (&dim, &is_reduced) in shape.iter().zip(&reduced).rev() {
                    if !is_reduced {
                        at += rest % dim * stride;
                        stride *= dim;
                    }
                    rest /= dim;
                }
                expected[at] += i * i;
            }
            let x: Vec<usize> = (0..n).collect();
            let found = Walk::new(&shape, &reduced).fold(&x, 0, |x| x * x, |a, b| a + b).unwrap();
            prop_assert_eq!(found, expected);
        }
    }
}
