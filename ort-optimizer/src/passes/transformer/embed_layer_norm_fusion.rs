//! EmbedLayerNormFusion: normalized sums of embedding lookups.
//!
//! ```text
//! LayerNormalization(word[ids] + position[places] + segment[kinds]) =
//!     EmbedLayerNormalization(ids, kinds, word, position, segment, places)
//! ```
//! in any order and grouping, without segments, and from SkipLayerNormalization. The tables are interchangeable,
//! except that the positions may be the same for the whole batch; where they are 0, 1, …, or their rows were folded
//! into a constant, they are left out. Ids of int64 are cast to int32.
//!
//! Source: ONNX Runtime 1.31, EmbedLayerNormFusion, which recognizes positions by the nodes of some exporters, and
//! requires segments. An id outside the table may be truncated to int32 and find a row, as in ONNX Runtime.

use ort_graph::{Attr, Attrs, Dim, Graph, NewNode, Node, Patch, ValueId};
use ort_ops::ops::gather::Gather;
use ort_ops::ops::layer_normalization::LayerNormalization;
use ort_ops::ops::skip_layer_normalization::SkipLayerNormalization;
use ort_tensor::{DType, Tensor};

use super::{newest, terms};
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
        Some(vec!["LayerNormalization", "SkipLayerNormalization"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let (Some(norm), Some(&Some(y))) = (Norm::of(graph, node), node.outputs.first()) else {
            return Ok(None);
        };
        let Some(lookups) = lookups(graph, norm.terms, norm.sum)? else { return Ok(None) };
        let Some(embedding) = Embedding::of(graph, &lookups) else {
            return Err(Refusal("the shapes of its ids may differ"));
        };
        let parameters = norm.parameters(graph, embedding.word.hidden)?;
        if node.outputs.iter().skip(1).flatten().any(|&other| graph.is_used(other)) {
            return Err(Refusal("its moments or its sum are used"));
        }
        let mut patch = Patch::new(graph);
        let inputs = embedding.inputs(site, &mut patch, parameters)?;
        let new = patch.value("", graph.fact(y).clone())?;
        patch.replace(y, new);
        patch.node(NewNode {
            name: node.name.clone(),
            domain: "com.microsoft".to_owned(),
            op_type: "EmbedLayerNormalization".to_owned(),
            since_version: 1,
            inputs,
            // ONNX Runtime requires an output position for the mask's index.
            outputs: vec![Some(new), None],
            attrs: Attrs::new().with("epsilon", Attr::Float(norm.epsilon)),
            ..NewNode::default()
        });
        Ok(Some(patch))
    }
}

/// A norm of the rows of a sum.
struct Norm {
    terms: [ValueId; 2],
    /// The sum, if it is a value.
    sum: Option<ValueId>,
    gamma: Option<ValueId>,
    beta: Option<ValueId>,
    /// The first axis of a row.
    axis: i64,
    epsilon: f32,
}

impl Norm {
    fn of(graph: &Graph, node: &Node) -> Option<Self> {
        let input = |index: usize| node.inputs.get(index).copied().flatten();
        if let Some(op) = node.operator::<LayerNormalization>() {
            let LayerNormalization { axis, epsilon, .. } = *op;
            let sum = input(0)?;
            let (terms, sum) = (terms(graph, sum)?, Some(sum));
            let (gamma, beta) = (input(1), input(2));
            return op.is_centered.then_some(Self { terms, sum, gamma, beta, axis, epsilon });
        }
        let op = node.operator::<SkipLayerNormalization>()?;
        let terms = [input(0)?, input(1)?];
        let (gamma, beta, epsilon) = (input(2), input(3), op.epsilon);
        let has_bias = input(4).is_some();
        (op.is_centered && !has_bias).then_some(Self {
            terms,
            sum: None,
            gamma,
            beta,
            axis: -1,
            epsilon,
        })
    }

    /// The parameters, if there are two for each element of rows of three dimensions.
    fn parameters(&self, graph: &Graph, hidden: usize) -> Result<[ValueId; 2], Refusal> {
        if ![-1, 2].contains(&self.axis) {
            return Err(Refusal("its rows have more than one dimension"));
        }
        let (Some(gamma), Some(beta)) = (self.gamma, self.beta) else {
            return Err(Refusal("the norm has no bias"));
        };
        // Constants, since the replacement of the sum depends on them.
        let is_row = |parameter| {
            let constant = graph.constant(parameter);
            constant.is_some_and(|row| row.dtype() == DType::F32 && row.shape() == [hidden])
        };
        match is_row(gamma) && is_row(beta) {
            true => Ok([gamma, beta]),
            false => Err(Refusal("its parameters are not a constant for each element of a row")),
        }
    }
}

/// `table[ids]`, where the table is a constant `[n, hidden]`; without ids a constant `[n, hidden]` or
/// `[1, n, hidden]` itself.
#[derive(Clone, Copy)]
struct Lookup {
    table: ValueId,
    ids: Option<ValueId>,
    n_rows: usize,
    hidden: usize,
}

impl Lookup {
    fn of(graph: &Graph, value: ValueId) -> Option<Self> {
        let (table, ids) = match graph.producer(value) {
            None => (value, None),
            Some((gather, _)) => {
                let gather = graph.node(gather);
                let &[Some(table), Some(ids)] = &gather.inputs[..] else { return None };
                [0, -2]
                    .contains(&gather.operator::<Gather>()?.axis)
                    .then_some((table, Some(ids)))?
            }
        };
        let constant = graph.constant(table)?;
        let (n_rows, hidden) = match *constant.shape() {
            [n_rows, hidden] => (n_rows, hidden),
            [1, n_rows, hidden] if ids.is_none() => (n_rows, hidden),
            _ => return None,
        };
        let is_f32 = constant.dtype() == DType::F32 && !constant.is_empty();
        (is_f32 && i32::try_from(n_rows).is_ok()).then_some(Self { table, ids, n_rows, hidden })
    }

    fn int32_ids(self, site: &Site<'_>, patch: &mut Patch) -> Result<Option<ValueId>, Refusal> {
        self.ids.map(|ids| int32(site, patch, ids)).transpose()
    }
}

/// The two or three terms of a sum, if all are lookups.
fn lookups(
    graph: &Graph,
    outer: [ValueId; 2],
    sum: Option<ValueId>,
) -> Result<Option<Vec<Lookup>>, Refusal> {
    let (mut lookups, mut sums) = (Vec::new(), Vec::from_iter(sum));
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
    let is_shared = |sum: &ValueId| graph.consumers(*sum).len() > 1 || graph.is_output(*sum);
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
        // A table of one column would be broadcast.
        let is_one_width = lookups.iter().all(|lookup| lookup.hidden == lookups[0].hidden);
        (0..lookups.len()).rev().filter(|_| is_one_width).find_map(|at| {
            let mut others = lookups.to_vec();
            let position = others.remove(at);
            let (word, segment) = (*others.first()?, others.get(1).copied());
            let word_ids = word.ids?;
            let dims @ [batch, length] = graph.fact(word_ids).dims()? else { return None };
            if let Some(segment) = segment {
                let kinds = graph.fact(segment.ids?).dims()?;
                Dim::all_equal(kinds, dims).then_some(())?;
            }
            let is_counted = match position.ids {
                None => (length.known() == Some(position.n_rows)).then_some(true)?,
                Some(ids) => match is_cut_to_length(graph, ids, word_ids) {
                    Some(is_counted) => is_counted,
                    None => is_counted(graph, ids, [batch, length])?,
                },
            };
            Some(Self { word, position, segment, is_counted })
        })
    }

    fn inputs(
        self,
        site: &Site<'_>,
        patch: &mut Patch,
        parameters: [ValueId; 2],
    ) -> Result<Vec<Option<ValueId>>, Refusal> {
        let Self { word, position, segment, is_counted } = self;
        let kinds = segment.map(|segment| segment.int32_ids(site, patch)).transpose()?;
        let mut inputs = vec![word.int32_ids(site, patch)?, kinds.flatten(), Some(word.table)];
        inputs.push(Some(match site.graph.fact(position.table).rank() {
            Some(2) => position.table,
            _ => squeezed(site, patch, position)?,
        }));
        inputs.push(segment.map(|segment| segment.table));
        inputs.extend(parameters.map(Some));
        if !is_counted {
            inputs.extend([None, position.int32_ids(site, patch)?]);
        }
        Ok(inputs)
    }
}

/// The rows as a matrix, left to folding.
fn squeezed(site: &Site<'_>, patch: &mut Patch, rows: Lookup) -> Result<ValueId, Refusal> {
    const TOO_LARGE: Refusal = Refusal("a table is too large");
    let hidden = i64::try_from(rows.hidden).map_err(|_| TOO_LARGE)?;
    let shape = Tensor::from_slice(&[2], &[-1, hidden]).map_err(|_| TOO_LARGE)?;
    let shape = patch.constant("", shape)?;
    Ok(patch.output_of(NewNode {
        op_type: "Reshape".to_owned(),
        since_version: newest(site, &[13, 5, 14, 19, 21, 23, 24, 25]),
        inputs: vec![Some(rows.table), Some(shape)],
        ..NewNode::default()
    })?)
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

/// Whether ids are 0, 1, … if they are a slice of a constant `[1, n]` as long as the words' rows. It cannot be
/// shorter: for n = 1 alone would the sum have a shape.
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
    (n > 1 && is_first && is_dense && is_length)
        .then(|| graph.fact(all).ints())?
        .map(|all| counts_up(&all))
}

fn counts_up(ids: &[i64]) -> bool {
    ids.iter().zip(0..).all(|(&id, place)| id == place)
}

/// The ids, cast to int32 if necessary.
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
mod tests;
