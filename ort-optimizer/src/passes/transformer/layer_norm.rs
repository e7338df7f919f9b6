//! The formulas of layer normalization, and the conditions on their axes and parameters.

use ort_graph::{Attr, Attrs, Dim, Fact, Graph, Node};
use ort_ops::ops::reduce::{Form, Reduce};

use super::is_f32;
use crate::matching::Match;
use crate::pass::Refusal;
use crate::pattern::{Pat, any, constant, op, var};
use crate::rule::{Rule, rule};

/// The version of LayerNormalization in ai.onnx, which is also its first opset.
pub(super) const VERSION: i32 = 17;

/// `d / √(mean(d²) + epsilon) · scale`, `d = x − mean(x)`, is a LayerNormalization, and so is one
/// with a bias after it.
pub(super) fn rules(version: i32) -> [Rule; 2] {
    let [x, d, scale, bias] = ["x", "d", "scale", "bias"].map(var);
    let norm = |inputs: &[&Pat]| match inputs {
        [x, scale, bias] => op("LayerNormalization", [*x, *scale, *bias]),
        _ => op("LayerNormalization", [&x, &scale]),
    };
    let plain = norm(&[&x, &scale]);
    let difference = (&x - &mean(&x, "mean")).named("d");
    let made = plain.clone().since(version, attrs);
    [
        rule(normal(&difference, &d) * &scale, &made).when(is_norm),
        rule(&plain + &bias, norm(&[&x, &scale, &bias])).when(has_bias),
    ]
}

/// `x / √(mean(x²) + epsilon)`; `x` is the formula for x, `again` the one for its repetition.
pub(super) fn normal(x: &Pat, again: &Pat) -> Pat {
    let square = any([op("Pow", [again, &2.0.into()]), again * again]);
    let variance = mean(&square, "variance") + &constant("epsilon");
    let deviation = op("Sqrt", [&variance]);
    any([
        x / &deviation,
        x * (1.0 / &deviation),
        x * op("Reciprocal", [&deviation]),
        x * op("Pow", [&variance, &(-0.5).into()]),
    ])
}

fn mean(x: &Pat, label: &'static str) -> Pat {
    op("ReduceMean", [x]).and_more().labelled(label)
}

fn is_norm(found: &Match<'_>) -> Result<(), Refusal> {
    let axes = reduced(found.graph, found.node("mean"));
    if axes.is_none() || axes != reduced(found.graph, found.node("variance")) {
        return Err(Refusal("its means are not over the same, known axes"));
    }
    is_row_norm(found)
}

/// The variance is over the last axes, there is a scale for each element of a row, and epsilon is a number.
pub(super) fn is_row_norm(found: &Match<'_>) -> Result<(), Refusal> {
    is_f32(found)?;
    let axis = axis(found).ok_or(Refusal("its axes are not the last ones, or not known"))?;
    let row = found.fact("x").dims().map_or(&[][..], |dims| &dims[axis..]);
    if !is_row(found.fact("scale"), row) {
        return Err(Refusal("its scale is not one for each element of a row"));
    }
    epsilon(found).map(|_| ()).ok_or(Refusal("its epsilon is not one number"))
}

fn has_bias(found: &Match<'_>) -> Result<(), Refusal> {
    is_f32(found)?;
    let scale = found.fact("scale").dims();
    match scale.is_some_and(|scale| is_row(found.fact("bias"), scale)) {
        true => Ok(()),
        false => Err(Refusal("its bias is not one for each element of a row")),
    }
}

fn is_row(parameter: &Fact, row: &[Dim]) -> bool {
    parameter.dims().is_some_and(|dims| Dim::all_equal(dims, row))
}

/// `axis`, `epsilon` and `stash_type` of the normalization that was found.
pub(super) fn attrs(found: &Match<'_>) -> Attrs {
    let rank = found.fact("x").rank().unwrap_or(0);
    let n_axes = axis(found).map_or(1, |axis| rank - axis);
    Attrs::new()
        .with("axis", Attr::Int(-i64::try_from(n_axes).unwrap_or(1)))
        .with("epsilon", Attr::Float(epsilon(found).unwrap_or(0.0)))
        .with("stash_type", Attr::Int(1))
}

/// The first dimension of a row.
fn axis(found: &Match<'_>) -> Option<usize> {
    let rank = found.fact("x").rank()?;
    let axes = reduced(found.graph, found.node("variance"))?;
    let first = rank.checked_sub(axes.len()).filter(|&first| first < rank)?;
    (first..rank).all(|axis| axes.contains(&axis)).then_some(first)
}

/// The axes of a mean that keeps its dimensions.
fn reduced(graph: &Graph, node: &Node) -> Option<Vec<usize>> {
    let op: &Reduce = node.operator()?;
    let rank = i64::try_from(graph.fact(node.inputs.first().copied()??).rank()?).ok()?;
    let given = match node.inputs.get(1).copied().flatten() {
        Some(axes) => graph.fact(axes).ints()?,
        None => op.axes.clone()?,
    };
    let mut axes: Vec<usize> = given
        .into_iter()
        .map(|axis| usize::try_from(if axis < 0 { axis + rank } else { axis }).ok())
        .collect::<Option<_>>()?;
    axes.sort_unstable();
    (op.form == Form::Mean && op.keeps_dims && !axes.is_empty()).then_some(axes)
}

fn epsilon(found: &Match<'_>) -> Option<f32> {
    let epsilon = found.constant("epsilon")?;
    let keeps_rank = epsilon.shape().len() <= found.fact("x").rank()?;
    match epsilon.as_slice::<f32>() {
        Ok(&[epsilon]) if keeps_rank => Some(epsilon),
        _ => None,
    }
}
