//! The random source of the samples of properties.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::array::{Array, Cell};

/// A source of random shapes, values and choices. Everything follows from a seed and a size, so that a failing sample
/// can be reproduced and reduced.
pub(super) struct Draw {
    state: u64,
    size: usize,
    /// The since-version of the node that is drawn.
    pub(super) version: i32,
}

impl Draw {
    /// Dimensions are at most `size`.
    pub(super) fn new(seed: u64, size: usize, version: i32) -> Self {
        Self { state: seed ^ 0x9e37_79b9_7f4a_7c15, size, version }
    }

    fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea and Flood 2014).
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        let n = u64::try_from(n).unwrap();
        usize::try_from(self.next() % n).unwrap()
    }

    /// A number from `first` to `last`, both included.
    pub(super) fn int(&mut self, first: i64, last: i64) -> i64 {
        first + i64::try_from(self.below(usize::try_from(last - first + 1).unwrap())).unwrap()
    }

    /// True once in `n` times.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub(super) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// A dimension, sometimes 0.
    pub(super) fn dim(&mut self) -> usize {
        if self.one_in(12) { 0 } else { 1 + self.below(self.size.max(1)) }
    }

    /// A dimension that is not 0.
    pub(super) fn some_dim(&mut self) -> usize {
        1 + self.below(self.size.max(1))
    }

    /// A shape of this rank; dimensions can be 0.
    pub(super) fn shape_of_rank(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| self.dim()).collect()
    }

    /// A shape of rank `least` to 6; dimensions can be 0.
    pub(super) fn shape(&mut self, least: usize) -> Vec<usize> {
        let rank = least + self.below(7 - least);
        self.shape_of_rank(rank)
    }

    /// An axis of a tensor of this rank, and its value in a node, possibly negative.
    pub(super) fn axis(&mut self, rank: usize) -> (usize, i64) {
        let axis = self.below(rank);
        (axis, self.written(axis, rank))
    }

    /// A form in which a node may state a flag that has a default.
    pub(super) fn flag(&mut self, default: bool) -> (bool, Option<Attr>) {
        let flag = self.one_in(2);
        let written = Some(Attr::Int(flag.into())).filter(|_| flag != default || self.one_in(2));
        (flag, written)
    }

    /// A form in which a node may state an axis.
    pub(super) fn written(&mut self, axis: usize, rank: usize) -> i64 {
        let (axis, rank) = (i64::try_from(axis).unwrap(), i64::try_from(rank).unwrap());
        if self.one_in(2) { axis - rank } else { axis }
    }

    /// Some of the axes, each once, in random order.
    pub(super) fn axes(&mut self, rank: usize) -> Vec<usize> {
        let mut axes = self.permutation(rank);
        axes.truncate(self.below(rank + 1));
        axes
    }

    /// The numbers below `n` in random order.
    pub(super) fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<_> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }

    /// Shapes of `n` operands that broadcast, and the shape of the result, of rank 0 to 6.
    pub(super) fn broadcast(&mut self, n: usize) -> (Vec<Vec<usize>>, Vec<usize>) {
        let result = self.shape(0);
        let mut operands: Vec<Vec<usize>> = (0..n).map(|_| self.operand(&result)).collect();
        // One of them has every dimension, so that the result has this shape.
        let whole = self.below(n);
        operands[whole].clone_from(&result);
        (operands, result)
    }

    /// A shape that broadcasts to `result`.
    pub(super) fn operand(&mut self, result: &[usize]) -> Vec<usize> {
        let skipped = self.below(result.len() + 1) * usize::from(self.one_in(2));
        result[skipped..].iter().map(|&dim| if self.one_in(4) { 1 } else { dim }).collect()
    }

    /// The tensor with each cell mapped.
    pub(super) fn map(x: &Tensor, f: impl Fn(&Cell) -> Cell) -> Tensor {
        Array::of(x).map(f).to_tensor(x.dtype())
    }

    /// A tensor of small whole numbers, −4 to 4 (from 0 for types without sign), which every
    /// number type holds, and whose sums and products are exact; complex ones have such parts. For other types, of
    /// any values.
    pub(super) fn small(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let least = if has_sign(dtype) { -4 } else { 0 };
        if dtype.is_integer() {
            Array::from_fn(shape, |_| Cell::Int(self.int(least, 4).into())).to_tensor(dtype)
        } else if dtype.is_float() {
            let mut cell =
                |_: &[usize]| Cell::Float(f64::from(i8::try_from(self.int(-4, 4)).unwrap()));
            Array::from_fn(shape, &mut cell).to_tensor(dtype)
        } else if matches!(dtype, DType::Complex64 | DType::Complex128) {
            let mut part = || f64::from(i8::try_from(self.int(-4, 4)).unwrap());
            Array::from_fn(shape, |_| Cell::Complex(part(), part())).to_tensor(dtype)
        } else {
            self.any(dtype, shape)
        }
    }

    /// A tensor of numbers whose sums of products are exact: integers of any size, which wrap, and
    /// small floats.
    pub(super) fn factors(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        if dtype.is_integer() { self.any(dtype, shape) } else { self.small(dtype, shape) }
    }

    /// A tensor of numbers from −`bound` to `bound`, rounded to `dtype`; integers are whole. Other
    /// types hold any values.
    pub(super) fn real(&mut self, dtype: DType, shape: &[usize], bound: f64) -> Tensor {
        if !dtype.is_float() {
            return self.small(dtype, shape);
        }
        let scale = bound / f64::from(1_u32 << 20);
        let mut cell = |_: &[usize]| {
            let steps = i32::try_from(self.int(-(1 << 20), 1 << 20)).unwrap();
            Cell::Float(f64::from(steps) * scale)
        };
        Array::from_fn(shape, &mut cell).to_tensor(dtype)
    }

    /// A tensor of numbers near zero, or of any values.
    pub(super) fn wild(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        match self.below(4) {
            0 => self.any(dtype, shape),
            1 => self.small(dtype, shape),
            n => self.real(dtype, shape, if n == 2 { 2.0 } else { 100.0 }),
        }
    }

    /// A tensor of any values that the type has, extreme ones included.
    pub(super) fn any(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        match dtype {
            DType::String => {
                let texts = (0..n).map(|_| self.pick(&["", "a", "b", "ab", "é", "0"]).to_owned());
                Tensor::from_strings(shape, texts.collect()).unwrap()
            }
            DType::Bool => Array::from_fn(shape, |_| Cell::Bool(self.one_in(2))).to_tensor(dtype),
            packed if packed.is_packed() => {
                let n_values = 1 << packed.bits();
                let elements: Vec<_> =
                    (0..n).map(|_| u8::try_from(self.below(n_values)).unwrap()).collect();
                let mut tensor = Tensor::zeros(dtype, shape).unwrap();
                tensor.view_mut().pack(&elements).unwrap();
                tensor
            }
            _ => {
                let n_bytes = dtype.n_bytes(n).unwrap();
                let bytes: Vec<_> = (0..n_bytes).map(|_| self.next().to_le_bytes()[0]).collect();
                Tensor::from_bytes(dtype, shape, bytes.into()).unwrap()
            }
        }
    }

    /// Indices below `n`, which is not 0 unless the shape has no elements: negative ones included, if allowed.
    pub(super) fn positions(&mut self, shape: &[usize], n: usize, may_be_negative: bool) -> Array {
        let least = if may_be_negative { -signed(n) } else { 0 };
        Array::from_fn(shape, |_| Cell::Int(self.int(least, signed(n) - 1).into()))
    }

    /// int64 or int32.
    pub(super) fn index_type(&mut self) -> DType {
        self.pick(&[DType::I32, DType::I64])
    }

    /// A tensor of these integers, int64 or int32.
    pub(super) fn indices(&mut self, shape: &[usize], values: &[i64]) -> Tensor {
        let cells = values.iter().map(|&value| Cell::Int(value.into())).collect();
        let dtype = self.index_type();
        Array { shape: shape.to_vec(), cells }.to_tensor(dtype)
    }
}

/// Whether a number type has numbers below zero.
fn has_sign(dtype: DType) -> bool {
    !matches!(dtype, DType::U2 | DType::U4 | DType::U8 | DType::U16 | DType::U32 | DType::U64)
}

/// The smallest and the largest number of an integer type.
pub(super) fn bounds(dtype: DType) -> (i128, i128) {
    match has_sign(dtype) {
        true => (-(1 << (dtype.bits() - 1)), (1 << (dtype.bits() - 1)) - 1),
        false => (0, (1 << dtype.bits()) - 1),
    }
}

/// An int64 tensor of rank 1.
pub(super) fn ints(values: &[i64]) -> Tensor {
    Tensor::from_slice(&[values.len()], values).unwrap()
}

/// A count as an integer of a node.
pub(super) fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

/// Counts as an operand, an int64 tensor of rank 1.
pub(super) fn counts(values: &[usize]) -> Tensor {
    ints(&values.iter().copied().map(signed).collect::<Vec<_>>())
}
