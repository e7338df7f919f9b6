//! SparseAttention: GroupQueryAttention in which a query sees only some blocks of keys.

// collects are bounded: by the operands

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Tensor, ValueView, collected, filled, n_elements};

use super::group_query_attention::{GroupQueryAttention, Kept};
use crate::infer::expect_dims;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "SparseAttention",
    versions: (1, 1),
    types: DType::is_float,
    build: SparseAttention::build,
}];

/// SparseAttention: GroupQueryAttention, where a query in block `i` of a sequence sees, of the keys
/// before it, those in block `j` if entry `(i, j)` of a matrix is set; heads alternate between the matrices.
///
/// Inputs: q, k, v and the past of k and v, as of GroupQueryAttention; the rows `[matrices, blocks +
/// 1]` and the columns `[matrices, entries]` of the matrices; the longest length; the length of each
/// batch; cosines and sines. Outputs: `y: [B, S, N·H]` and the past's buffers with the new rows.
///
/// Source: com.microsoft, SparseAttention-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparseAttention {
    /// The same operator without a mask of blocks.
    pub dense: GroupQueryAttention,
    /// How many keys a block has.
    pub sparse_block_size: usize,
}

/// Matrices of blocks by row.
struct Blocks<'a> {
    rows: &'a [i32],
    columns: &'a [i32],
    /// How many rows and columns of each matrix are stored.
    strides: [usize; 2],
    matrices: usize,
    size: usize,
}

impl SparseAttention {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let count = |name| {
            let n = spec.int(name)?.ok_or(OpError::MissingAttribute { name })?;
            let wrong = OpError::AttributeValue { name, found: n.to_string() };
            usize::try_from(n).ok().filter(|&n| n > 0).ok_or(wrong)
        };
        let (num_heads, kv_num_heads) = (count("num_heads")?, count("kv_num_heads")?);
        if num_heads % kv_num_heads != 0 {
            return Err(OpError::AttributeValue {
                name: "num_heads",
                found: num_heads.to_string(),
            });
        }
        let dense = GroupQueryAttention {
            num_heads,
            kv_num_heads,
            scale: spec.float("scale")?,
            softcap: 0.0,
            is_causal: true,
            local_window_size: None,
            slides: false,
            is_buffer: true,
            do_rotary: spec.flag("do_rotary", false)?,
            rotary_interleaved: spec.flag("rotary_interleaved", false)?,
            smooth_softmax: false,
            scores: None,
            norm_epsilons: [0.0; 2],
            kept: [Kept::Plain; 2],
        };
        Ok(Arc::new(Self { dense, sparse_block_size: count("sparse_block_size")? }))
    }

    /// What is added to the scores `[B, N, S, T]`: −∞ for a key in a masked block.
    fn biases(&self, inputs: Inputs<'_>, lens: &[i32], longest: usize) -> Result<Tensor, OpError> {
        let q = inputs.tensor(0)?.shape();
        let &[batch, len, _] = q else {
            return Err(OpError::InputRank { index: 0, expected: "3", found: q.len() });
        };
        let capacity = inputs.tensor(3)?.shape().get(2).copied().unwrap_or(0);
        if longest > capacity || longest < len || lens.len() != batch {
            let (left, right) = (vec![longest], vec![len, capacity]);
            return Err(OpError::Shapes { what: "the lengths of sequences", left, right });
        }
        let blocks = Blocks::read(inputs, self.sparse_block_size)?;
        let shape = [batch, self.dense.num_heads, len, longest];
        let n = n_elements(&shape).ok_or(OpError::TooLarge)?;
        let mut biases = filled(f32::NEG_INFINITY, n)?;
        for (i, row) in biases.chunks_exact_mut(longest.max(1)).enumerate() {
            let (head, query) = (i / len, i % len);
            let total = usize::try_from(lens[head / self.dense.num_heads]).unwrap_or(0);
            let past = if len == longest { 0 } else { total.saturating_sub(len) };
            let matrix = head % self.dense.num_heads % blocks.matrices;
            for &column in blocks.row(matrix, (past + query) / blocks.size)? {
                let start = usize::try_from(column).ok().and_then(|j| j.checked_mul(blocks.size));
                let seen = start.and_then(|start| row.get_mut(start..)).unwrap_or_default();
                seen.iter_mut().take(blocks.size).for_each(|bias| *bias = 0.0);
            }
        }
        Ok(Tensor::from_slice(&shape, &biases)?)
    }
}

impl<'a> Blocks<'a> {
    fn read(inputs: Inputs<'a>, size: usize) -> Result<Self, OpError> {
        let (rows, columns) = (inputs.tensor(5)?, inputs.tensor(6)?);
        match (rows.shape(), columns.shape()) {
            (&[matrices, n_rows], &[also, n_columns]) if matrices == also && matrices > 0 => {
                let (rows, columns) = (rows.as_slice()?, columns.as_slice()?);
                Ok(Self { rows, columns, strides: [n_rows, n_columns], matrices, size })
            }
            (left, right) => {
                let (left, right) = (left.to_vec(), right.to_vec());
                Err(OpError::Shapes { what: "matrices of blocks", left, right })
            }
        }
    }

    /// The blocks visible from block `i`.
    fn row(&self, matrix: usize, i: usize) -> Result<&'a [i32], OpError> {
        let [n_rows, n_columns] = self.strides;
        let ends = &self.rows[matrix * n_rows..][..n_rows];
        let columns = &self.columns[matrix * n_columns..][..n_columns];
        let end = |i: usize| ends.get(i).and_then(|&end| usize::try_from(end).ok());
        let range = end(i).zip(i.checked_add(1).and_then(end));
        let found = range.and_then(|(start, end)| columns.get(start..end));
        found.ok_or(OpError::InputValue { index: 5, what: "no row for a block" })
    }
}

impl Operator for SparseAttention {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        [1, 2, 3, 4, 9, 10].iter().try_for_each(|&i| inputs.expect_dtype(i, dtype))?;
        (5..9).try_for_each(|i| inputs.expect_dtype(i, DType::I32))?;
        (5..7).try_for_each(|i| expect_dims(inputs, i, &[const { Dim::Unknown }; 2]))?;
        let parts: Vec<_> = (0..5).map(|i| inputs.get(i)).collect();
        let mut facts = self.dense.infer(&Facts::new(&parts))?;
        facts.truncate(1);
        for i in [3, 4] {
            facts.push(inputs.fact(i)?.ty.clone().into());
        }
        Ok(facts)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let lens = inputs.tensor(8)?.as_slice::<i32>()?;
        let &[longest] = inputs.tensor(7)?.as_slice::<i32>()? else {
            return Err(OpError::InputValue { index: 7, what: "a single length is needed" });
        };
        let biases = self.biases(inputs, lens, usize::try_from(longest).unwrap_or(0))?;
        let last = collected(lens.iter().map(|len| len.saturating_sub(1)))?;
        let last = Tensor::from_slice(&[last.len()], &last)?;
        let own = |i| inputs.get(i);
        let dense = [
            own(0),
            own(1),
            own(2),
            own(3),
            own(4),
            Some(ValueView::Tensor(last.view())),
            own(7),
            own(9),
            own(10),
            None,
            Some(ValueView::Tensor(biases.view())),
        ];
        self.dense.eval(Inputs::new(&dense), outputs)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor};

    use crate::case::{Case, tensor};

    /// The mean of the values that each of three queries sees: 1, 2 and 4, in blocks of one key.
    fn run(rows: &[i32], columns: &[i32]) -> Result<Vec<f32>, String> {
        let case = Case::new("SparseAttention", 1).domain("com.microsoft").outputs(3);
        let case = case.attr("num_heads", Attr::Int(1)).attr("kv_num_heads", Attr::Int(1));
        let case = case.attr("sparse_block_size", Attr::Int(1));
        let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape).unwrap();
        let found = case.run(&[
            zeros(&[1, 3, 1]),
            zeros(&[1, 3, 1]),
            tensor(&[1, 3, 1], &[1_f32, 2.0, 4.0]),
            zeros(&[1, 1, 4, 1]),
            tensor(&[1, 1, 4, 1], &[7_f32, 7.0, 7.0, 7.0]),
            tensor(&[1, rows.len()], rows),
            tensor(&[1, columns.len()], columns),
            tensor(&[1], &[3]),
            tensor(&[1], &[3]),
        ])?;
        assert_eq!(found[2].as_tensor(), Ok(&tensor(&[1, 1, 4, 1], &[1_f32, 2.0, 4.0, 7.0])));
        Ok(found[0].as_tensor().unwrap().as_slice().unwrap().to_vec())
    }

    #[test]
    fn a_query_sees_its_blocks() {
        assert_eq!(run(&[0, 1, 2, 4], &[0, 1, 0, 2]), Ok(vec![1.0, 2.0, 2.5]));
        assert_eq!(run(&[0, 1, 3, 5], &[0, 0, 1, 1, 2, -1]), Ok(vec![1.0, 1.5, 3.0]));
        assert_eq!(run(&[0, 1, 2, 3], &[2, -1, i32::MAX]), Ok(vec![0.0; 3]));
        for rows in [&[0, 1][..], &[0, 1, 2, 9], &[-1, 1, 2, 3], &[2, 1, 0, 0]] {
            assert!(run(rows, &[0, 1, 2]).is_err(), "{rows:?}");
        }
    }
}
