//! EmbedLayerNormalization: layer normalization of the sum of word, position and segment
//! embeddings.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, collected, filled, with_dtype};

use super::gather::normalize_index;
use super::layer_normalization::standardize_rows;
use crate::floats;
use crate::infer::expect_dims;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "EmbedLayerNormalization",
    versions: (1, 1),
    types: DType::is_float,
    build: EmbedLayerNormalization::build,
}];

/// EmbedLayerNormalization: `sum[b, s] = word[input_ids[b, s]] + position[position_ids[b, s]] +
/// segment[segment_ids[b, s]]`, and of its rows `y = (sum − mean) · inv_std · gamma + beta`.
///
/// Inputs: `input_ids: [B, S]` int32, `segment_ids: [B, S]` or none, the tables `word`, `position`
/// and `segment` (or none) `[…, H]`, `gamma` and `beta: [H]`, `mask: [B, S]` int32 or none, and
/// `position_ids: [B or 1, S]` or none, which means 0, 1, …. Outputs: `y: [B, S, H]`, how many ones
/// each row of the mask has (`[B]` int32, zeros without a mask), and `sum`. Negative ids count from the back of their
/// table, as in Gather.
///
/// Source: com.microsoft, EmbedLayerNormalization-1 (ONNX Runtime 1.31), which rejects negative ids. ONNX Runtime
/// computes the mask index even with `mask_index_type` 0 and three outputs; so do we.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbedLayerNormalization {
    /// What is added to the variance.
    pub epsilon: f32,
}

impl EmbedLayerNormalization {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        spec.ignore("mask_index_type");
        Ok(Arc::new(Self { epsilon: spec.float("epsilon")?.unwrap_or(1e-12) }))
    }
}

impl Operator for EmbedLayerNormalization {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(2, DType::is_float)?;
        [0, 1, 7, 8].iter().try_for_each(|&i| inputs.expect_dtype(i, DType::I32))?;
        (3..7).try_for_each(|i| inputs.expect_dtype(i, dtype))?;
        let [batch, length] = match inputs.fact(0)?.dims() {
            Some([batch, length]) => [batch.clone(), length.clone()],
            Some(dims) => return Err(wrong_rank(0, dims.len())),
            None => [Dim::Unknown, Dim::Unknown],
        };
        let hidden = match inputs.fact(2)?.dims() {
            Some([_, hidden]) => hidden.clone(),
            Some(dims) => return Err(wrong_rank(2, dims.len())),
            None => Dim::Unknown,
        };
        for i in [1, 7] {
            expect_dims(inputs, i, &[batch.clone(), length.clone()])?;
        }
        for i in [3, 4] {
            expect_dims(inputs, i, &[Dim::Unknown, hidden.clone()])?;
        }
        for i in [5, 6] {
            expect_dims(inputs, i, std::slice::from_ref(&hidden))?;
        }
        let y = Fact::tensor(dtype, [batch.clone(), length, hidden]);
        Ok(vec![y.clone(), Fact::tensor(DType::I32, [batch]), y])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (ids, word) = (inputs.tensor(0)?, inputs.tensor(2)?);
        let &[batch, length] = ids.shape() else { return Err(wrong_rank(0, ids.shape().len())) };
        let &[_, hidden] = word.shape() else { return Err(wrong_rank(2, word.shape().len())) };
        let n = ids.len().checked_mul(hidden).ok_or(OpError::TooLarge)?;
        let shape = [batch, length, hidden];
        let mut y = filled(0.0, n)?;
        add_rows(&mut y, inputs, (2, "word embeddings"), ids.as_slice::<i32>()?, hidden)?;
        let positions: Vec<i32> = match inputs.optional_tensor(8)? {
            Some(ids) if matches!(ids.shape(), [n, s] if [1, batch].contains(n) && *s == length) => {
                collected(ids.as_slice()?.iter().copied())?
            }
            Some(ids) => {
                let (left, right) = (ids.shape().to_vec(), vec![batch, length]);
                return Err(OpError::Shapes { what: "position ids", left, right });
            }
            None => collected(0..i32::try_from(length).map_err(|_| OpError::TooLarge)?)?,
        };
        add_rows(&mut y, inputs, (3, "position embeddings"), &positions, hidden)?;
        if let (Some(segments), Some(_)) = (inputs.optional_tensor(1)?, inputs.get(4)) {
            add_rows(&mut y, inputs, (4, "segment embeddings"), segments.as_slice()?, hidden)?;
        }
        floats::write(outputs, 2, word.dtype(), &shape, &y)?;
        standardize_rows(&mut y, hidden, self.epsilon, true)?;
        let gamma = floats::read_parameter(inputs, 5, hidden)?;
        floats::with_period(&mut y, &gamma, |y, gamma| *y *= gamma)?;
        let beta = floats::read_parameter(inputs, 6, hidden)?;
        floats::with_period(&mut y, &beta, |y, beta| *y += beta)?;
        floats::write(outputs, 0, word.dtype(), &shape, &y)?;
        match outputs.get_mut(1).filter(|output| output.is_wanted()) {
            Some(output) => count_ones(inputs, batch, output),
            None => Ok(()),
        }
    }
}

/// Adds row `ids[i]` of the table at input `index` to row `i` of `y`; the ids repeat.
fn add_rows(
    y: &mut [f64],
    inputs: Inputs<'_>,
    (index, what): (usize, &'static str),
    ids: &[i32],
    hidden: usize,
) -> Result<(), OpError> {
    let table = inputs.tensor(index)?;
    let rows = y.len().checked_div(hidden).unwrap_or(0);
    let fits = table.shape().len() == 2 && table.shape()[1] == hidden;
    if !fits || rows.checked_rem(ids.len()).unwrap_or(rows) != 0 {
        let (left, right) = (table.shape().to_vec(), vec![ids.len(), hidden]);
        return Err(OpError::Shapes { what, left, right });
    }
    with_dtype!(table.dtype(), float, T => {
        let table = table.as_slice::<T>()?;
        for (y, &id) in y.chunks_exact_mut(hidden.max(1)).zip(ids.iter().cycle()) {
            let row = normalize_index(what, id.into(), table.len() / hidden)?;
            let row = &table[row * hidden..][..hidden];
            y.iter_mut().zip(row).for_each(|(y, &x)| *y += Number::to_f64(x));
        }
        Ok(())
    }, else => Err(OpError::Unsupported { what: "an embedding of no floats" }))
}

fn count_ones(inputs: Inputs<'_>, batch: usize, output: &mut Output<'_>) -> Result<(), OpError> {
    let counts = output.tensor(DType::I32, &[batch])?.into_slice::<i32>()?;
    counts.fill(0);
    if let Some(mask) = inputs.optional_tensor(7)? {
        let mask = mask.as_slice::<i32>()?;
        let length = mask.len().checked_div(batch).unwrap_or(0);
        for (count, row) in counts.iter_mut().zip(mask.chunks_exact(length.max(1))) {
            let ones = row.iter().filter(|&&x| x == 1).count();
            *count = i32::try_from(ones).map_err(|_| OpError::TooLarge)?;
        }
    }
    Ok(())
}

const fn wrong_rank(index: usize, found: usize) -> OpError {
    OpError::InputRank { index, expected: "2", found }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    /// Three words, three positions and two segments of two values each.
    fn inputs(ids: &[i32], segments: Option<&[i32]>, mask: Option<&[i32]>) -> Vec<Option<Tensor>> {
        let rows = |ids: &[i32]| tensor(&[ids.len() / 2, 2], ids);
        vec![
            Some(rows(ids)),
            segments.map(rows),
            Some(tensor(&[3, 2], &[0_f32, 1., 2., 3., 4., 5.])),
            Some(tensor(&[3, 2], &[0_f32, 0., 0., 10., 0., 20.])),
            segments.map(|_| tensor(&[2, 2], &[0_f32, 0., 100., 0.])),
            Some(tensor(&[2], &[1_f32, 2.0])),
            Some(tensor(&[2], &[0_f32, 1.0])),
            mask.map(rows),
        ]
    }

    fn run(inputs: &[Option<Tensor>]) -> Result<Vec<Tensor>, String> {
        let case = Case::new("EmbedLayerNormalization", 1).domain("com.microsoft").outputs(3);
        let values = case.run_optional(inputs)?;
        Ok(values.iter().map(|value| value.as_tensor().unwrap().clone()).collect())
    }

    #[test]
    fn embeddings_add_up_and_are_normalized() {
        let mask = [1, 1, 1, 2];
        let found = run(&inputs(&[0, 2, 1, 1], Some(&[0, 1, 0, 0]), Some(&mask))).unwrap();
        let sum = [0_f32, 1.0, 104.0, 15.0, 2.0, 3.0, 2.0, 13.0];
        let y = [-1_f32, 3.0, 1.0, -1.0, -1.0, 3.0, -1.0, 3.0];
        assert_eq!(found[2], tensor(&[2, 2, 2], &sum));
        assert_eq!(found[0], tensor(&[2, 2, 2], &y));
        assert_eq!(found[1], tensor(&[2], &[2, 1]));
    }

    #[test]
    fn positions_can_be_given_for_the_whole_batch() {
        let mut inputs = inputs(&[0, 0, 1, 1], None, None);
        inputs.push(Some(tensor(&[1, 2], &[2, 0])));
        let found = run(&inputs).unwrap();
        inputs[8] = Some(tensor(&[1, 1], &[2]));
        assert!(run(&inputs).is_err());
        assert_eq!(found[2], tensor(&[2, 2, 2], &[0_f32, 21., 0., 1., 2., 23., 2., 3.]));
        assert_eq!(found[1], tensor(&[2], &[0, 0]));
    }

    #[test]
    fn ids_below_zero_count_from_the_back() {
        let found = run(&inputs(&[-1, 2, -3, -2], Some(&[-1, 1, 0, -2]), None)).unwrap();
        let same = run(&inputs(&[2, 2, 0, 1], Some(&[1, 1, 0, 0]), None)).unwrap();
        assert_eq!(found, same);
    }

    #[test]
    fn ids_outside_their_table_are_refused() {
        for ids in [[0, 3], [-4, 0], [i32::MIN, i32::MAX]] {
            assert!(run(&inputs(&ids, None, None)).is_err(), "{ids:?}");
        }
        assert!(run(&inputs(&[0, 0], Some(&[0, 2]), None)).is_err());
        let mut ragged = inputs(&[0, 0], None, None);
        ragged[3] = Some(tensor(&[1, 3], &[0_f32; 3]));
        assert!(run(&ragged).is_err());
        assert!(run(&inputs(&[], None, None)).is_ok());
    }
}
