//! Discrete Fourier transforms of many sequences at once, one per lane.
//!
//! ```text
//! transform(x, n = r₁ · r₂ · …):          Stockham's algorithm: no reordering
//!     s = 1
//!     for each r:
//!         m = n / (s · r)
//!         for p < m, k < r:
//!             y[s·(r·p + k) + q] = Σ_j x[s·(p + m·j) + q] · w^(n/r · j·k + s·p·k)      for all q < s
//!         swap x and y; s = s · r
//! ```
//!
//! where `w = exp(−2πi / n)`. Sums are vectorised: over runs of `s` numbers of every sequence.
//! The inverse transform exchanges real and imaginary parts before and after.

use std::ops::Range;

/// The number of sequences transformed at once.
pub const LANES: usize = 16;

/// The numbers of [`LANES`] sequences, interleaved by index: real and imaginary parts,
/// each [`LANES`] times the length.
#[derive(Debug)]
pub struct Planes<'a> {
    /// Real parts.
    pub re: &'a mut [f64],
    /// Imaginary parts.
    pub im: &'a mut [f64],
}

impl<'a> Planes<'a> {
    /// The number of elements that [`Planes::pair`] needs for sequences of `n` numbers.
    #[must_use]
    pub const fn pair_len(n: usize) -> usize {
        4 * n * LANES
    }

    /// Splits scratch of at least [`Planes::pair_len`] elements into two.
    #[must_use]
    pub fn pair(scratch: &'a mut [f64], n: usize) -> [Self; 2] {
        let mut parts = scratch[..Self::pair_len(n)].chunks_exact_mut((n * LANES).max(1));
        let mut part = || parts.next().unwrap_or_default();
        [(); 2].map(|()| Planes { re: part(), im: part() })
    }

    fn reborrow(&mut self) -> Planes<'_> {
        Planes { re: self.re, im: self.im }
    }
}

/// The radices of the stages of a transform of length `n`: fours first, then primes; none for 0 and 1.
pub fn radices(n: usize) -> impl Iterator<Item = usize> {
    let mut rest = n.max(1);
    let mut least = 2;
    std::iter::from_fn(move || {
        if rest == 1 {
            return None;
        }
        if rest.is_multiple_of(4) {
            rest /= 4;
            return Some(4);
        }
        while !rest.is_multiple_of(least) {
            least = if least * least > rest { rest } else { least + 1 };
        }
        rest /= least;
        Some(least)
    })
}

/// The cost of a sequence of `n` numbers, in multiply-adds.
#[must_use]
pub fn cost(n: usize) -> usize {
    radices(n).fold(0, |sum: usize, r| sum.saturating_add(n.saturating_mul(4 * r)))
}

/// `roots[i] = exp(−2πi · k / n)` for `k = first + i`, real and imaginary part: each rounded once.
pub fn fill_roots(roots: &mut [[f64; 2]], first: usize, n: usize) {
    for (k, root) in (first..).zip(roots) {
        let (sin, cos) = (-std::f64::consts::TAU * k as f64 / n as f64).sin_cos();
        *root = [cos, sin];
    }
}

/// `y[k] = Σ x[j] · exp(−2πi · j·k / n)` of each lane, with the `n` roots of [`fill_roots`]. Both planes
/// are overwritten; the returned one holds the result, unless `may_continue`, which is called every few
/// million multiply-adds, returned false.
///
/// Error: of each part at most `2⁻⁵³ · (5 + Σ (r + 2)) · Σ |x[j]|`, with the sum over the [`radices`]: every
/// stage sums `r` products, each with a rounded root.
pub fn transform<'a>(
    isa: crate::Isa,
    roots: &[[f64; 2]],
    x: Planes<'a>,
    y: Planes<'a>,
    may_continue: impl Fn() -> bool,
) -> Planes<'a> {
    /// Multiply-adds per piece of a stage.
    const PIECE: usize = 1 << 22;
    in_pieces(isa, roots, [x, y], PIECE, may_continue)
}

/// The same in pieces of some number of multiply-adds.
fn in_pieces<'a>(
    isa: crate::Isa,
    roots: &[[f64; 2]],
    [mut x, mut y]: [Planes<'a>; 2],
    piece: usize,
    may_continue: impl Fn() -> bool,
) -> Planes<'a> {
    let mut s = 1;
    for r in radices(roots.len()) {
        let run = s * LANES;
        let n_runs = (piece / run / r).max(1);
        // A run of a large prime has more terms than a piece.
        let n_terms = (piece / run).next_multiple_of(TERMS).max(TERMS);
        let pieces = y.re.chunks_mut(n_runs * run).zip(y.im.chunks_mut(n_runs * run));
        for (i, (re, im)) in pieces.enumerate() {
            for first in (0..r).step_by(n_terms) {
                if !may_continue() {
                    return x;
                }
                let terms = first..r.min(first + n_terms);
                let y = Planes { re: &mut *re, im: &mut *im };
                stage(isa, ([r, s, i * n_runs], terms), roots, x.reborrow(), y);
            }
        }
        std::mem::swap(&mut x, &mut y);
        s *= r;
    }
    x
}

/// `a·b + c`, rounded once if `FMA`, else twice.
#[inline(always)]
fn mul_add<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Roots per pass of a sum.
const TERMS: usize = 4;

per_isa! {
    fn stage<FMA>(
        place: ([usize; 3], Range<usize>),
        roots: &[[f64; 2]],
        x: Planes<'_>,
        y: Planes<'_>,
    ) {
        let (([r, s, first_run], terms), n) = (place, roots.len());
        let run = s * LANES;
        let m = n / (s * r);
        let outputs = y.re.chunks_exact_mut(run).zip(y.im.chunks_exact_mut(run));
        for (i, (re, im)) in (first_run..).zip(outputs) {
            let (p, k) = (i / r, i % r);
            let step = n / r * k;
            // The product of two indices may exceed `usize`.
            let skipped = step as u64 * terms.start as u64 % n as u64;
            let mut at = (s * p * k + usize::try_from(skipped).unwrap_or(0)) % n;
            for first in terms.clone().step_by(TERMS) {
                let n_terms = TERMS.min(terms.end - first);
                // Loops, not `map`: functions that an array's methods call are compiled for the baseline only.
                let mut all: Terms<'_> = [([&[]; 2], [0.0; 2]); TERMS];
                for (j, term) in (first..).zip(&mut all[..n_terms]) {
                    let from = run * (p + m * j);
                    *term = ([&x.re[from..from + run], &x.im[from..from + run]], roots[at]);
                    at = (at + step) % n;
                }
                match n_terms {
                    1 => sum::<FMA, 1>(first == 0, &all, re, im),
                    2 => sum::<FMA, 2>(first == 0, &all, re, im),
                    3 => sum::<FMA, 3>(first == 0, &all, re, im),
                    _ => sum::<FMA, 4>(first == 0, &all, re, im),
                }
            }
        }
    }
}

/// Runs of numbers, real and imaginary parts, and the root of each.
type Terms<'a> = [([&'a [f64]; 2], [f64; 2]); TERMS];

/// `y = Σ x[j] · root[j]` for the first `N` terms, added to the contents unless `starts`.
#[inline(always)]
fn sum<const FMA: bool, const N: usize>(
    starts: bool,
    terms: &Terms<'_>,
    re: &mut [f64],
    im: &mut [f64],
) {
    let n = re.len();
    let im = &mut im[..n];
    let mut runs: [([&[f64]; 2], [f64; 2]); N] = [([&[]; 2], [0.0; 2]); N];
    for j in 0..N {
        let ([x_re, x_im], root) = terms[j];
        runs[j] = ([&x_re[..n], &x_im[..n]], root);
    }
    for i in 0..n {
        let (mut sum_re, mut sum_im) = if starts { (0.0, 0.0) } else { (re[i], im[i]) };
        for &([x_re, x_im], [cos, sin]) in &runs {
            sum_re = mul_add::<FMA>(x_re[i], cos, mul_add::<FMA>(-x_im[i], sin, sum_re));
            sum_im = mul_add::<FMA>(x_re[i], sin, mul_add::<FMA>(x_im[i], cos, sum_im));
        }
        (re[i], im[i]) = (sum_re, sum_im);
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;
    use crate::Isa;

    #[test]
    fn radices_multiply_to_the_length_and_are_fours_and_primes() {
        for n in 2..2000 {
            let factors: Vec<usize> = radices(n).collect();
            assert_eq!(factors.iter().product::<usize>(), n);
            let is_prime = |r: usize| (2..r).all(|d| !r.is_multiple_of(d));
            assert!(factors.iter().all(|&r| r == 4 || is_prime(r)), "{n}: {factors:?}");
        }
        assert_eq!((radices(0).count(), radices(1).count()), (0, 0));
        assert_eq!(radices(400).collect::<Vec<_>>(), [4, 4, 5, 5]);
    }

    #[test]
    fn the_transform_is_the_sum_of_its_definition() {
        for isa in Isa::all() {
            for n in [1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 25, 31, 64, 100, 121, 210, 256, 400, 401]
            {
                let number = |i: usize| ((i * 7919 + 13) % 2003) as f64 / 1001.0 - 1.0;
                let x: Vec<[f64; 2]> =
                    (0..n * LANES).map(|i| [number(i), number(i + 77)]).collect();
                let mut roots = vec![[0.0; 2]; n];
                fill_roots(&mut roots, 0, n);
                let mut scratch = vec![f64::NAN; Planes::pair_len(n)];
                let [from, to] = Planes::pair(&mut scratch, n);
                from.re.iter_mut().zip(&x).for_each(|(re, x)| *re = x[0]);
                from.im.iter_mut().zip(&x).for_each(|(im, x)| *im = x[1]);
                // Some with runs in pieces of a few terms.
                let found = match n % 3 {
                    1 => in_pieces(isa, &roots, [from, to], 8 * LANES, || true),
                    _ => transform(isa, &roots, from, to, || true),
                };
                // The definition has as many roundings.
                let n_roundings = 2.0 * (radices(n).map(|r| r + 2).sum::<usize>() as f64 + 5.0);
                for lane in 0..LANES {
                    let lane_of = |j: usize| x[j * LANES + lane];
                    let total: f64 =
                        (0..n).map(|j| lane_of(j)[0].abs() + lane_of(j)[1].abs()).sum();
                    let bound = n_roundings * total * 2_f64.powi(-53);
                    for k in (0..n).step_by(1 + n / 40) {
                        let mut truth = [0.0; 2];
                        for j in 0..n {
                            let (sin, cos) = (-TAU * (j * k % n) as f64 / n as f64).sin_cos();
                            let [re, im] = lane_of(j);
                            truth[0] += re * cos - im * sin;
                            truth[1] += re * sin + im * cos;
                        }
                        let at = k * LANES + lane;
                        let errors = [found.re[at] - truth[0], found.im[at] - truth[1]];
                        assert!(
                            errors.iter().all(|e| e.abs() <= bound),
                            "{isa:?} {n} {k}: {errors:?}"
                        );
                    }
                }
            }
        }
    }
}
