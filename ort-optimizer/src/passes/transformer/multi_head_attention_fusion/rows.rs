//! Queries in rows, as MultiHeadAttention wants them, of queries by head.

use ort_graph::{Attr, Attrs, Fact, Patch, ValueId};
use ort_tensor::DType;

use super::chain::{Heads, QUERIES};
use super::mask::{ints, node};
use crate::pass::{Refusal, Site};

/// `Reshape(Transpose[0,2,1,3](q), [B, S, N·H])`
pub(super) fn of_heads(
    site: &Site<'_>,
    heads: &Heads,
    patch: &mut Patch,
) -> Result<ValueId, Refusal> {
    const NO_ROWS: Refusal = Refusal("its queries come in no known form");
    let by_head = heads.by_head.ok_or(NO_ROWS)?;
    let transposed = patch.value("queries", Fact::UNKNOWN)?;
    let mut transpose = node(site, ("Transpose", &[1, 13]), vec![by_head], transposed);
    let perm = QUERIES.iter().filter_map(|&axis| i64::try_from(axis).ok()).collect();
    transpose.attrs = Attrs::new().with("perm", Attr::Ints(perm));
    patch.node(transpose);
    let width = heads.n.checked_mul(heads.size).and_then(|n| i64::try_from(n).ok());
    let shape = ints(patch, &[0, 0, width.ok_or(NO_ROWS)?])?;
    let rows = patch.value("query_rows", Fact::tensor(DType::F32, heads.dims.iter().cloned()))?;
    patch.node(node(site, ("Reshape", &[5, 13, 14]), vec![transposed, shape], rows));
    Ok(rows)
}
