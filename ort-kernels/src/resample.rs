//! Rows of which each element is a weighted sum of a few neighbours in another row: how an image is
//! enlarged or shrunk along its last axis.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _mm512_castps_si512, _mm512_fmadd_ps, _mm512_maskz_permutex2var_ps, _mm512_setzero_ps,
};

use crate::Isa;
use crate::isa::mul_add;
#[cfg(target_arch = "x86_64")]
use crate::isa::x86::{load16, store16};

/// Outputs that are computed together: a register of AVX-512.
const BLOCK: usize = 16;
/// Inputs that are at hand: two registers, of which a permutation takes any element.
const WINDOW: usize = 2 * BLOCK;
/// The most terms of a sum, as a cubic function has them.
const MOST_TERMS: usize = 4;

/// `y[i] = Σ weight·x[index]` over the terms of output `i`, from zero on, fused where the instruction set
/// does that.
#[derive(Clone, Debug, PartialEq)]
pub struct Resample {
    n_inputs: usize,
    terms: Vec<Terms>,
    /// Where the terms of each block end.
    ends: Vec<usize>,
}

/// A term of each output of a block, or of those whose inputs are in the window.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Terms {
    /// The first input of the window.
    start: usize,
    /// Which outputs have the term, a bit each: to the others it adds nothing, not even nothing times
    /// infinity.
    has: u16,
    /// Which input of the window, as bits.
    indices: [f32; BLOCK],
    weights: [f32; BLOCK],
}

impl Resample {
    /// For inputs and weights of each output. `None` if there is none, or one has no term or more than four.
    #[must_use]
    pub fn new(outputs: &[&[(usize, f32)]]) -> Option<Self> {
        let is_fit = |terms: &&[(usize, f32)]| (1..=MOST_TERMS).contains(&terms.len());
        let last = outputs.iter().copied().flatten().map(|&(i, _)| i).max()?;
        if !outputs.iter().all(is_fit) {
            return None;
        }
        let mut new = Self { n_inputs: last + 1, terms: Vec::new(), ends: Vec::new() };
        for block in outputs.chunks(BLOCK) {
            let inputs = || block.iter().copied().flatten().map(|&(input, _)| input);
            let mut next = inputs().min();
            while let Some(start) = next {
                let terms = (0..MOST_TERMS).filter_map(|t| Terms::new(block, t, start));
                new.terms.extend(terms);
                next = inputs().filter(|&input| input >= start + WINDOW).min();
            }
            new.ends.push(new.terms.len());
        }
        Some(new)
    }

    /// Computes the first outputs, as many as `y` has.
    ///
    /// # Panics
    /// If there are not as many outputs, or `x` has not all the inputs.
    pub fn run(&self, isa: Isa, x: &[f32], y: &mut [f32]) {
        assert!(x.len() >= self.n_inputs && y.len() <= self.ends.len() * BLOCK);
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = isa.avx512() {
            return in_registers(token, self, x, y);
        }
        one_by_one(isa, self, x, y);
    }

    /// The terms of each block.
    fn blocks(&self) -> impl Iterator<Item = &[Terms]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(&start, &end)| &self.terms[start..end])
    }
}

impl Terms {
    /// Term `t` of the outputs that have it in this window; `None` if none has.
    fn new(block: &[&[(usize, f32)]], t: usize, start: usize) -> Option<Self> {
        let mut new = Self { start, has: 0, indices: [0.0; BLOCK], weights: [0.0; BLOCK] };
        for (i, terms) in block.iter().enumerate() {
            let Some(&(input, weight)) = terms.get(t) else { continue };
            let index = input.checked_sub(start).filter(|&index| index < WINDOW);
            let Some(index) = index.and_then(|index| u32::try_from(index).ok()) else { continue };
            new.has |= 1 << i;
            new.indices[i] = f32::from_bits(index);
            new.weights[i] = weight;
        }
        (new.has != 0).then_some(new)
    }
}

#[cfg(target_arch = "x86_64")]
kernel! {
    Avx512 => fn in_registers(resample: &Resample, x: &[f32], y: &mut [f32]) {
        for (terms, y) in resample.blocks().zip(y.chunks_mut(BLOCK)) {
            let mut sums = _mm512_setzero_ps();
            for Terms { start, has, indices, weights } in terms {
                let window = &x[*start..];
                let low = load16(window);
                let high = load16(window.get(BLOCK..).unwrap_or_default());
                let (indices, weights) = (_mm512_castps_si512(load16(indices)), load16(weights));
                let inputs = _mm512_maskz_permutex2var_ps(*has, low, indices, high);
                sums = _mm512_fmadd_ps(weights, inputs, sums);
            }
            store16(y, sums);
        }
    }
}

per_isa! {
    fn one_by_one<FMA>(resample: &Resample, x: &[f32], y: &mut [f32]) {
        for (terms, y) in resample.blocks().zip(y.chunks_mut(BLOCK)) {
            for (i, y) in y.iter_mut().enumerate() {
                *y = 0.0;
                for Terms { start, has, indices, weights } in terms {
                    if has >> i & 1 == 1 {
                        let input = x[start + indices[i].to_bits() as usize];
                        *y = mul_add::<FMA>(weights[i], input, *y);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The terms of `n` outputs, each of so many neighbours, that are spread over the inputs.
    fn terms(n: usize, n_inputs: usize, n_terms: usize) -> Vec<Vec<(usize, f32)>> {
        let first = |i: usize| (i * n_inputs / n).min(n_inputs - n_terms);
        let term = |i: usize, t: usize| (first(i) + t, [0.5, -2.0, 0.0, 0.25][(i + t) % 4]);
        (0..n).map(|i| (0..n_terms - i % n_terms).map(|t| term(i, t)).collect()).collect()
    }

    #[test]
    fn outputs_are_weighted_sums() {
        for (n, n_inputs) in
            [(1, 4), (16, 8), (17, 30), (100, 50), (100, 170), (100, 900), (37, 36), (50, 4)]
        {
            for n_terms in 1..=4 {
                let terms = terms(n, n_inputs, n_terms);
                let outputs: Vec<_> = terms.iter().map(Vec::as_slice).collect();
                let resample = Resample::new(&outputs).unwrap();
                // Sums of multiples of a quarter are exact.
                let x: Vec<f32> = (0..n_inputs).map(|i| (i * 7 % 31) as f32).collect();
                let expected: Vec<f32> = terms
                    .iter()
                    .map(|terms| terms.iter().map(|&(i, weight)| weight * x[i]).sum())
                    .collect();
                for isa in Isa::all() {
                    let mut y = vec![f32::NAN; n];
                    resample.run(isa, &x, &mut y);
                    assert_eq!(y, expected, "{n} of {n_inputs}, {n_terms} terms, {isa:?}");
                }
            }
        }
    }

    #[test]
    fn a_term_counts_where_it_is_and_nowhere_else() {
        let outputs: [&[_]; 3] = [&[(0, 0.0), (1, 1.0)], &[(1, 2.0)], &[(40, 1.0), (0, 1.0)]];
        let resample = Resample::new(&outputs).unwrap();
        let mut x = [3.0; 41];
        x[0] = f32::INFINITY;
        for isa in Isa::all() {
            let mut y = [0.0; 3];
            resample.run(isa, &x, &mut y);
            assert!(y[0].is_nan() && y[1..] == [6.0, f32::INFINITY], "{isa:?} {y:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Resample::new(&[]).is_none());
        assert!(Resample::new(&[&[(0, 1.0)], &[]]).is_none());
        assert!(Resample::new(&[&[(0, 1.0); 5]]).is_none());
    }
}
