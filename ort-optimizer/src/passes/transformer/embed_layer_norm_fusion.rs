//! EmbedLayerNormFusion: sums of rows of tables that are normalized.
//!
//! ```text
//! LayerNormalization(word[ids] + position[places] + segment[kinds]) =
//!     EmbedLayerNormalization(ids, kinds, word, position, segment, places)
//! ```
//! in any order and grouping, and without segments. Which table is called what is no matter, but
//! that the places may be the same for the whole batch; where they are 0, 1, … they are left out.
//! Ids of int64 are cast to int32.
//!
//! Source: ONNX Runtime 1.31, EmbedLayerNormFusion, which knows places by the nodes of some
//! exporters, and wants segments. Where an id is in no table, ours may find a row by what is left of
//! it in int32, as ONNX Runtime's does.

use ort_graph::{Attr, Attrs, Dim, Graph, NewNode, Patch, ValueId};
use ort_ops::ops::gather::Gather;
use ort_ops::ops::layer_normalization::LayerNormalization;
use ort_tensor::DType;

use super::{newest, normalizes_rows, terms};
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};
use crate::sizes::sizes;

pub(crate) const PASS: Pass = Pass {
    name: "EmbedLayerNormFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Box::new(EmbedLayerNormFusion),
};

struct EmbedLayerNormFusion;

impl Rewrite for EmbedLayerNormFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["LayerNormalization"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, norm) = (site.graph, site.node());
        let Some(op) = norm.operator::<LayerNormalization>() else { return Ok(None) };
        let (Some(&Some(sum)), Some(&Some(y))) = (norm.inputs.first(), norm.outputs.first()) else {
            return Ok(None);
        };
        let Some(lookups) = lookups(graph, sum)? else { return Ok(None) };
        normalizes_rows(graph, norm, op)?;
        let [_, Some(gamma), Some(beta)] = norm.inputs[..] else {
            return Err(Refusal("the norm has no bias"));
        };
        let Some(embedding) = Embedding::of(graph, &lookups) else {
            return Err(Refusal("the shapes of its ids may differ"));
        };
        let Embedding { word, position, segment, is_counted } = embedding;
        let mut patch = Patch::new(graph);
        let ids = |patch: &mut Patch, lookup: Option<Lookup>| match lookup {
            Some(lookup) => int32(site, patch, lookup.ids).map(Some),
            None => Ok(None),
        };
        let mut inputs = vec![ids(&mut patch, Some(word))?, ids(&mut patch, segment)?];
        let tables = [Some(word), Some(position), segment];
        inputs.extend(tables.map(|lookup| lookup.map(|lookup| lookup.table)));
        inputs.extend([Some(gamma), Some(beta)]);
        if !is_counted {
            inputs.extend([None, ids(&mut patch, Some(position))?]);
        }
        let new = patch.value("", graph.fact(y).clone())?;
        patch.replace(y, new);
        patch.node(NewNode {
            name: norm.name.clone(),
            domain: "com.microsoft".to_owned(),
            op_type: "EmbedLayerNormalization".to_owned(),
            since_version: 1,
            inputs,
            // ONNX Runtime wants to see a place for the mask's index.
            outputs: vec![Some(new), None],
            attrs: Attrs::new().with("epsilon", Attr::Float(op.epsilon)),
            ..NewNode::default()
        });
        Ok(Some(patch))
    }
}

/// `table[ids]`, where the table is a constant `[n, hidden]`.
#[derive(Clone, Copy)]
struct Lookup {
    table: ValueId,
    ids: ValueId,
}

impl Lookup {
    fn of(graph: &Graph, value: ValueId) -> Option<Self> {
        let node = graph.node(graph.producer(value)?.0);
        let op: &Gather = node.operator()?;
        let &[Some(table), Some(ids)] = &node.inputs[..] else { return None };
        let constant = graph.constant(table)?;
        let &[n, _] = constant.shape() else { return None };
        let fits = constant.dtype() == DType::F32 && i32::try_from(n).is_ok();
        (fits && [0, -2].contains(&op.axis)).then_some(Self { table, ids })
    }
}

/// The two or three terms of a sum, if all are lookups.
fn lookups(graph: &Graph, sum: ValueId) -> Result<Option<Vec<Lookup>>, Refusal> {
    let Some(outer) = terms(graph, sum) else { return Ok(None) };
    let (mut lookups, mut sums) = (Vec::new(), vec![sum]);
    for term in outer {
        if let Some(lookup) = Lookup::of(graph, term) {
            lookups.push(lookup);
            continue;
        }
        let Some(inner) = terms(graph, term) else { return Ok(None) };
        let [Some(a), Some(b)] = inner.map(|term| Lookup::of(graph, term)) else {
            return Ok(None);
        };
        lookups.extend([a, b]);
        sums.push(term);
    }
    let is_shared =
        |sum: &ValueId| graph.consumers(*sum).len() > 1 || graph.outputs().contains(sum);
    match sums.iter().any(is_shared) {
        true => Err(Refusal("a sum is used elsewhere")),
        false => Ok((lookups.len() < 4).then_some(lookups)),
    }
}

/// What each lookup is for.
struct Embedding {
    word: Lookup,
    position: Lookup,
    segment: Option<Lookup>,
    /// Whether the positions are 0, 1, ….
    is_counted: bool,
}

impl Embedding {
    fn of(graph: &Graph, lookups: &[Lookup]) -> Option<Self> {
        (0..lookups.len()).rev().find_map(|at| {
            let mut others = lookups.to_vec();
            let position = others.remove(at);
            let (word, segment) = (*others.first()?, others.get(1).copied());
            let dims @ [batch, length] = graph.fact(word.ids).dims()? else { return None };
            if let Some(segment) = segment {
                let kinds = graph.fact(segment.ids).dims()?;
                let is_same = kinds.len() == 2 && kinds.iter().zip(dims).all(|(a, b)| a.equals(b));
                is_same.then_some(())?;
            }
            let is_counted = match is_cut_to_length(graph, position.ids, word.ids) {
                Some(is_counted) => is_counted,
                None => is_counted(graph, position.ids, [batch, length])?,
            };
            Some(Self { word, position, segment, is_counted })
        })
    }
}

/// Whether the ids are 0, 1, …; `None` unless there is one for each word, or each of a sequence.
fn is_counted(graph: &Graph, ids: ValueId, [batch, length]: [&Dim; 2]) -> Option<bool> {
    let fact = graph.fact(ids);
    let is_counted = graph.constant(ids).is_some() && counts_up(&fact.ints()?);
    let is_one = |dim: &Dim| dim.known() == Some(1);
    match fact.dims()? {
        [of_length] if is_counted && of_length.equals(length) => Some(true),
        [rows, of_length] if of_length.equals(length) && is_one(rows) => Some(is_counted),
        [rows, of_length] if of_length.equals(length) && rows.equals(batch) => Some(false),
        _ => None,
    }
}

/// Of ids that are the first of a constant `[1, n]`, as many as the words' have columns: whether
/// they are 0, 1, …. There cannot be fewer: n would have to be 1 for the sum to have a shape.
fn is_cut_to_length(graph: &Graph, ids: ValueId, words: ValueId) -> Option<bool> {
    let slice = graph.node(graph.producer(ids)?.0);
    if slice.op_type != "Slice" || !slice.domain.is_empty() || slice.since_version < 10 {
        return None;
    }
    let input = |index: usize| slice.inputs.get(index).copied().flatten();
    let ints = |index: usize| graph.fact(input(index)?).ints();
    let all = input(0)?;
    let &[1, n] = graph.constant(all)?.shape() else { return None };
    let is_first = ints(1)? == [0] && [vec![1], vec![-1]].contains(&ints(3)?);
    let is_dense = input(4).is_none() || ints(4)? == [1];
    let end = sizes(graph, input(2)?)?;
    let is_length = matches!(&end[..], [end] if end.is_dim(graph, words, 1));
    (n > 1 && is_first && is_dense && is_length).then(|| graph.fact(all).ints())?.map(|all| counts_up(&all))
}

fn counts_up(ids: &[i64]) -> bool {
    ids.iter().zip(0..).all(|(&id, place)| id == place)
}

/// The ids, or what makes int32 of them.
fn int32(site: &Site<'_>, patch: &mut Patch, ids: ValueId) -> Result<ValueId, Refusal> {
    if site.graph.fact(ids).dtype() == Some(DType::I32) {
        return Ok(ids);
    }
    Ok(patch.output_of(NewNode {
        op_type: "Cast".to_owned(),
        since_version: newest(site, &[13, 6, 9, 19, 21, 23, 24, 25]),
        inputs: vec![Some(ids)],
        attrs: Attrs::new().with("to", Attr::Int(DType::I32.onnx().into())),
        ..NewNode::default()
    })?)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::testing::assert_optimized;

    /// A graph with tables of three rows, and these nodes.
    fn assert_embedded(inputs: &str, outputs: &str, nodes: &str, expected: &Expect) {
        let text = format!(
            "graph({inputs}) -> ({outputs}) {{
               word = const float[3,2] [1, 2, 3, 5, 8, 13]
               position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
               segment = const float[3,2] [0, 1, 3, 0, 2, 1]
               scale = const float[2] [1, 2]
               bias = const float[2] [3, 4]
               {nodes}
             }}"
        );
        assert_optimized(super::PASS, &text, expected);
    }

    #[test]
    fn lookups_in_any_order_become_one_node() {
        assert_embedded(
            "ids: int64[b,s], kinds: int32[b,s], places: int64[1,s], own: int32[b,s]",
            "y, z, w, v",
            "a = Gather-13 (word, ids)
             b = Gather-13 (position, places)
             c = Gather-13 [axis: -2] (segment, kinds)
             d = Add-14 (a, c)
             e = Add-14 (d, b)
             y = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
             f = Add-14 (b, c)
             g = Add-14 (a, f)
             z = LayerNormalization-17 [epsilon: 0.125, axis: 2] (g, scale, bias)
             h = Add-14 (b, a)
             w = LayerNormalization-17 [epsilon: 0.125] (h, scale, bias)
             i = Gather-13 (position, own)
             j = Add-14 (a, i)
             v = LayerNormalization-1 [epsilon: 0.125] (j, scale, bias)",
            &expect![[r#"
                graph(ids: int64[b,s], kinds: int32[b,s], places: int64[1,s], own: int32[b,s]) -> (y, z, w, v) {
                  word = const float[3,2] [1, 2, 3, 5, 8, 13]
                  position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
                  segment = const float[3,2] [0, 1, 3, 0, 2, 1]
                  scale = const float[2] [1, 2]
                  bias = const float[2] [3, 4]
                  value = Cast-13 [to: 6] (ids)
                  value_2 = Cast-13 [to: 6] (places)
                  y, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (value, kinds, word, position, segment, scale, bias, _, value_2)
                  value_3 = Cast-13 [to: 6] (ids)
                  value_4 = Cast-13 [to: 6] (places)
                  z, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (value_3, kinds, word, position, segment, scale, bias, _, value_4)
                  value_5 = Cast-13 [to: 6] (ids)
                  value_6 = Cast-13 [to: 6] (places)
                  w, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (value_5, _, word, position, _, scale, bias, _, value_6)
                  value_7 = Cast-13 [to: 6] (ids)
                  v, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (value_7, _, word, position, _, scale, bias, _, own)
                }"#]],
        );
    }

    #[test]
    fn positions_that_count_up_are_left_out() {
        assert_embedded(
            "ids: int32[b,s], few: int32[2,3]",
            "y, z, w, v",
            "all = const int64[1,4] [0, 1, 2, 3]
             zero = const int64[1] [0]
             one = const int64[1] [1]
             n = Shape-15 (ids)
             length = Gather-13 (n, one)
             places = Slice-13 (all, zero, length, one)
             a = Gather-13 (word, ids)
             b = Gather-13 (position, places)
             c = Add-14 (a, b)
             y = LayerNormalization-17 [epsilon: 0.125] (c, scale, bias)
             some = const int64[1,5] [1, -3, 2, 3, 0]
             others = Slice-13 (some, zero, length, one, one)
             d = Gather-13 (position, others)
             e = Add-14 (a, d)
             z = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
             list = const int64[3] [0, 1, 2]
             f = Gather-13 (position, list)
             g = Gather-13 (word, few)
             h = Add-14 (g, f)
             w = LayerNormalization-17 [epsilon: 0.125] (h, scale, bias)
             back = const int64[1,3] [-1, -2, 2]
             i = Gather-13 (position, back)
             j = Add-14 (i, g)
             v = LayerNormalization-17 [epsilon: 0.125] (j, scale, bias)",
            &expect![[r#"
                graph(ids: int32[b,s], few: int32[2,3]) -> (y, z, w, v) {
                  word = const float[3,2] [1, 2, 3, 5, 8, 13]
                  position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
                  scale = const float[2] [1, 2]
                  bias = const float[2] [3, 4]
                  zero = const int64[1] [0]
                  one = const int64[1] [1]
                  some = const int64[1,5] [1, -3, 2, 3, 0]
                  back = const int64[1,3] [-1, -2, 2]
                  n = Shape-15 (ids)
                  length = Gather-13 (n, one)
                  others = Slice-13 (some, zero, length, one, one)
                  y, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (ids, _, word, position, _, scale, bias)
                  value = Cast-13 [to: 6] (others)
                  z, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (ids, _, word, position, _, scale, bias, _, value)
                  w, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (few, _, word, position, _, scale, bias)
                  value_2 = Cast-13 [to: 6] (back)
                  v, _ = com.microsoft:EmbedLayerNormalization-1 [epsilon: 0.125] (few, _, word, position, _, scale, bias, _, value_2)
                }"#]],
        );
    }

    #[test]
    fn other_sums_stay() {
        assert_embedded(
            "ids: int64[2,3], one: int64[2,1], list: int64[3], t: float[3,2], x: float[2,3,2]",
            "y, z, w, v, u, s, r, q, g, p",
            "a = Gather-13 (word, ids)
             b = Gather-13 (position, one)
             c = Add-14 (a, b)
             y = LayerNormalization-17 [epsilon: 0.125] (c, scale, bias)
             d = Gather-13 (position, list)
             e = Add-14 (a, d)
             z = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
             f = Gather-13 (position, ids)
             g = Add-14 (a, f)
             w = LayerNormalization-17 [epsilon: 0.125] (g, scale, bias)
             h = Gather-13 (t, ids)
             i = Add-14 (a, h)
             v = LayerNormalization-17 [epsilon: 0.125] (i, scale, bias)
             j = Add-14 (a, f)
             u = LayerNormalization-17 [epsilon: 0.125] (j, scale)
             k = Add-14 (a, x)
             s = LayerNormalization-17 [epsilon: 0.125] (k, scale, bias)
             l = Add-14 (a, f)
             r, q = LayerNormalization-17 [epsilon: 0.125] (l, scale, bias)
             m = Add-14 (a, a)
             n = Add-14 (f, f)
             o = Add-14 (m, n)
             p = LayerNormalization-17 [epsilon: 0.125] (o, scale, bias)",
            &expect![[r#"
                graph(ids: int64[2,3], one: int64[2,1], list: int64[3], t: float[3,2], x: float[2,3,2]) -> (y, z, w, v, u, s, r, q, g, p) {
                  word = const float[3,2] [1, 2, 3, 5, 8, 13]
                  position = const float[4,2] [1, 0, 2, 4, 0, 9, 7, 1]
                  scale = const float[2] [1, 2]
                  bias = const float[2] [3, 4]
                  a = Gather-13 (word, ids)
                  b = Gather-13 (position, one)
                  c = Add-14 (a, b)
                  y = LayerNormalization-17 [epsilon: 0.125] (c, scale, bias)
                  d = Gather-13 (position, list)
                  e = Add-14 (a, d)
                  z = LayerNormalization-17 [epsilon: 0.125] (e, scale, bias)
                  f = Gather-13 (position, ids)
                  g = Add-14 (a, f)
                  w = LayerNormalization-17 [epsilon: 0.125] (g, scale, bias)
                  h = Gather-13 (t, ids)
                  i = Add-14 (a, h)
                  v = LayerNormalization-17 [epsilon: 0.125] (i, scale, bias)
                  j = Add-14 (a, f)
                  u = LayerNormalization-17 [epsilon: 0.125] (j, scale)
                  k = Add-14 (a, x)
                  s = LayerNormalization-17 [epsilon: 0.125] (k, scale, bias)
                  l = Add-14 (a, f)
                  r, q = LayerNormalization-17 [epsilon: 0.125] (l, scale, bias)
                  m = Add-14 (a, a)
                  n = Add-14 (f, f)
                  o = Add-14 (m, n)
                  p = LayerNormalization-17 [epsilon: 0.125] (o, scale, bias)
                }
                2 refused: the shapes of its ids may differ
                1 refused: a sum is used elsewhere
                1 refused: the norm has no bias
                1 refused: its moments are used"#]],
        );
    }
}
