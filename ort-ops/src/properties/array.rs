//! The data of oracles: arrays of cells indexed by position, slow and simple.

use std::cmp::Ordering;

use ort_tensor::{
    Bool, Complex, DType, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0, Number, Tensor,
    with_dtype,
};

/// An element, whatever type it is stored as.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Int(i128),
    Float(f64),
    Bool(bool),
    Text(String),
    Complex(f64, f64),
}

impl Cell {
    /// Its numeric value; booleans are 0 and 1.
    pub(super) fn float(&self) -> f64 {
        match self {
            Cell::Float(value) => *value,
            Cell::Int(value) => Number::to_f64(i64::try_from(*value).unwrap_or(i64::MAX)),
            Cell::Bool(value) => f64::from(u8::from(*value)),
            Cell::Text(_) | Cell::Complex(..) => panic!("{self:?} is no number"),
        }
    }

    /// Its value as an integer.
    pub(super) fn int(&self) -> i128 {
        match self {
            Cell::Int(value) => *value,
            _ => panic!("{self:?} is no integer"),
        }
    }

    /// The initial element of this type: zero, false or an empty string.
    pub(super) fn zero(dtype: DType) -> Cell {
        Array::of(&Tensor::zeros(dtype, &[]).unwrap()).cells.remove(0)
    }

    /// The cell after conversion to this type.
    pub(super) fn rounded(self, dtype: DType) -> Cell {
        let scalar = Array { shape: vec![], cells: vec![self] };
        Array::of(&scalar.to_tensor(dtype)).cells.remove(0)
    }

    /// An order of the cells of a type, in which NaN is after every number; complex numbers are
    /// ordered by their real parts first.
    pub(super) fn total_order(&self, other: &Cell) -> Ordering {
        let floats = |a: f64, b: f64| match a.partial_cmp(&b) {
            Some(order) => order,
            None => a.is_nan().cmp(&b.is_nan()),
        };
        match (self, other) {
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Int(a), Cell::Int(b)) => a.cmp(b),
            (Cell::Complex(a, b), Cell::Complex(c, d)) => floats(*a, *c).then(floats(*b, *d)),
            _ => floats(self.float(), other.float()),
        }
    }

    /// Equality, where NaN equals NaN, and zeros of either sign are equal.
    pub(super) fn is(&self, other: &Cell) -> bool {
        let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
        match (self, other) {
            (Cell::Float(a), Cell::Float(b)) => same(*a, *b),
            (Cell::Complex(a, b), Cell::Complex(c, d)) => same(*a, *c) && same(*b, *d),
            _ => self == other,
        }
    }
}

/// A tensor as a list of cells in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) cells: Vec<Cell>,
}

impl Array {
    /// The array of `cell(index)` for each index.
    pub(super) fn from_fn(shape: &[usize], mut cell: impl FnMut(&[usize]) -> Cell) -> Self {
        let mut cells = Vec::with_capacity(shape.iter().product());
        for_each_index(shape, |index| cells.push(cell(index)));
        Self { shape: shape.to_vec(), cells }
    }

    /// Integers in a row.
    pub(super) fn ints(values: &[i64]) -> Self {
        let cells = values.iter().map(|&value| Cell::Int(value.into())).collect();
        Self { shape: vec![values.len()], cells }
    }

    /// The cell at an index of full rank.
    pub(super) fn at(&self, index: &[usize]) -> &Cell {
        &self.cells[self.flat(index)]
    }

    fn flat(&self, index: &[usize]) -> usize {
        assert_eq!(index.len(), self.shape.len(), "an index of another rank");
        index.iter().zip(&self.shape).fold(0, |flat, (i, n)| {
            assert!(i < n, "index {index:?} in shape {:?}", self.shape);
            flat * n + i
        })
    }

    /// The cell that broadcasting puts at `index` of a result of the same rank or a higher one.
    pub(super) fn at_broadcast(&self, index: &[usize]) -> &Cell {
        let tail = &index[index.len() - self.shape.len()..];
        let own: Vec<_> =
            tail.iter().zip(&self.shape).map(|(&i, &n)| if n == 1 { 0 } else { i }).collect();
        self.at(&own)
    }

    /// The integer at `place`, an index below `n` that may count from the back, normalized.
    pub(super) fn index_at(&self, place: &[usize], n: usize) -> usize {
        let index = self.at(place).int();
        let n = i128::try_from(n).unwrap();
        usize::try_from(if index < 0 { index + n } else { index }).unwrap()
    }

    /// The cell at an index of full rank, to change.
    pub(super) fn at_mut(&mut self, index: &[usize]) -> &mut Cell {
        let flat = self.flat(index);
        &mut self.cells[flat]
    }

    /// The array of this shape with the cell at `from(index)` at each index.
    pub(super) fn picked(&self, shape: &[usize], from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        Self::from_fn(shape, |index| self.at(&from(index)).clone())
    }

    /// The array whose axis `axis` is axis `perm[axis]` of this one.
    pub(super) fn transposed(&self, perm: &[usize]) -> Self {
        let shape: Vec<_> = perm.iter().map(|&axis| self.shape[axis]).collect();
        self.picked(&shape, |index| {
            let mut from = vec![0; index.len()];
            perm.iter().zip(index).for_each(|(&axis, &i)| from[axis] = i);
            from
        })
    }

    /// Each cell mapped.
    pub(super) fn map(&self, f: impl FnMut(&Cell) -> Cell) -> Self {
        Self { shape: self.shape.clone(), cells: self.cells.iter().map(f).collect() }
    }

    /// The same cells under another shape.
    pub(super) fn reshaped(&self, shape: &[usize]) -> Self {
        assert_eq!(self.cells.len(), shape.iter().product::<usize>(), "another number of cells");
        Self { shape: shape.to_vec(), cells: self.cells.clone() }
    }

    /// The cells of a tensor of any type.
    pub(super) fn of(tensor: &Tensor) -> Self {
        Self { shape: tensor.shape().to_vec(), cells: cells_of(tensor) }
    }

    /// The tensor that holds the nearest values of type `dtype`; integers keep their low bits.
    pub(super) fn to_tensor(&self, dtype: DType) -> Tensor {
        let (shape, cells) = (&self.shape, &self.cells);
        if dtype == DType::String {
            let texts = cells.iter().map(|cell| match cell {
                Cell::Text(text) => text.clone(),
                _ => panic!("{cell:?} is no text"),
            });
            return Tensor::from_strings(shape, texts.collect()).unwrap();
        }
        if dtype.is_packed() {
            let bits: Vec<_> = cells.iter().map(|cell| bits_of(dtype, cell)).collect();
            let mut tensor = Tensor::zeros(dtype, shape).unwrap();
            tensor.view_mut().pack(&bits).unwrap();
            return tensor;
        }
        with_dtype!(dtype, plain, T => {
            let values: Vec<T> = cells.iter().map(Stored::store).collect();
            Tensor::from_slice(shape, &values).unwrap()
        }, else => panic!("a type of no kind: {dtype}"))
    }
}

/// All indices into a shape, in row-major order.
pub(super) fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut indices = vec![];
    for_each_index(shape, |index| indices.push(index.to_vec()));
    indices
}

/// Calls `f` with every index of a shape, in row-major order.
pub(super) fn for_each_index(shape: &[usize], mut f: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.len()];
    for _ in 0..shape.iter().product() {
        f(&index);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// The index of the element at `flat` in row-major order.
pub(super) fn unravel(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, n) in index.iter_mut().zip(shape).rev() {
        *i = flat % n;
        flat /= n;
    }
    index
}

fn cells_of(tensor: &Tensor) -> Vec<Cell> {
    let (view, dtype) = (tensor.view(), tensor.dtype());
    if dtype == DType::String {
        return view.as_strings().unwrap().iter().cloned().map(Cell::Text).collect();
    }
    if dtype.is_packed() {
        let bits = view.unpacked().unwrap();
        return bits.iter().map(|&bits| decoded(dtype, bits)).collect();
    }
    with_dtype!(dtype, plain, T => {
        tensor.as_slice::<T>().unwrap().iter().map(|&value| value.load()).collect()
    }, else => panic!("a type of no kind: {dtype}"))
}

fn decoded(dtype: DType, bits: u8) -> Cell {
    match dtype {
        DType::F4E2M1 => Cell::Float(f64::from(dtype.decode_packed(bits).unwrap())),
        DType::I4 => Cell::Int(i128::from(bits) - if bits < 8 { 0 } else { 16 }),
        DType::I2 => Cell::Int(i128::from(bits) - if bits < 2 { 0 } else { 4 }),
        _ => Cell::Int(i128::from(bits)),
    }
}

fn bits_of(dtype: DType, cell: &Cell) -> u8 {
    let bits = 0..1_u8 << dtype.bits();
    match cell {
        // The sign of zero counts, too.
        Cell::Float(value) => bits
            .clone()
            .find(|&bits| match decoded(dtype, bits) {
                Cell::Float(found) => found.to_bits() == value.to_bits(),
                _ => false,
            })
            .unwrap_or_else(|| panic!("{value} is no {dtype}")),
        cell => u8::try_from(cell.int().rem_euclid(1 << dtype.bits())).unwrap(),
    }
}

/// The memory representation of a cell.
trait Stored: Sized {
    fn store(cell: &Cell) -> Self;
    fn load(self) -> Cell;
}

macro_rules! integers {
    ($($ty:ty),*) => { $(
        impl Stored for $ty {
            fn store(cell: &Cell) -> Self {
                <$ty>::from_le_bytes(*cell.int().to_le_bytes().first_chunk().unwrap())
            }

            fn load(self) -> Cell {
                Cell::Int(i128::from(self))
            }
        }
    )* };
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($ty:ty),*) => { $(
        impl Stored for $ty {
            fn store(cell: &Cell) -> Self {
                Number::from_f64(cell.float())
            }

            fn load(self) -> Cell {
                Cell::Float(Number::to_f64(self))
            }
        }
    )* };
}

floats!(f32, f64, ort_tensor::f16, ort_tensor::bf16);

macro_rules! float8 {
    ($($ty:ty),*) => { $(
        impl Stored for $ty {
            fn store(cell: &Cell) -> Self {
                <$ty>::from_f64(cell.float(), false)
            }

            fn load(self) -> Cell {
                Cell::Float(f64::from(self.to_f32()))
            }
        }
    )* };
}

float8!(F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz);

impl Stored for F8E8M0 {
    fn store(cell: &Cell) -> Self {
        let mut bits = (0..=u8::MAX).map(F8E8M0::from_bits);
        bits.find(|bits| bits.load().is(cell)).unwrap_or_else(|| panic!("{cell:?} is no power"))
    }

    fn load(self) -> Cell {
        Cell::Float(f64::from(self.to_f32()))
    }
}

impl Stored for Bool {
    fn store(cell: &Cell) -> Self {
        match cell {
            Cell::Bool(value) => Bool::from(*value),
            _ => panic!("{cell:?} is no boolean"),
        }
    }

    fn load(self) -> Cell {
        Cell::Bool(self.get())
    }
}

macro_rules! complex {
    ($($ty:ty),*) => { $(
        impl Stored for Complex<$ty> {
            fn store(cell: &Cell) -> Self {
                match *cell {
                    Cell::Complex(re, im) => {
                        Complex::new(Number::from_f64(re), Number::from_f64(im))
                    }
                    _ => panic!("{cell:?} is not complex"),
                }
            }

            fn load(self) -> Cell {
                Cell::Complex(Number::to_f64(self.re()), Number::to_f64(self.im()))
            }
        }
    )* };
}

complex!(f32, f64);
