//! Attention to some blocks of keys.

use ort_tensor::{DType, Tensor};

use super::attending::{SLACK, blended, by_head, by_row, count, int32, scores, weights};
use super::group_query::GroupQuery;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[Property::microsoft("SparseAttention", sparse)];

/// Which blocks of keys a query in a block sees, by matrix; heads alternate between the matrices.
struct Blocks {
    size: usize,
    /// `[matrices, blocks, blocks]`.
    seen: Array,
}

impl Blocks {
    fn draw(draw: &mut Draw, longest: usize) -> Self {
        let size = draw.some_dim();
        let n = longest.div_ceil(size) + draw.below(2);
        let matrices = draw.pick(&[1, 2, 3]);
        Self { size, seen: Array::of(&draw.any(DType::Bool, &[matrices, n, n])) }
    }

    fn is_seen(&self, head: usize, query: usize, key: usize) -> bool {
        let matrix = head % self.seen.shape[0];
        *self.seen.at(&[matrix, query / self.size, key / self.size]) == Cell::Bool(true)
    }

    /// The starts and ends of the rows of each matrix, and the columns that are set.
    fn operands(&self) -> [Option<Tensor>; 2] {
        let &[matrices, n, _] = &self.seen.shape[..] else { panic!("{:?}", self.seen.shape) };
        let (mut ends, mut columns) = (vec![], vec![]);
        for matrix in 0..matrices {
            let mut own = vec![];
            ends.push(0);
            for row in 0..n {
                own.extend(
                    (0..n).filter(|&j| self.seen.at(&[matrix, row, j]) == &Cell::Bool(true)),
                );
                ends.push(own.len());
            }
            own.resize(n * n, 0);
            columns.extend(own);
        }
        [Some(int32(&[matrices, n + 1], ends)), Some(int32(&[matrices, n * n], columns))]
    }
}

fn sparse(draw: &mut Draw, dtype: DType) -> Sample {
    let capacity = draw.some_dim() + 1;
    let own = GroupQuery::draw(draw, dtype, capacity, capacity);
    let blocks = Blocks::draw(draw, own.longest);
    let shape = [own.steps.len(), own.heads, capacity, own.size];
    let pasts = [(); 2].map(|()| draw.real(dtype, &shape, 2.0));
    let lens = [int32(&[1], [own.longest]), int32(&[own.steps.len()], own.totals())].map(Some);
    let operands = own.operands().into_iter().chain(pasts.clone().map(Some));
    let operands = operands.chain(blocks.operands()).chain(lens).chain(own.tables());
    let sample = Sample::of(operands, Vec::new).outputs(3);
    let sample = own.attributes(sample).attr("sparse_block_size", count(blocks.size));
    let oracle = move || {
        let heads = [own.heads * own.shared, own.heads, own.heads];
        let [q, k, v] = [0, 1, 2].map(|i| by_head(&own.rows[i], heads[i]));
        let [q, k] = [q, k].map(|x| own.rotated(x, |batch, step| own.position(batch, step)));
        let pasts = pasts.each_ref().map(Array::of);
        let [k, v] = [(k, &pasts[0]), (v, &pasts[1])]
            .map(|(new, past)| own.by_position(&new, |at| past.at(at).clone()));
        let scores = scores(&q, &k, |dot, at| {
            let query = own.steps[at[0]].past + at[2];
            let is_seen = at[3] <= query && blocks.is_seen(at[1], query, at[3]);
            if is_seen { own.scale() * dot } else { f64::NEG_INFINITY }
        });
        let y = by_row(&blended(&weights(&scores, None), &v));
        let present = |past: &Array, x: &Array| {
            Array::from_fn(&past.shape, |at| {
                let is_kept = at[2] < own.steps[at[0]].past + own.len;
                (if is_kept { x } else { past }).at(at).clone()
            })
        };
        let outputs = [y, present(&pasts[0], &k), present(&pasts[1], &v)];
        outputs.into_iter().map(|x| Expected::within(own.dtype, x, SLACK)).collect()
    };
    Sample { oracle: Box::new(oracle), ..sample }
}
