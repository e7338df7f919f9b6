//! The kernels of samples with support vectors, which are transposed to panels: [`ROWS`] samples meet a panel at a time.

use std::ops::Range;

use ort_kernels::vec::{self, FunctionF64, Lane};
use ort_kernels::{Isa, Task};
use ort_ops::ops::ml::svm::{KernelKind, SupportVectors};
use ort_tensor::{Number, go_on};

use crate::summand::Summand;

/// Samples that meet a panel at a time.
const ROWS: usize = 4;
/// Vectors of a panel.
const NR: usize = 32;

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
    pub(super) fn new(support: &SupportVectors) -> Self {
        let (n_features, kernel) = (support.n_features(), support.kernel());
        let vectors = support.vectors().chunks_exact(n_features);
        let n_panels = vectors.len().div_ceil(NR);
        // bounded: by the support vectors
        let mut panels = vec![T::default(); n_panels * n_features * NR];
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
        Self { panels, n_features, kind: kernel.kind, factor, offset, degree: kernel.degree }
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
            let tile = Tile { panel, factor: support.factor, offset: support.offset };
            let columns = i * NR..n.min((i + 1) * NR);
            let n_whole = m - m % ROWS;
            let (whole, rest) = x.split_at(n_whole * len);
            for (i, x) in whole.chunks_exact(len * ROWS).enumerate() {
                let y = &mut y[i * ROWS * n..][..ROWS * n];
                tile.write::<FMA, IS_DIFFERENCE, ROWS>(x, y, (n, columns.clone()));
            }
            for (i, x) in rest.chunks_exact(len).enumerate() {
                let y = &mut y[(n_whole + i) * n..][..n];
                tile.write::<FMA, IS_DIFFERENCE, 1>(x, y, (n, columns.clone()));
            }
        }
    }
}

/// A panel, and what sums are scaled to.
struct Tile<'a, T> {
    panel: &'a [[T; NR]],
    factor: T,
    offset: T,
}

impl<T: Real> Tile<'_, T> {
    /// Writes the scaled sums of `R` samples to `columns` of rows of `n`.
    #[inline(always)]
    fn write<const FMA: bool, const IS_DIFFERENCE: bool, const R: usize>(
        &self,
        x: &[T],
        y: &mut [T],
        (n, columns): (usize, Range<usize>),
    ) {
        let len = self.panel.len();
        let mut rows = [x; R];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = &x[i * len..][..len];
        }
        let mut sums = [[T::default(); NR]; R];
        for (f, panel) in self.panel.iter().enumerate() {
            for (sums, x) in sums.iter_mut().zip(rows) {
                for (sum, v) in sums.iter_mut().zip(panel) {
                    *sum = sum.add::<FMA, IS_DIFFERENCE>(x[f], *v);
                }
            }
        }
        for (y, sums) in y.chunks_exact_mut(n).zip(&mut sums) {
            for sum in sums.iter_mut() {
                *sum = sum.scaled(self.factor, self.offset);
            }
            let y = &mut y[columns.clone()];
            y.copy_from_slice(&sums[..y.len()]);
        }
    }
}
