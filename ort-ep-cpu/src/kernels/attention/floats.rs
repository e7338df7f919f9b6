//! Floats of 32 or 16 bits: read as f32, a few rows at a time, and rounded once.

use ort_kernels::{Isa, vec};
use ort_tensor::{DType, Element, TensorError, TensorView, bf16, f16};

use crate::kernels::halves::Half;

/// The element type of queries, keys, values and results.
pub(super) trait Float: Element {
    /// `y = x`, rounded.
    fn narrow(isa: Isa, x: &[f32], y: &mut [Self]);

    /// `y = factor·x`, rounded; `x` is overwritten.
    fn scaled(isa: Isa, x: &mut [f32], factor: f32, y: &mut [Self]) {
        vec::mul_scalar(isa, x, factor);
        Self::narrow(isa, x, y);
    }

    /// The elements of a tensor of this type.
    fn of(floats: Floats<'_>) -> Option<&[Self]>;

    fn floats(x: &[Self]) -> Floats<'_>;
}

impl Float for f32 {
    fn narrow(_: Isa, x: &[f32], y: &mut [Self]) {
        y.copy_from_slice(x);
    }

    fn scaled(isa: Isa, x: &mut [f32], factor: f32, y: &mut [Self]) {
        vec::scaled(isa, y, x, factor);
    }

    fn of(floats: Floats<'_>) -> Option<&[Self]> {
        if let Floats::F32(x) = floats { Some(x) } else { None }
    }

    fn floats(x: &[Self]) -> Floats<'_> {
        Floats::F32(x)
    }
}

macro_rules! half {
    ($($half:ident: $variant:ident),+) => {$(
        impl Float for $half {
            fn narrow(isa: Isa, x: &[f32], y: &mut [Self]) {
                Half::narrow(isa, x, y);
            }

            fn of(floats: Floats<'_>) -> Option<&[Self]> {
                if let Floats::$variant(x) = floats { Some(x) } else { None }
            }

            fn floats(x: &[Self]) -> Floats<'_> {
                Floats::$variant(x)
            }
        }
    )+};
}

half! { f16: F16, bf16: Bf16 }

/// Runs `$body` with `$T` the element type of a tensor of floats.
macro_rules! with_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ort_tensor::DType::F16 => {
                type $T = ort_tensor::f16;
                $body
            }
            ort_tensor::DType::Bf16 => {
                type $T = ort_tensor::bf16;
                $body
            }
            _ => {
                type $T = f32;
                $body
            }
        }
    };
}

pub(super) use with_float;

/// Whether attention is computed of elements of this type.
pub(super) const fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16)
}

/// Elements of a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Floats<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
}

impl Default for Floats<'_> {
    fn default() -> Self {
        Self::F32(&[])
    }
}

impl<'a> Floats<'a> {
    /// Those of a tensor.
    ///
    /// # Errors
    /// If it is of another type.
    pub(super) fn of(view: TensorView<'a>) -> Result<Self, TensorError> {
        Ok(match view.dtype() {
            DType::F16 => Self::F16(view.as_slice()?),
            DType::Bf16 => Self::Bf16(view.as_slice()?),
            _ => Self::F32(view.as_slice()?),
        })
    }

    /// Those of a tensor, none if it is absent.
    pub(super) fn of_optional(view: Option<TensorView<'a>>) -> Result<Self, TensorError> {
        view.map_or(Ok(Self::default()), Self::of)
    }

    pub(super) const fn len(self) -> usize {
        match self {
            Self::F32(x) => x.len(),
            Self::F16(x) => x.len(),
            Self::Bf16(x) => x.len(),
        }
    }

    /// From the element `first` on; none if there are not so many.
    pub(super) fn from(self, first: usize) -> Self {
        match self {
            Self::F32(x) => Self::F32(x.get(first..).unwrap_or_default()),
            Self::F16(x) => Self::F16(x.get(first..).unwrap_or_default()),
            Self::Bf16(x) => Self::Bf16(x.get(first..).unwrap_or_default()),
        }
    }

    /// `len` elements from `first` on.
    pub(super) fn part(self, first: usize, len: usize) -> Self {
        match self {
            Self::F32(x) => Self::F32(&x[first..][..len]),
            Self::F16(x) => Self::F16(&x[first..][..len]),
            Self::Bf16(x) => Self::Bf16(&x[first..][..len]),
        }
    }

    /// `y[i] = x[first + i]`.
    pub(super) fn widen(self, isa: Isa, first: usize, y: &mut [f32]) {
        match self {
            Self::F32(x) => y.copy_from_slice(&x[first..][..y.len()]),
            Self::F16(x) => Half::widen(isa, &x[first..][..y.len()], y),
            Self::Bf16(x) => Half::widen(isa, &x[first..][..y.len()], y),
        }
    }

    /// Element `i`.
    pub(super) fn get(self, i: usize) -> f32 {
        match self {
            Self::F32(x) => x[i],
            Self::F16(x) => x[i].to_f32(),
            Self::Bf16(x) => x[i].to_f32(),
        }
    }
}

/// Heads of rows, wherever they lie: of a row each head is `size` elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    /// From the first element of the first head on.
    pub(super) data: Floats<'a>,
    pub(super) strides: Strides,
    /// What is added to the rows of each head, head after head; empty is nothing.
    pub(super) bias: Floats<'a>,
}

/// From batch to batch, from head to head and from row to row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strides {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) row: usize,
}

impl Strides {
    /// Of `[B, len, width]`, where the heads of a row, of `size` elements each, are adjacent.
    pub(super) const fn joined([len, width, size]: [usize; 3]) -> Self {
        Self { batch: len.saturating_mul(width), head: size, row: width }
    }

    /// Of `[B, heads, capacity, size]`, of which the first rows may be all that counts.
    pub(super) const fn split([heads, capacity, size]: [usize; 3]) -> Self {
        // With a dimension of 0, another may be of any size.
        let head = capacity.saturating_mul(size);
        Self { batch: heads.saturating_mul(head), head, row: size }
    }

    /// Where a row of a head begins.
    pub(super) const fn at(self, [batch, head, row]: [usize; 3]) -> usize {
        batch * self.batch + head * self.head + row * self.row
    }
}

impl<'a> Source<'a> {
    /// Rows as they are.
    pub(super) fn new(data: Floats<'a>, strides: Strides) -> Self {
        Self { data, strides, bias: Floats::default() }
    }

    /// `y = a row of a head`, with its bias.
    pub(super) fn row(&self, isa: Isa, at: [usize; 3], y: &mut [f32]) {
        self.piece(isa, at, [0, y.len()], y);
    }

    /// The same of the elements from `first` on, of a head of `size`.
    pub(super) fn piece(&self, isa: Isa, at: [usize; 3], [first, size]: [usize; 2], y: &mut [f32]) {
        self.data.widen(isa, self.strides.at(at) + first, y);
        let first = at[1] * size + first;
        match self.bias {
            Floats::F32([]) => {}
            Floats::F32(bias) => vec::add(isa, y, &bias[first..][..y.len()]),
            bias => (first..).zip(y).for_each(|(i, y)| *y += bias.get(i)),
        }
    }

    /// `y = factor · a row of a head`, with its bias.
    pub(super) fn scaled_row(&self, isa: Isa, at: [usize; 3], factor: f32, y: &mut [f32]) {
        if let (Floats::F32(x), 0) = (self.data, self.bias.len()) {
            vec::scaled(isa, y, &x[self.strides.at(at)..][..y.len()], factor);
        } else {
            self.row(isa, at, y);
            vec::mul_scalar(isa, y, factor);
        }
    }

    /// `n` rows of a head from one on, each of `size` elements, and how far they are apart: where they
    /// lie, or widened into `buffer`.
    pub(super) fn rows<'r>(
        &'r self,
        isa: Isa,
        at: [usize; 3],
        [n, size]: [usize; 2],
        buffer: &'r mut [f32],
    ) -> (&'r [f32], usize) {
        let first = self.strides.at(at);
        if let (Floats::F32(x), 0) = (self.data, self.bias.len()) {
            return (&x[first..], self.strides.row);
        }
        let buffer = &mut buffer[..n * size];
        if self.strides.row == size && self.bias.len() == 0 {
            self.data.widen(isa, first, buffer);
        } else {
            let [batch, head, row] = at;
            let rows = buffer.chunks_exact_mut(size.max(1)).zip(row..);
            rows.for_each(|(y, row)| self.row(isa, [batch, head, row], y));
        }
        (buffer, size)
    }
}
