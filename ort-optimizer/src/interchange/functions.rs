//! Functions of the standard written out by their bodies, where ONNX Runtime's CPU provider has no kernel for them.
//!
//! Source: ONNX 1.23, bodies of functions; ONNX Runtime 1.32, its CPU kernels.

use std::collections::BTreeSet;

use ort_graph::{Attr, Attrs, Graph};
use ort_ops::ops::activation::Activation;
use ort_ops::ops::group_normalization::GroupNormalization;
use ort_tensor::{Number, Tensor, with_dtype};

use super::bodies;
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{Pat, made, op, var};
use crate::rule::{Rules, rule};

pub(super) const PASS: Pass = Pass {
    name: "FunctionExpansion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let x = var("x");
        let hard = op("HardSigmoid", [&x]).since(6, |_| {
            Attrs::new().with("alpha", Attr::Float(1.0 / 6.0)).with("beta", Attr::Float(0.5))
        });
        let unary = |name, of: &Pat, version| op(name, [of]).since(version, plain);
        let tanh = unary("Tanh", &unary("Softplus", &x, 1), 13);
        let cast = op("Cast", [&x]).since(13, to_the_type_of_the_result);
        Rules::start([
            rule(op("HardSwish", [&x]), &x * &hard),
            rule(op("Mish", [&x]), &x * &tanh),
            rule(op("Swish", [&x]), &x * &unary("Sigmoid", &x, 13)).when(is_silu),
            rule(op("Swish", [&x]), swish(&x)).when(has_type),
            rule(op("SwiGLU", [&x, &var("b")]), swish(&x) * var("b")).when(has_type),
            rule(op("CastLike", [&x, &var("like")]), cast).when(has_type),
            rule(op("GroupNormalization", [&x, &var("scale"), &var("b")]), group_normalization())
                .when(scales_channels),
            rule(op("GroupNormalization", [&x, &var("scale"), &var("b")]), scaled_groups())
                .when(scales_groups),
        ])
    },
};

/// Functions of ai.onnx and ai.onnx.preview that ONNX Runtime's CPU has no kernel for, but for those of `bodies`: each is
/// expanded where that is possible.
const LEFT: &[&str] = &["CastLike", "FlexAttention", "GroupNormalization", "SequenceMap"];

/// The most groups for which per-group constants are made, since the number comes from the file.
const MOST_GROUPS: usize = 1 << 16;

/// `x · sigmoid(α·x)`.
fn swish(x: &Pat) -> Pat {
    x * &op("Sigmoid", [made(alpha) * x]).since(13, plain)
}

fn alpha(found: &Match<'_>) -> Result<Tensor, Refusal> {
    let alpha = match found.root().attrs.get("alpha") {
        Some(Attr::Float(alpha)) => f64::from(*alpha),
        _ => 1.0,
    };
    let none = Refusal("its type is not known");
    with_dtype!(found.fact("x").dtype().ok_or(none)?, float,
        T => Ok(Tensor::scalar(T::from_f64(alpha))), else => Err(none))
}

/// Groups normalized as instances are, and then scaled as `[N, C, …]`.
fn group_normalization() -> Pat {
    let (ones, zeros) =
        (made(|found| each_group(found, 1.0)), made(|found| each_group(found, 0.0)));
    let channels = reshape(var("x"), made(|_| ints(&[0, 0, -1])));
    let a_channel = |name| op("Unsqueeze", [var(name), made(|_| ints(&[1]))]).since(13, plain);
    let normalized = reshape(normalized(ones, zeros), shape_of(channels));
    reshape(normalized * a_channel("scale") + a_channel("b"), shape_of(var("x")))
}

/// The same where a group has one scale and one bias (before version 21).
fn scaled_groups() -> Pat {
    reshape(normalized(var("scale"), var("b")), shape_of(var("x")))
}

/// Each group `[N, groups, …]` normalized, with a factor and a term for each.
fn normalized(scale: Pat, b: Pat) -> Pat {
    let groups = reshape(var("x"), made(|found| ints(&[0, n_groups(found), -1])));
    op("InstanceNormalization", [groups, scale, b]).since(6, |found| {
        let epsilon = found.root().operator().map_or(0.0, |norm: &GroupNormalization| norm.epsilon);
        Attrs::new().with("epsilon", Attr::Float(epsilon))
    })
}

fn reshape(of: Pat, shape: Pat) -> Pat {
    op("Reshape", [of, shape]).since(13, plain)
}

fn shape_of(of: Pat) -> Pat {
    op("Shape", [of]).since(13, plain)
}

fn plain(_: &Match<'_>) -> Attrs {
    Attrs::new()
}

fn n_groups(found: &Match<'_>) -> i64 {
    let n = found.root().operator().and_then(|norm: &GroupNormalization| norm.n_groups);
    n.and_then(|n| i64::try_from(n).ok()).unwrap_or(1)
}

/// A neutral factor or term for each group.
fn each_group(found: &Match<'_>, value: f64) -> Result<Tensor, Refusal> {
    let n = usize::try_from(n_groups(found)).unwrap_or(1);
    let none = Refusal("its type is not known");
    with_dtype!(found.fact("x").dtype().ok_or(none)?, float,
        T => Tensor::from_slice(&[n], &vec![T::from_f64(value); n]).map_err(|_| none),
        else => Err(none))
}

fn ints(ints: &[i64]) -> Result<Tensor, Refusal> {
    Tensor::from_slice(&[ints.len()], ints).map_err(|_| Refusal("the shape is too long"))
}

fn scales_channels(found: &Match<'_>) -> Result<(), Refusal> {
    match found.root().operator::<GroupNormalization>() {
        Some(norm) if norm.is_scaled_by_group => Err(Refusal("its scale is that of a group")),
        Some(norm) if norm.n_groups.is_none_or(|n| n > MOST_GROUPS) => {
            Err(Refusal("it has more groups than an image has channels"))
        }
        Some(_) => Ok(()),
        None => Err(Refusal("it normalizes no groups")),
    }
}

fn scales_groups(found: &Match<'_>) -> Result<(), Refusal> {
    match found.root().operator::<GroupNormalization>() {
        Some(norm) if norm.is_scaled_by_group => Ok(()),
        _ => Err(Refusal("its scale is that of a channel")),
    }
}

fn is_silu(found: &Match<'_>) -> Result<(), Refusal> {
    match found.root().operator() {
        Some(&Activation::Swish { alpha: 1.0 }) => Ok(()),
        _ => Err(Refusal("its alpha is not 1")),
    }
}

fn has_type(found: &Match<'_>) -> Result<(), Refusal> {
    let dtype = found.root_fact().and_then(ort_graph::Fact::dtype);
    dtype.map(|_| ()).ok_or(Refusal("the type of its result is not known"))
}

fn to_the_type_of_the_result(found: &Match<'_>) -> Attrs {
    let dtype = found.root_fact().and_then(ort_graph::Fact::dtype);
    let to = dtype.map_or(0, |dtype| i64::from(dtype.onnx()));
    Attrs::new().with("to", Attr::Int(to))
}

/// The functions in a graph that were not lowered.
pub(super) fn collect_left(graph: &Graph, left: &mut BTreeSet<String>) {
    for node in graph.node_ids().map(|id| graph.node(id)) {
        let is_standard = matches!(&*node.domain, "" | "ai.onnx.preview");
        if is_standard && LEFT.contains(&&*node.op_type) || bodies::is_function(node) {
            left.insert(node.op_type.clone());
        }
        node.attrs.subgraphs().for_each(|subgraph| collect_left(subgraph, left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower_for_onnx_runtime;
    use crate::testing::{assert_equivalent, parse};

    #[test]
    fn functions_are_written_out_and_others_named() {
        let text = "graph(x: float[n,3], h: float16[2], s: float[3]) -> (a, b, c, d, e, f, g, k) {
               a = HardSwish-14 (x)
               b = Mish-18 (a)
               c = Swish-24 (b)
               d = Swish-24 [alpha: 2.0] (c)
               e = CastLike-15 (d, h)
               f = GroupNormalization-21 [num_groups: 3] (x, s, s)
               g = SwiGLU-28 [alpha: 0.5] (x, b)
               k = GroupNormalization-18 [num_groups: 3] (x, s, s)
             }";
        let before = parse(text);
        let registry = ort_ops::registry();
        let (graph, left) = lower_for_onnx_runtime(before.clone(), &registry, Some(28)).unwrap();
        assert!(left.is_empty(), "{left:?}");
        let names: Vec<_> = graph.node_ids().map(|id| graph.node(id).op_type.clone()).collect();
        for gone in ["HardSwish", "Mish", "Swish", "CastLike", "GroupNormalization", "SwiGLU"] {
            assert!(!names.iter().any(|name| name == gone), "{gone}\n{graph}");
        }
        graph.verify().unwrap();
        assert_equivalent(&before, &graph, PASS.exactness);
    }
}
