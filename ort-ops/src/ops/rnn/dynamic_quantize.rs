//! DynamicQuantizeLSTM: an LSTM whose weights are quantized values.

// collects are bounded: by the directions and the operands

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorError, TensorView, collected, filled};

use super::run::run_with;
use super::weights::{QuantizedMatrix, Weights};
use super::{Cell, Rnn};
use crate::integer::transposed;
use crate::quantized::{QuantizedElement, scales};

/// DynamicQuantizeLSTM: as LSTM, with `w: [D, I, 4·H]` and `r: [D, H, 4·H]` of int8 or uint8, and
/// after the inputs of LSTM scale and zero point of `w`, then of `r`, each `[D]` or `[D, 4·H]`. Their operands are
/// quantized to uint8 as by DynamicQuantizeLinear: `x` up to the longest sequence at once, and in each step the
/// states of all sequences that are active, or were in the step before. Sums are exact, the rest is float32; `x` is
/// float, float16 or bfloat16.
///
/// Source: com.microsoft, DynamicQuantizeLSTM-1 (ONNX Runtime 1.31, which with several threads may quantize the
/// states of some sequences separately).
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicQuantizeLstm {
    /// The layer.
    pub layer: Rnn,
}

/// The positions of weights, scales and zero points.
const WEIGHTS: [[usize; 3]; 2] = [[1, 8, 9], [2, 10, 11]];

/// How many inputs LSTM has.
const N_INPUTS_OF_LAYER: usize = 8;

impl DynamicQuantizeLstm {
    pub(super) fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let input_forget = spec.flag("input_forget", false)?;
        Ok(Arc::new(Self { layer: Rnn::read(spec, Cell::Lstm { input_forget })? }))
    }

    /// The matrices at `[weights, scale, zero_point]` for `[n, units]`, transposed.
    fn matrices(
        &self,
        inputs: Inputs<'_>,
        indices: [usize; 3],
        [n, units]: [usize; 2],
    ) -> Result<Vec<QuantizedMatrix>, OpError> {
        let n_directions = self.layer.direction.count();
        let w = inputs.tensor(indices[0])?;
        if w.shape() != [n_directions, n, units] {
            return Err(wrong_shape(w.shape(), &[n_directions, n, units]));
        }
        let quantized = transposed(&i16::of(indices[0], w)?, n, units)?;
        let given = |i: usize| -> Result<TensorView<'_>, OpError> {
            let x = inputs.tensor(indices[i])?;
            match *x.shape() {
                [d] | [d, _] if d != n_directions => Err(wrong_shape(x.shape(), &[n_directions])),
                [_, m] if m != units => Err(wrong_shape(x.shape(), &[n_directions, units])),
                [_] | [_, _] => Ok(x),
                _ => Err(wrong_shape(x.shape(), &[n_directions, units])),
            }
        };
        let scales = scales(indices[1], given(1)?)?;
        let zero_points = i16::of(indices[2], given(2)?)?;
        let matrix = |d: usize| -> Result<_, OpError> {
            let mut quantized =
                collected(quantized[d * n * units..(d + 1) * n * units].iter().copied())?;
            let zero_points = part(&zero_points, d, n_directions, units)?;
            for (row, zero_point) in quantized.chunks_exact_mut(n.max(1)).zip(zero_points) {
                row.iter_mut().for_each(|q| *q -= zero_point);
            }
            Ok(QuantizedMatrix { quantized, scales: part(&scales, d, n_directions, units)? })
        };
        (0..n_directions).map(matrix).collect()
    }
}

impl Operator for DynamicQuantizeLstm {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_source)?;
        let q = inputs.dtype(1, DType::is_byte)?;
        let mut layer = Vec::new();
        for [w, scale, zero_point] in WEIGHTS {
            inputs.fact(w)?;
            inputs.expect_dtype(w, q)?;
            inputs.dtype(scale, is_source)?;
            inputs.expect_dtype(scale, dtype)?;
            inputs.dtype(zero_point, DType::is_byte)?;
            inputs.expect_dtype(zero_point, q)?;
            layer.push(match inputs.fact(w)?.dims() {
                Some([d, n, units]) => Fact::tensor(dtype, [d, units, n].map(Clone::clone)),
                Some(dims) => Fact::tensor(dtype, dims.to_vec()),
                None => Fact::unranked(dtype),
            });
        }
        let facts: Vec<_> = (0..inputs.len().min(N_INPUTS_OF_LAYER))
            .map(|i| if let 1 | 2 = i { layer.get(i - 1) } else { inputs.get(i) })
            .collect();
        self.layer.infer(&Facts::new(&facts))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, r) = (inputs.tensor(0)?.shape(), inputs.tensor(2)?.shape());
        let (&[_, _, n_inputs], &[_, hidden, _]) = (x, r) else {
            return Err(wrong_shape(x, r));
        };
        let hidden = self.layer.hidden_size.unwrap_or(hidden);
        let layer = Rnn { hidden_size: Some(hidden), ..self.layer.clone() };
        let units = hidden.checked_mul(layer.cell.n_gates()).ok_or(OpError::TooLarge)?;
        // The recurrent weights first, since they verify `units`.
        let r = self.matrices(inputs, WEIGHTS[1], [hidden, units])?;
        let w = self.matrices(inputs, WEIGHTS[0], [n_inputs, units])?;
        run_with::<f32>(&layer, inputs, outputs, [w, r].map(Weights::Quantized))
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        self.layer.flops(inputs, outputs)
    }
}

pub(super) const fn is_source(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16)
}

/// The values of direction `d` for its units: one per unit, or one for all.
fn part<T: Copy>(
    values: &[T],
    d: usize,
    n_directions: usize,
    units: usize,
) -> Result<Vec<T>, TensorError> {
    match values.len() {
        n if n == n_directions => filled(values[d], units),
        _ => collected(values[d * units..(d + 1) * units].iter().copied()),
    }
}

fn wrong_shape(found: &[usize], expected: &[usize]) -> OpError {
    let (left, right) = (found.to_vec(), expected.to_vec());
    OpError::Shapes { what: "the dimensions of an input", left, right }
}
