//! PointwiseConvFusion: a product along the channels of an image, which a Transpose moves to the end and another one
//! back, is a Conv with a kernel of one position.
//!
//! ```text
//! Transpose[0,3,1,2](Transpose[0,2,3,1](x)·w + b) = Conv(x, wᵀ, b)    x: [B, K, H, W], wᵀ: [N, K, 1, 1]
//! ```
//! So are the heads of attention mixed (CaiT), positions by a gating unit (gMLP), and features projected
//! (SegFormer). Our own pass: ONNX Runtime has no equivalent.

use std::iter::once;

use ort_graph::{Attrs, Dim, Fact};
use ort_ops::ops::transpose::Transpose;
use ort_tensor::{DType, Tensor};

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{absent, constant, made, op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "PointwiseConvFusion",
    level: Level::Basic,
    exactness: Exactness::Rounding,
    start: || {
        let (x, w, b) = (var("x"), constant("w"), constant("b"));
        let product = op("MatMul", [op("Transpose", [&x]).labelled("to"), w.clone()]);
        let weights = op("Reshape", [op("Transpose", [w]), made(shape_of_weights)]);
        let conv = |b| op("Conv", [x.clone(), weights.clone(), b]).since(VERSION, |_| Attrs::new());
        let from = |y| op("Transpose", [y]).labelled("from");
        let rules = [
            rule(from(&product + &b), conv(b)).when(is_biased),
            rule(from(product), conv(absent())).when(is_pointwise),
        ];
        Rules::start(rules.map(|rule| rule.since_opset(VERSION.into())))
    },
};

/// The version of Conv.
const VERSION: i32 = 11;
/// With fewer positions, the product of few rows is faster.
const MIN_POSITIONS: usize = 32;

fn is_biased(found: &Match<'_>) -> Result<(), Refusal> {
    match (found.fact("b").dims(), found.fact("w").dims()) {
        (Some([b]), Some([_, n])) if b.equals(n) => is_pointwise(found),
        _ => Err(Refusal("the summand differs within a channel")),
    }
}

fn is_pointwise(found: &Match<'_>) -> Result<(), Refusal> {
    let (x, w) = (found.fact("x"), found.fact("w"));
    let (Some([_, _, positions @ ..]), Some(2)) = (x.dims(), w.rank()) else {
        return Err(Refusal("it is not a product of images and a matrix"));
    };
    let last = positions.len() + 1;
    if !(2..=4).contains(&last) {
        return Err(Refusal("its images have no axis or more than three"));
    }
    let perm = |label| found.node(label).operator::<Transpose>()?.perm.as_deref();
    let moves_to_end =
        perm("to").is_some_and(|to| to.iter().copied().eq(once(0).chain(2..=last).chain(once(1))));
    let moves_back = perm("from")
        .is_some_and(|from| from.iter().copied().eq([0, last].into_iter().chain(1..last)));
    if !moves_to_end || !moves_back {
        return Err(Refusal("its Transposes do not move channels to the end and back"));
    }
    let mut sizes = positions.iter().map(Dim::known);
    let n_positions = sizes.try_fold(1, |n, size| size.map(|size| size.saturating_mul(n)));
    if n_positions.is_some_and(|n: usize| n < MIN_POSITIONS) {
        return Err(Refusal("its images have few positions"));
    }
    let are_f32 = [x, w].map(Fact::dtype) == [Some(DType::F32); 2];
    if are_f32 { Ok(()) } else { Err(Refusal("it does not compute in f32")) }
}

/// `[N, K, 1, …]`
fn shape_of_weights(found: &Match<'_>) -> Result<Tensor, Refusal> {
    let unknown = Refusal("the shape of its weights is not known");
    let rank = found.fact("x").rank().ok_or(unknown)?;
    let &[k, n] = found.constant("w").ok_or(unknown)?.shape() else { return Err(unknown) };
    let size = |axis| i64::try_from([n, k].get(axis).copied().unwrap_or(1));
    // bounded: by the rank
    let shape = (0..rank).map(size).collect::<Result<Vec<i64>, _>>().map_err(|_| unknown)?;
    Tensor::from_slice(&[rank], &shape).map_err(|_| unknown)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized_in;

    #[test]
    fn products_along_channels_are_convolutions() {
        assert_optimized_in(
            Some(13),
            super::PASS,
            "graph(x: float[n,2,8,8], u: float[2,2,40], v: float[1,2,4,4,w]) -> (y, z, q) {
               w = const float[2,3] [1, 2, 3, 4, 5, 6]
               b = const float[3] [0.5, 1, 2]
               a = Transpose-13 [perm: [0, 2, 3, 1]] (x)
               c = MatMul-13 (a, w)
               d = Add-14 (b, c)
               y = Transpose-13 [perm: [0, 3, 1, 2]] (d)
               e = Transpose-13 [perm: [0, 2, 1]] (u)
               f = MatMul-9 (e, w)
               z = Transpose-13 [perm: [0, 2, 1]] (f)
               g = Transpose-13 [perm: [0, 2, 3, 4, 1]] (v)
               h = MatMul-13 (g, w)
               i = Add-14 (h, b)
               q = Transpose-13 [perm: [0, 4, 1, 2, 3]] (i)
             }",
            &expect![[r#"
                graph(x: float[n,2,8,8], u: float[2,2,40], v: float[1,2,4,4,w]) -> (y, z, q) {
                  w = const float[2,3] [1, 2, 3, 4, 5, 6]
                  b = const float[3] [0.5, 1, 2]
                  value_2 = const int64[4] [3, 2, 1, 1]
                  value_5 = const int64[3] [3, 2, 1]
                  value_8 = const int64[5] [3, 2, 1, 1, 1]
                  value = Transpose-13 (w)
                  value_3 = Reshape-13 (value, value_2)
                  y = Conv-11 (x, value_3, b)
                  value_4 = Transpose-13 (w)
                  value_6 = Reshape-13 (value_4, value_5)
                  z = Conv-11 (u, value_6)
                  value_7 = Transpose-13 (w)
                  value_9 = Reshape-13 (value_7, value_8)
                  q = Conv-11 (v, value_9, b)
                }"#]],
        );
    }

    #[test]
    fn other_products_stay() {
        assert_optimized_in(
            Some(13),
            super::PASS,
            "graph(x: float[1,2,8,8], u: float[2,2,9], d: double[2,2,40]) -> (y, z, q, r) {
               w = const float[2,3] [1, 2, 3, 4, 5, 6]
               v = const double[2,3] [1, 2, 3, 4, 5, 6]
               b = const float[8,3] [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 6]
               a = Transpose-13 [perm: [0, 2, 3, 1]] (x)
               c = MatMul-13 (a, w)
               e = Add-14 (c, b)
               y = Transpose-13 [perm: [0, 3, 1, 2]] (e)
               f = Transpose-13 [perm: [0, 3, 2, 1]] (x)
               g = MatMul-13 (f, w)
               z = Transpose-13 [perm: [0, 3, 1, 2]] (g)
               h = Transpose-13 [perm: [0, 2, 1]] (u)
               i = MatMul-13 (h, w)
               q = Transpose-13 [perm: [0, 2, 1]] (i)
               j = Transpose-13 [perm: [0, 2, 1]] (d)
               k = MatMul-13 (j, v)
               r = Transpose-13 [perm: [0, 2, 1]] (k)
             }",
            &expect![[r#"
                graph(x: float[1,2,8,8], u: float[2,2,9], d: double[2,2,40]) -> (y, z, q, r) {
                  w = const float[2,3] [1, 2, 3, 4, 5, 6]
                  v = const double[2,3] [1, 2, 3, 4, 5, 6]
                  b = const float[8,3] #2084b2ccff2ac4a8
                  a = Transpose-13 [perm: [0, 2, 3, 1]] (x)
                  c = MatMul-13 (a, w)
                  e = Add-14 (c, b)
                  y = Transpose-13 [perm: [0, 3, 1, 2]] (e)
                  f = Transpose-13 [perm: [0, 3, 2, 1]] (x)
                  g = MatMul-13 (f, w)
                  z = Transpose-13 [perm: [0, 3, 1, 2]] (g)
                  h = Transpose-13 [perm: [0, 2, 1]] (u)
                  i = MatMul-13 (h, w)
                  q = Transpose-13 [perm: [0, 2, 1]] (i)
                  j = Transpose-13 [perm: [0, 2, 1]] (d)
                  k = MatMul-13 (j, v)
                  r = Transpose-13 [perm: [0, 2, 1]] (k)
                }
                1 refused: the summand differs within a channel
                1 refused: its Transposes do not move channels to the end and back
                1 refused: its images have few positions
                1 refused: it does not compute in f32"#]],
        );
    }
}
