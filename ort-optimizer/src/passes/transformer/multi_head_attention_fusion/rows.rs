//! Queries in rows, as MultiHeadAttention wants them, of queries by head.

use ort_graph::{Dim, Fact, Patch, ValueId};
use ort_tensor::DType;

use super::heads::{Heads, QUERIES, transposed};
use super::mask::{ints, node};
use crate::pass::{Refusal, Site};

/// `Reshape(Transpose[0,2,1,3](q), [B, S, N·H])`
pub(super) fn of_heads(
    site: &Site<'_>,
    heads: &Heads,
    patch: &mut Patch,
) -> Result<ValueId, Refusal> {
    const NO_ROWS: Refusal = Refusal("its queries come in no known form");
    let by_head = heads.by_head.as_ref().ok_or(NO_ROWS)?.value(site, patch)?;
    let transposed = transposed(site, patch, by_head, &QUERIES)?;
    let width = heads.size.known().and_then(|size| heads.n.checked_mul(size));
    let int = width.and_then(|n| i64::try_from(n).ok());
    let shape = ints(patch, &[0, 0, int.ok_or(NO_ROWS)?])?;
    let [b, s] = heads.dims.clone();
    let rows = patch.value(
        "query_rows",
        Fact::tensor(DType::F32, [b, s, width.map_or(Dim::Unknown, Dim::Known)]),
    )?;
    patch.node(node(site, ("Reshape", &[5, 13, 14]), vec![transposed, shape], rows));
    Ok(rows)
}
