//! MaxPool: `y[n, c, p] = max x[n, c, p·stride + k·dilation − pad]` over the window's elements.

// collects are bounded: by the rank and the operands

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, with_dtype};

use crate::channels_last::ChannelsLast;
use crate::infer::{WindowAttrs, unravel};
use crate::pool::{Pool, pool_fact, pool_flops};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "MaxPool",
        versions: (1, 22),
        types: is_allowed,
        build: |spec| Ok(Arc::new(MaxPool::read(spec)?)),
    },
    OpDef {
        domain: "com.microsoft",
        name: "NhwcMaxPool",
        versions: (1, 1),
        types: is_allowed,
        build: MaxPool::build_channels_last,
    },
];

/// MaxPool: the largest element of each window, ignoring padding, and its index. `x`:
/// `[N, C, D₁, …]`, float, int8 or uint8. NaN is larger than everything. The optional second
/// output holds the index of the first such element in the whole of `x`, int64; inside a plane it
/// counts column by column if `is_column_major`.
///
/// A window of only padding has the least value of the type, and the index −1.
///
/// `NhwcMaxPool` takes and gives `[N, D₁, …, C]`.
///
/// Source: ONNX operator set, MaxPool-22; com.microsoft, NhwcMaxPool-1 (ONNX Runtime 1.31). ONNX Runtime ignores NaN,
/// and has NhwcMaxPool for int8 and uint8 only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxPool {
    /// The placement of the windows.
    pub window: WindowAttrs,
    /// Whether the first spatial axis varies fastest in an index.
    pub is_column_major: bool,
}

impl MaxPool {
    fn build_channels_last(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let window =
            WindowAttrs { is_ceil: spec.flag("ceil_mode", false)?, ..WindowAttrs::read(spec)? };
        let pool = Self { window, is_column_major: false };
        Ok(Arc::new(ChannelsLast(pool.with_kernel()?)))
    }

    fn read(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let window = match spec.since_version {
            ..10 => WindowAttrs::read_undilated(spec)?,
            _ => {
                WindowAttrs { is_ceil: spec.flag("ceil_mode", false)?, ..WindowAttrs::read(spec)? }
            }
        };
        let is_column_major = spec.since_version >= 8 && spec.flag("storage_order", false)?;
        Self { window, is_column_major }.with_kernel()
    }

    fn with_kernel(self) -> Result<Self, OpError> {
        match self.window.kernel {
            Some(_) => Ok(self),
            None => Err(OpError::MissingAttribute { name: "kernel_shape" }),
        }
    }

    fn compute<T: Number>(
        &self,
        inputs: Inputs<'_>,
        outputs: &mut [Output<'_>],
    ) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let pool = Pool::new(&self.window, x.shape())?;
        let x = x.as_slice::<T>()?;
        let [y, rest @ ..] = outputs else { return Ok(()) };
        let y = y.tensor(T::DTYPE, &pool.shape)?.into_slice::<T>()?;
        let indices = match rest.first_mut().filter(|indices| indices.is_wanted()) {
            Some(indices) => indices.tensor(DType::I64, &pool.shape)?.into_slice::<i64>()?,
            None => &mut [],
        };
        pool.for_each(|seen| {
            let start = seen.plane * pool.n_plane;
            let found = largest(&x[start..start + pool.n_plane], seen.taps);
            y[seen.output] =
                found.map_or_else(|| T::from_f64(f64::NEG_INFINITY), |at| x[start + at]);
            if let Some(index) = indices.get_mut(seen.output) {
                let at = found.map(|at| start + self.index(at, &pool.window.input));
                *index = at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1);
            }
        })?;
        Ok(())
    }

    /// The index of element `at` of a plane of this shape.
    fn index(&self, at: usize, shape: &[usize]) -> usize {
        if !self.is_column_major {
            return at;
        }
        let digits = unravel(at, shape);
        digits.iter().zip(shape).rev().fold(0, |index, (&digit, &dim)| index * dim + digit)
    }
}

impl Operator for MaxPool {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_allowed)?;
        let x = inputs.fact(0)?;
        let facts = [dtype, DType::I64].map(|dtype| pool_fact(&self.window, x, dtype));
        facts.into_iter().collect()
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        with_dtype!(x.dtype(), [f32, f64, ort_tensor::f16, ort_tensor::bf16, i8, u8],
        T => self.compute::<T>(inputs, outputs),
        else => {
            let found = Box::new(Fact::shaped(x.dtype(), x.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }

    fn flops(&self, _inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        pool_flops(&self.window, outputs.first())
    }
}

/// Which of the elements at `taps` is the largest; the first of several, or the first NaN.
pub(crate) fn largest<T: Number>(x: &[T], taps: &[usize]) -> Option<usize> {
    let (&first, rest) = taps.split_first()?;
    let mut best = first;
    for &at in rest {
        let is_nan = |x: T| x.partial_cmp(&x).is_none();
        if x[at] > x[best] || (is_nan(x[at]) && !is_nan(x[best])) {
            best = at;
        }
    }
    Some(best)
}

const fn is_allowed(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_byte()
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    fn ints(values: &[i64]) -> Attr {
        Attr::Ints(values.to_vec())
    }

    fn pool(kernel: &[i64]) -> Case {
        Case::new("MaxPool", 12).attr("kernel_shape", ints(kernel))
    }

    #[test]
    fn the_largest_element_is_first_in_its_window() {
        let x = tensor(&[1, 1, 5], &[1_i8, 3, 3, 0, -1]);
        let cases: [(Case, &[i8], &[i64]); 4] = [
            (pool(&[2]), &[3, 3, 3, 0], &[1, 1, 2, 3]),
            (pool(&[2]).attr("dilations", ints(&[2])), &[3, 3, 3], &[2, 1, 2]),
            (
                pool(&[3]).attr("pads", ints(&[1, 1])).attr("strides", ints(&[2])),
                &[3, 3, 0],
                &[1, 1, 3],
            ),
            (
                pool(&[3]).attr("ceil_mode", Attr::Int(1)).attr("strides", ints(&[3])),
                &[3, 0],
                &[1, 3],
            ),
        ];
        for (case, y, indices) in cases {
            let values = case.outputs(2).run(std::slice::from_ref(&x)).unwrap();
            let shape = [1, 1, y.len()];
            assert_eq!(values[0].as_tensor().unwrap(), &tensor(&shape, y));
            assert_eq!(values[1].as_tensor().unwrap(), &tensor(&shape, indices));
        }
    }

    #[test]
    fn indices_count_through_all_planes_row_by_row_or_column_by_column() {
        let x =
            tensor(&[1, 2, 2, 3], &[0_f32, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 7.0, 0.0, 0.0, 0.0]);
        for (order, expected) in [(0, [4_i64, 8]), (1, [3, 10])] {
            let case = pool(&[2, 3]).attr("storage_order", Attr::Int(order)).outputs(2);
            let values = case.run(std::slice::from_ref(&x)).unwrap();
            assert_eq!(values[0].as_tensor().unwrap(), &tensor(&[1, 2, 1, 1], &[9_f32, 7.0]));
            assert_eq!(values[1].as_tensor().unwrap(), &tensor(&[1, 2, 1, 1], &expected));
        }
    }

    #[test]
    fn channels_can_come_last() {
        let case = Case::new("NhwcMaxPool", 1).domain("com.microsoft");
        let case = case.attr("kernel_shape", ints(&[2]));
        let y = case.tensor(&[tensor(&[1, 3, 2], &[1_u8, 6, 3, 4, 2, 5])]);
        assert_eq!(y, Ok(tensor(&[1, 2, 2], &[3_u8, 6, 3, 5])));
        assert!(case.tensor(&[tensor(&[1], &[1_u8])]).is_err());
        assert!(case.tensor(&[tensor(&[1, 1], &[1_u8])]).is_err());
    }

    #[test]
    fn nan_wins_and_padding_never_does() {
        let x = tensor(&[1, 1, 2], &[f16::NAN, f16::ONE]);
        let y = pool(&[2]).tensor(&[x]).unwrap();
        assert!(y.as_slice::<f16>().unwrap()[0].is_nan());
        let x = tensor(&[1, 1, 1], &[f32::NEG_INFINITY]);
        let y = pool(&[2]).attr("pads", ints(&[1, 0])).tensor(std::slice::from_ref(&x));
        assert_eq!(y, Ok(x));
        let y = pool(&[1]).attr("pads", ints(&[1, 0])).tensor(&[tensor(&[1, 1, 1], &[5_u8])]);
        assert_eq!(y, Ok(tensor(&[1, 1, 2], &[0_u8, 5])));
    }

    #[test]
    fn wrong_ranks_and_types_are_refused_and_empty_batches_are_not() {
        assert!(pool(&[2]).tensor(&[tensor(&[2], &[1_f32, 2.0])]).is_err());
        assert!(pool(&[2]).tensor(&[tensor(&[1, 1, 2], &[1_i32, 2])]).is_err());
        assert!(Case::new("MaxPool", 12).tensor(&[tensor(&[1, 1], &[1_f32])]).is_err());
        let empty = Tensor::zeros(ort_tensor::DType::F32, &[0, 3, 4]).unwrap();
        let y = Tensor::zeros(ort_tensor::DType::F32, &[0, 3, 3]).unwrap();
        assert_eq!(pool(&[2]).tensor(&[empty]), Ok(y));
    }
}
