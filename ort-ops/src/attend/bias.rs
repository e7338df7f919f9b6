//! What is added to the scores: biases, or a boolean mask.

use ort_graph::OpError;
use ort_tensor::{Bool, DType, Number, TensorView, broadcast_strides, collected, with_dtype};

use super::{Query, Sizes};

/// Biases that broadcast to `[B, Hq, S, T]`, with strides for batch, head and query.
#[derive(Debug)]
pub(crate) struct Biases {
    values: Vec<f64>,
    strides: [usize; 3],
    /// The last dimension: keys beyond it are masked.
    len: usize,
}

impl Biases {
    pub(crate) fn new(index: usize, view: TensorView<'_>, sizes: Sizes) -> Result<Self, OpError> {
        let shape = view.shape();
        let target = [sizes.batch, sizes.q_heads, sizes.q_len, shape.last().copied().unwrap_or(0)];
        let fits = !shape.is_empty()
            && target[3] <= sizes.kv_len
            && ort_tensor::broadcast(shape, &target).as_deref() == Some(&target[..]);
        let strides = broadcast_strides(shape, &target);
        let (true, &[b, h, i, _]) = (fits, &strides[..]) else {
            let right = vec![sizes.batch, sizes.q_heads, sizes.q_len, sizes.kv_len];
            return Err(OpError::Shapes { what: "the mask", left: shape.to_vec(), right });
        };
        Ok(Self { values: biases(index, view)?, strides: [b, h, i], len: target[3] })
    }

    /// Writes the bias of each key to `row`.
    pub(crate) fn fill(&self, query: Query, row: &mut [f64]) {
        row[..self.len].copy_from_slice(self.row(query));
        row[self.len..].fill(f64::NEG_INFINITY);
    }

    /// The biases of the first keys; keys beyond them are masked.
    pub(crate) fn row(&self, query: Query) -> &[f64] {
        let [b, h, i] = self.strides;
        let start = query.batch * b + query.head * h + query.index * i;
        &self.values[start..start + self.len]
    }
}

/// Numbers are biases; true is 0 and false −∞.
fn biases(index: usize, view: TensorView<'_>) -> Result<Vec<f64>, OpError> {
    if view.dtype() == DType::Bool {
        let bias = |x: &Bool| if x.get() { 0.0 } else { f64::NEG_INFINITY };
        return Ok(collected(view.as_slice::<Bool>()?.iter().map(bias))?);
    }
    with_dtype!(view.dtype(), number, T => {
        Ok(collected(view.as_slice::<T>()?.iter().map(|&x| Number::to_f64(x)))?)
    }, else => Err(OpError::InputValue { index, what: "a mask of no numbers" }))
}
