//! The kernels of samples with support vectors, which are transposed to panels: [`ROWS`] samples meet a panel at a time.

use ort_kernels::vec::{self, FunctionF64, Lane};
use ort_kernels::{Isa, Task};
use ort_ops::ops::ml::svm::{KernelKind, SupportVectors};
use ort_tensor::{Number, go_on};

use crate::summand::Summand;

/// Samples that meet a panel at a time.
const ROWS: usize = 4;
/// Vectors of a panel.
const NR: usize = 16;
/// The most elements of panels, as a multiple of those of the vectors: fewer than half a panel of long vectors stay as
/// they are.
const MOST_PADDING: usize = 2;
/// Fewer elements may be padded by any number: 256 KiB of f32.
const FEW: usize = 1 << 16;

/// f32 or f64: what sums are computed in.
pub(super) trait Real: Summand + Number {
    /// `sum + x·v`, or `sum + (x − v)²`.
    fn add<const FMA: bool, const IS_DIFFERENCE: bool>(self, x: Self, v: Self) -> Self;

    /// `factor·x + offset`.
    fn scaled(self, factor: Self, offset: Self) -> Self;

    fn exp(isa: Isa, x: &mut [Self]);

    fn tanh(isa: Isa, x: &mut [Self]);

    fn pow(isa: Isa, x: &mut [Self], exponent: f64);
}

macro_rules! real {
    ($ty:ty { $($functions:item)+ }) => {
        impl Real for $ty {
            #[inline(always)]
            fn add<const FMA: bool, const IS_DIFFERENCE: bool>(self, x: Self, v: Self) -> Self {
                let (a, b) = if IS_DIFFERENCE { (x - v, x - v) } else { (x, v) };
                if FMA { a.mul_add(b, self) } else { a * b + self }
            }

            #[inline(always)]
            fn scaled(self, factor: Self, offset: Self) -> Self {
                factor * self + offset
            }

            $($functions)+
        }
    };
}

real!(f32 {
    fn exp(isa: Isa, x: &mut [Self]) {
        vec::exp(isa, x);
    }

    fn tanh(isa: Isa, x: &mut [Self]) {
        vec::tanh(isa, x);
    }

    fn pow(isa: Isa, x: &mut [Self], exponent: f64) {
        vec::pow(isa, x, Lane::Same(Self::from_f64(exponent)));
    }
});

real!(f64 {
    fn exp(isa: Isa, x: &mut [Self]) {
        vec::map_f64(isa, FunctionF64::Exp, None, x);
    }

    fn tanh(isa: Isa, x: &mut [Self]) {
        vec::map_f64(isa, FunctionF64::Tanh, None, x);
    }

    fn pow(_: Isa, x: &mut [Self], exponent: f64) {
        x.iter_mut().for_each(|x| *x = x.powf(exponent));
    }
});

/// Support vectors in panels.
#[derive(Debug)]
pub(super) struct Support<T> {
    /// `[panels][features][NR]`: the last panel is filled up with zeros.
    panels: Vec<T>,
    n_features: usize,
    kind: KernelKind,
    /// What products, or squares of distances, are scaled to.
    factor: T,
    offset: T,
    degree: f64,
}

impl<T: Real> Support<T> {
    /// `None` if the panels were much larger than the vectors.
    pub(super) fn new(support: &SupportVectors) -> Option<Self> {
        let (n_features, kernel) = (support.n_features(), support.kernel());
        let vectors = support.vectors().chunks_exact(n_features);
        let len = vectors.len().div_ceil(NR).checked_mul(n_features)?.checked_mul(NR)?;
        if len > support.vectors().len().saturating_mul(MOST_PADDING).max(FEW) {
            return None;
        }
        // bounded: by the support vectors
        let mut panels = vec![T::default(); len];
        for (i, vector) in vectors.enumerate() {
            let panel = &mut panels[i / NR * n_features * NR..];
            for (to, &from) in panel[i % NR..].iter_mut().step_by(NR).zip(vector) {
                *to = T::from_f64(from);
            }
        }
        let (factor, offset) = match kernel.kind {
            KernelKind::Linear => (1.0, 0.0),
            KernelKind::Rbf => (-kernel.gamma, 0.0),
            KernelKind::Poly | KernelKind::Sigmoid => (kernel.gamma, kernel.coef0),
        };
        let (factor, offset) = (T::from_f64(factor), T::from_f64(offset));
        let (kind, degree) = (kernel.kind, kernel.degree);
        Some(Self { panels, n_features, kind, factor, offset, degree })
    }

    pub(super) const fn n_features(&self) -> usize {
        self.n_features
    }

    /// What the function of a product costs, in multiply-adds.
    pub(super) const fn cost(&self) -> usize {
        match self.kind {
            KernelKind::Linear => 1,
            _ => 32,
        }
    }

    /// The kernels of whole samples with all vectors.
    pub(super) fn products(&self, isa: Isa, x: &[T], y: &mut [T]) {
        match self.kind {
            KernelKind::Rbf => isa.run(Products::<T, true> { support: self, x, y }),
            _ => isa.run(Products::<T, false> { support: self, x, y }),
        }
        match self.kind {
            KernelKind::Linear => {}
            KernelKind::Rbf => T::exp(isa, y),
            KernelKind::Sigmoid => T::tanh(isa, y),
            KernelKind::Poly => self.power(isa, y),
        }
    }

    /// Writes the scaled sums of a sample, of the last panel as many as there are vectors.
    #[inline(always)]
    fn write(&self, sums: &[T; NR], y: &mut [T]) {
        if let Ok(y) = <&mut [T; NR]>::try_from(&mut *y) {
            for i in 0..NR {
                y[i] = sums[i].scaled(self.factor, self.offset);
            }
        } else {
            for (y, sum) in y.iter_mut().zip(sums) {
                *y = sum.scaled(self.factor, self.offset);
            }
        }
    }

    /// The power of the degree, which is mostly 2 or 3.
    fn power(&self, isa: Isa, y: &mut [T]) {
        if self.degree == 2.0 {
            vec::each_in_place(isa, y, |x| x.times(x));
        } else if self.degree == 3.0 {
            vec::each_in_place(isa, y, |x| x.times(x).times(x));
        } else {
            T::pow(isa, y, self.degree);
        }
    }
}

/// The scaled products, or squares of distances, of samples and all vectors.
struct Products<'a, T, const IS_DIFFERENCE: bool> {
    support: &'a Support<T>,
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Real, const IS_DIFFERENCE: bool> Task for Products<'_, T, IS_DIFFERENCE> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { support, x, y } = self;
        let len = support.n_features;
        let m = x.len() / len;
        let n = y.len() / m.max(1);
        for (i, panel) in support.panels.chunks_exact(len * NR).enumerate() {
            if go_on().is_err() {
                return;
            }
            let (panel, _) = panel.as_chunks::<NR>();
            let columns = i * NR..n.min((i + 1) * NR);
            for first in (0..m).step_by(ROWS) {
                let rows = ROWS.min(m - first);
                let (x, y) = (&x[first * len..][..rows * len], &mut y[first * n..][..rows * n]);
                if rows == ROWS {
                    let mut samples = [x; ROWS];
                    for row in 0..ROWS {
                        samples[row] = &x[row * len..][..len];
                    }
                    let sums = tile::<T, FMA, IS_DIFFERENCE, ROWS>(&samples, panel);
                    for row in 0..ROWS {
                        support.write(&sums[row], &mut y[row * n..][columns.clone()]);
                    }
                } else {
                    for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(n)) {
                        let sums = tile::<T, FMA, IS_DIFFERENCE, 1>(&[x], panel);
                        support.write(&sums[0], &mut y[columns.clone()]);
                    }
                }
            }
        }
    }
}

/// The sums of `R` samples with the vectors of a panel. Written as loops over indices, which are unrolled.
#[inline(always)]
fn tile<T: Real, const FMA: bool, const IS_DIFFERENCE: bool, const R: usize>(
    samples: &[&[T]; R],
    panel: &[[T; NR]],
) -> [[T; NR]; R] {
    let mut sums = [[T::default(); NR]; R];
    for (feature, panel) in panel.iter().enumerate() {
        for row in 0..R {
            let x = samples[row][feature];
            for i in 0..NR {
                sums[row][i] = sums[row][i].add::<FMA, IS_DIFFERENCE>(x, panel[i]);
            }
        }
    }
    sums
}
