//! EmbedLayerNormalization in f32: rows of the tables are added in the result, and
//! normalized in place. Nodes that use a mask or return the sum are left to `eval`.

// collects are bounded: by the operands

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_kernels::vec::NormRow;
use ort_kernels::{Isa, vec};
use ort_ops::ops::embed_layer_normalization::EmbedLayerNormalization;
use ort_ops::ops::gather::normalize_index;
use ort_tensor::{DType, Inputs, TensorViewMut};
use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an element, in multiply-adds.
const COST: usize = 10;

/// The inputs that hold ids and their table.
const WORDS: (usize, usize, &str) = (0, 2, "word embeddings");
const POSITIONS: (usize, usize, &str) = (8, 3, "position embeddings");
const SEGMENTS: (usize, usize, &str) = (1, 4, "segment embeddings");
const GAMMA: usize = 5;
const BETA: usize = 6;

#[derive(Debug)]
struct EmbedKernel {
    isa: Isa,
    epsilon: f32,
}

/// Prepared state for one shape signature.
struct State {
    /// Batch, length, and elements per row.
    shape: [usize; 3],
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&EmbedLayerNormalization { epsilon }) = compiler.op() else { return Ok(None) };
    let mut others = compiler.claim.outputs.iter().skip(1);
    if others.any(Option::is_some) || !compiler.are_f32(WORDS.1..BETA + 1) {
        return Ok(None);
    }
    Ok(Some(Box::new(EmbedKernel { isa: compiler.cpu.isa, epsilon })))
}

/// A table, and the ids of the rows to add.
struct Lookup<'a> {
    table: &'a [f32],
    n_rows: usize,
    /// Ids, which repeat with the batch; if absent, 0, 1, … below the length.
    ids: Option<&'a [i32]>,
}

impl<'a> Lookup<'a> {
    /// Checks that every id is in its table.
    fn new(
        inputs: Inputs<'a>,
        (ids, table, what): (usize, usize, &'static str),
        length: usize,
    ) -> Result<Self, KernelError> {
        let table = inputs.tensor(table)?;
        let n_rows = table.shape()[0];
        let ids: Option<&[i32]> = match inputs.optional_tensor(ids)? {
            Some(ids) => Some(ids.as_slice()?),
            None => None,
        };
        for &id in ids.unwrap_or_default() {
            normalize_index(what, id.into(), n_rows)?;
        }
        if ids.is_none() && length > n_rows {
            let index = i64::try_from(n_rows).map_err(|_| OpError::TooLarge)?;
            return Err(OpError::Index { what, index, len: n_rows }.into());
        }
        Ok(Self { table: table.as_slice()?, n_rows, ids })
    }

    /// The row to add to row `at` of the result.
    fn row(&self, at: usize, [_, length, hidden]: [usize; 3]) -> &'a [f32] {
        let row = match self.ids.map(|ids| ids[at % ids.len()]) {
            None => at % length,
            Some(id) => usize::try_from(id)
                .unwrap_or_else(|_| self.n_rows.saturating_sub(id.unsigned_abs() as usize)),
        };
        &self.table[row * hidden..][..hidden]
    }
}

fn lookups<'a>(
    inputs: Inputs<'a>,
    [_, length, _]: [usize; 3],
) -> Result<SmallVec<[Lookup<'a>; 3]>, KernelError> {
    let has_segments = inputs.get(SEGMENTS.0).is_some() && inputs.get(SEGMENTS.1).is_some();
    let segments = Some(SEGMENTS).filter(|_| has_segments);
    let all = [WORDS, POSITIONS].into_iter().chain(segments);
    all.map(|inputs_of| Lookup::new(inputs, inputs_of, length)).collect()
}

impl Kernel for EmbedKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let shape_of = |input: usize| shapes.get(input).copied().unwrap_or_default();
        let (&[batch, length], &[_, hidden]) = (shape_of(WORDS.0), shape_of(WORDS.1)) else {
            return Err(KernelError::ForeignState);
        };
        let expect = |what, input, is_valid: &dyn Fn(&[usize]) -> bool, right: &[usize]| {
            let shape = shape_of(input);
            // An absent input has no dimensions.
            if shape.is_empty() || is_valid(shape) {
                return Ok(());
            }
            Err(OpError::Shapes { what, left: shape.to_vec(), right: right.to_vec() })
        };
        for (_, table, what) in [POSITIONS, SEGMENTS] {
            let is_valid = |shape: &[usize]| matches!(shape, [_, n] if *n == hidden);
            expect(what, table, &is_valid, &[0, hidden])?;
        }
        for parameter in [GAMMA, BETA] {
            expect("row and parameter", parameter, &|shape| shape == [hidden], &[hidden])?;
        }
        let ids = [batch, length];
        expect("segment ids", SEGMENTS.0, &|shape| shape == ids, &ids)?;
        let of_positions = |shape: &[usize]| shape == ids || shape == [1, length];
        expect("position ids", POSITIONS.0, &of_positions, &ids)?;
        Ok(Prepared::new(State { shape: [batch, length, hidden] }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { shape } = prepared.state()?;
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, &shape)?)?;
        if y.is_empty() {
            return Ok(());
        }
        let lookups = lookups(io.inputs, shape)?;
        let gamma = io.inputs.tensor(GAMMA)?.as_slice()?;
        let beta = io.inputs.tensor(BETA)?.as_slice()?;
        let [_, _, hidden] = shape;
        let rows = Rows { len: hidden, cost: hidden.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            for (i, y) in y.chunks_exact_mut(hidden).enumerate() {
                let at = start / hidden + i;
                for (j, lookup) in lookups.iter().enumerate() {
                    let row = lookup.row(at, shape);
                    if j == 0 {
                        y.copy_from_slice(row);
                    } else {
                        vec::add(self.isa, y, row);
                    }
                }
                let (bias, epsilon) = (Some(beta), self.epsilon);
                vec::layer_norm(self.isa, NormRow { x: None, y, scale: gamma, bias, epsilon });
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "embed_layer_norm_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, floats, within};

    /// Tables and parameters are at most 4, their sums at most 12: a difference of sums has an error of 16
    /// units of that, and the result, after three more roundings, is at most 4·4.
    const ERROR: f32 = 4.0 * 4.0 * 32.0 * f32::EPSILON;

    /// Ids of one of `n` rows, from the front and from the back.
    fn ids(shape: &[usize], n: i32) -> Tensor {
        let count = i32::try_from(shape.iter().product::<usize>()).unwrap();
        let ids: Vec<i32> = (0..count).map(|i| (i * 7 + 3) % (2 * n) - n).collect();
        Tensor::from_slice(shape, &ids).unwrap()
    }

    #[test]
    fn rows_of_tables_are_added_and_normalized() {
        for [batch, length, hidden] in [[1, 1, 7], [2, 5, 64], [3, 70, 100], [0, 4, 8], [2, 0, 8]] {
            for (has_segments, positions) in
                [(false, None), (true, None), (true, Some(1)), (false, Some(batch))]
            {
                let case = Case::new("EmbedLayerNormalization", 1)
                    .domain("com.microsoft")
                    .attr("epsilon", Attr::Float(1e-5))
                    .outputs(2)
                    .unwanted(&[1])
                    .input(ids(&[batch, length], 11));
                let case = match has_segments {
                    true => case.input(ids(&[batch, length], 2)),
                    false => case.absent(),
                };
                let case = case.weight(floats(&[11, hidden])).weight(floats(&[70, hidden]));
                let case = match has_segments {
                    true => case.weight(floats(&[2, hidden])),
                    false => case.absent(),
                };
                let case = case.weight(floats(&[hidden])).weight(floats(&[hidden]));
                match positions {
                    None => case.check(within(ERROR)),
                    Some(n) => {
                        case.absent().input(ids(&[n, length], 70)).check(within(ERROR));
                    }
                }
            }
        }
    }
}
