//! Rows whose elements are weighted sums of a few neighbouring elements of another row: how an image is
//! resized along its last axis.

use crate::Isa;
use crate::isa::mul_add;

/// Outputs computed together: a register of AVX-512.
const BLOCK: usize = 16;
/// Inputs loaded at a time: two registers, which a permutation can select from.
const WINDOW: usize = 2 * BLOCK;
/// The maximum number of terms of a sum, as in cubic interpolation.
const MAX_TERMS: usize = 4;

/// `y[i] = Σ weight·x[index]` over the terms of output `i`, starting from zero, fused if the instruction set
/// supports it.
#[derive(Clone, Debug, PartialEq)]
pub struct Resample {
    n_inputs: usize,
    terms: Vec<Terms>,
    /// The end of the terms of each block.
    ends: Vec<usize>,
}

/// A term of each output of a block whose input is in the window.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Terms {
    /// The first input of the window.
    start: usize,
    /// A bit mask of the outputs that have the term: for the others nothing is added, not even zero times
    /// infinity.
    has: u16,
    /// The end of the indices.
    end: usize,
    /// The indices into the window, as bits.
    indices: [f32; BLOCK],
    weights: [f32; BLOCK],
}

impl Resample {
    /// Takes inputs and weights of each output. `None` if there are none, or one has no term or more than four.
    #[must_use]
    pub fn new(outputs: &[&[(usize, f32)]]) -> Option<Self> {
        let is_fit = |terms: &&[(usize, f32)]| (1..=MAX_TERMS).contains(&terms.len());
        let last = outputs.iter().copied().flatten().map(|&(i, _)| i).max()?;
        if !outputs.iter().all(is_fit) {
            return None;
        }
        let mut new = Self { n_inputs: last + 1, terms: Vec::new(), ends: Vec::new() };
        for block in outputs.chunks(BLOCK) {
            let inputs = || block.iter().copied().flatten().map(|&(input, _)| input);
            let mut next = inputs().min();
            while let Some(start) = next {
                let terms = (0..MAX_TERMS).filter_map(|t| Terms::new(block, t, start));
                new.terms.extend(terms);
                next = inputs().filter(|&input| input >= start + WINDOW).min();
            }
            new.ends.push(new.terms.len());
        }
        Some(new)
    }

    /// Computes the first `y.len()` outputs.
    ///
    /// # Panics
    /// If there are fewer outputs, or `x` lacks some of the inputs.
    pub fn run(&self, isa: Isa, x: &[f32], y: &mut [f32]) {
        assert!(x.len() >= self.n_inputs && y.len() <= self.ends.len() * BLOCK);
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = isa.avx512() {
            return x86::sixteen(token, self, x, y);
        }
        #[cfg(target_arch = "x86_64")]
        if let Isa::Avx2(token) = isa {
            return x86::eight(token, self, x, y);
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
        let (indices, weights) = ([0.0; BLOCK], [0.0; BLOCK]);
        let mut new = Self { start, has: 0, end: 0, indices, weights };
        for (i, terms) in block.iter().enumerate() {
            let Some(&(input, weight)) = terms.get(t) else { continue };
            let index = input.checked_sub(start).filter(|&index| index < WINDOW);
            let Some(index) = index.and_then(|index| u32::try_from(index).ok()) else { continue };
            new.has |= 1 << i;
            new.end = new.end.max(index as usize + 1);
            new.indices[i] = f32::from_bits(index);
            new.weights[i] = weight;
        }
        (new.has != 0).then_some(new)
    }
}

/// With permutations of the registers of a window.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m256i, _mm256_and_ps, _mm256_and_si256, _mm256_blendv_ps, _mm256_castps_si256,
        _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_cmpgt_epi32, _mm256_fmadd_ps,
        _mm256_permutevar8x32_ps, _mm256_set1_epi32, _mm256_setr_epi32, _mm256_setzero_ps,
        _mm512_castps_si512, _mm512_fmadd_ps, _mm512_maskz_permutex2var_ps, _mm512_setzero_ps,
    };

    use super::{BLOCK, Resample, Terms, WINDOW};
    use crate::isa::x86::{load8, load16, store8, store16};

    kernel! {
        Avx512 => pub(super) fn sixteen(resample: &Resample, x: &[f32], y: &mut [f32]) {
            for (terms, y) in resample.blocks().zip(y.chunks_mut(BLOCK)) {
                let mut sums = _mm512_setzero_ps();
                for Terms { start, has, indices, weights, .. } in terms {
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

    const LANES: usize = 8;

    kernel! {
        Avx2 => pub(super) fn eight(resample: &Resample, x: &[f32], y: &mut [f32]) {
            for (terms, y) in resample.blocks().zip(y.chunks_mut(BLOCK)) {
                let mut sums = [_mm256_setzero_ps(); BLOCK / LANES];
                for Terms { start, has, end, indices, weights } in terms {
                    let (window, n) = (&x[*start..], end.div_ceil(LANES));
                    let mut registers = [_mm256_setzero_ps(); WINDOW / LANES];
                    for (r, register) in registers[..n].iter_mut().enumerate() {
                        *register = load8(window.get(LANES * r..).unwrap_or_default());
                    }
                    for h in 0..BLOCK / LANES {
                        let indices = _mm256_castps_si256(load8(&indices[LANES * h..][..LANES]));
                        let mut inputs = selected(registers, n, indices);
                        if *has != u16::MAX {
                            let bits = _mm256_set1_epi32(i32::from(*has >> (LANES * h)));
                            inputs = _mm256_and_ps(inputs, lanes_of(bits));
                        }
                        let weights = load8(&weights[LANES * h..][..LANES]);
                        sums[h] = _mm256_fmadd_ps(weights, inputs, sums[h]);
                    }
                }
                for (y, sums) in y.chunks_mut(LANES).zip(sums) {
                    store8(y, sums);
                }
            }
        }
    }

    features! { Avx2 enabled
        /// The elements of the first `n` registers with these indices.
        #[inline]
        fn selected(
            registers: [__m256; WINDOW / LANES],
            n: usize,
            indices: __m256i,
        ) -> __m256 {
            let mut selected = _mm256_permutevar8x32_ps(registers[0], indices);
            for (r, before) in (1..n).zip([7, 15, 23]) {
                let is_beyond = _mm256_cmpgt_epi32(indices, _mm256_set1_epi32(before));
                let elements = _mm256_permutevar8x32_ps(registers[r], indices);
                selected = _mm256_blendv_ps(selected, elements, _mm256_castsi256_ps(is_beyond));
            }
            selected
        }
    }

    features! { Avx2 enabled
        /// All bits of the lanes whose bit is set in each lane of `bits`.
        #[inline]
        fn lanes_of(bits: __m256i) -> __m256 {
            let own = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(bits, own), own))
        }
    }
}

per_isa! {
    fn one_by_one<FMA>(resample: &Resample, x: &[f32], y: &mut [f32]) {
        for (terms, y) in resample.blocks().zip(y.chunks_mut(BLOCK)) {
            for (i, y) in y.iter_mut().enumerate() {
                *y = 0.0;
                for Terms { start, has, indices, weights, .. } in terms {
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

    /// The terms of `n` outputs, each of `n_terms` neighbours, spread over the inputs.
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
    fn a_term_affects_only_its_output() {
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
    fn unsupported_terms_are_rejected() {
        assert!(Resample::new(&[]).is_none());
        assert!(Resample::new(&[&[(0, 1.0)], &[]]).is_none());
        assert!(Resample::new(&[&[(0, 1.0); 5]]).is_none());
    }
}
