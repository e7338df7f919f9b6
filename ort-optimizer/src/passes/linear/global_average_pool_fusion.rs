//! GlobalAveragePoolFusion: the mean of an image over its spatial axes, which are kept as 1, is
//! `GlobalAveragePool(x)`.
//!
//! So squeeze-and-excite blocks have one form for other passes. Images have two spatial axes or more: with one,
//! ReduceMean is often part of a norm. Our own pass: ONNX Runtime has no equivalent.

use ort_graph::Attrs;
use ort_ops::ops::reduce::{Form, Reduce};
use ort_tensor::DType;

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "GlobalAveragePoolFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let x = var("x");
        let pool = op("GlobalAveragePool", [&x]).since(1, |_| Attrs::new());
        Rules::start([rule(op("ReduceMean", [&x]).and_more(), pool).when(is_spatial)])
    },
};

fn is_spatial(found: &Match<'_>) -> Result<(), Refusal> {
    let (node, x) = (found.root(), found.fact("x"));
    let Some(reduce) = node.operator::<Reduce>().filter(|op| op.form == Form::Mean) else {
        return Err(Refusal("it is not a mean"));
    };
    let rank = x.rank().filter(|&rank| rank >= 4).ok_or(Refusal("it is not a mean of images"))?;
    let given = node.inputs.get(1).copied().flatten().filter(|_| reduce.has_axes_input);
    let axes = reduce.axes.clone().or_else(|| found.graph.fact(given?).ints());
    let axes = axes.and_then(|axes| ort_ops::infer::normalize_axes(&axes, rank).ok());
    if axes.is_none_or(|axes| !axes.into_iter().eq(2..rank)) || !reduce.keeps_dims {
        return Err(Refusal("its axes are not the spatial ones"));
    }
    if x.dtype() == Some(DType::F32) { Ok(()) } else { Err(Refusal("it does not compute in f32")) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_mean_over_spatial_axes_is_a_pool() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,3,h], v: float[n,2,3,2,2]) -> (y, z, u) {
               axes = const int64[2] [-1, 2]
               y = ReduceMean-18 (x, axes)
               z = ReduceMean-13 [axes: [2, 3]] (x)
               u = ReduceMean-1 [axes: [3, 2, -1], keepdims: 1] (v)
             }",
            &expect![[r#"
                graph(x: float[n,2,3,h], v: float[n,2,3,2,2]) -> (y, z, u) {
                  y = GlobalAveragePool-1 (x)
                  z = GlobalAveragePool-1 (x)
                  u = GlobalAveragePool-1 (v)
                }"#]],
        );
    }

    #[test]
    fn other_means_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,3,h], s: float[n,2,3], i: int32[1,1,2,2]) -> (a, b, c, d, e) {
               a = ReduceMean-13 [axes: [2, 3], keepdims: 0] (x)
               b = ReduceMean-13 [axes: [1, 2, 3]] (x)
               c = ReduceMean-13 [axes: [2]] (s)
               d = ReduceMean-13 (x)
               e = ReduceMean-13 [axes: [2, 3]] (i)
             }",
            &expect![[r#"
                graph(x: float[n,2,3,h], s: float[n,2,3], i: int32[1,1,2,2]) -> (a, b, c, d, e) {
                  a = ReduceMean-13 [axes: [2, 3], keepdims: 0] (x)
                  b = ReduceMean-13 [axes: [1, 2, 3]] (x)
                  c = ReduceMean-13 [axes: [2]] (s)
                  d = ReduceMean-13 (x)
                  e = ReduceMean-13 [axes: [2, 3]] (i)
                }
                3 refused: its axes are not the spatial ones
                1 refused: it is not a mean of images
                1 refused: it does not compute in f32"#]],
        );
    }
}
