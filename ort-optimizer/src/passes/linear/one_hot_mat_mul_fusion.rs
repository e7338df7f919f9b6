//! OneHotMatMulFusion: a product of one-hot rows becomes a lookup of rows of the other operand.
//!
//! ```text
//! MatMul(Cast(Equal(x, [0, 1, …, n − 1])), table) = Gather(rows, Clip(Squeeze(x, −1), −1, n))
//! ```
//! where `x` is `[…, 1]` and `rows` are those of the table and a row of zeros, for values that are not a class: −1,
//! which indexes from the end, and n. Our own pass: ONNX Runtime has no equivalent.

use ort_graph::{Attr, Attrs, Dim, Graph, ValueId};
use ort_tensor::{DType, Tensor};

use super::channels::ints;
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{Pat, constant, made, op, var};
use crate::rule::{Rules, rule};
use crate::sizes::{Size, sizes};

pub(crate) const PASS: Pass = Pass {
    name: "OneHotMatMulFusion",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let (x, classes, table) = (var("x"), constant("classes"), constant("table"));
        let equals = [[&x, &classes], [&classes, &x]].map(|operands| op("Equal", operands));
        Rules::start(equals.map(|equal| {
            let find = op("MatMul", [op("Cast", [equal]), table.clone()]);
            rule(find, rows_of(&x)).when(is_lookup).since_opset(13)
        }))
    },
};

fn rows_of(x: &Pat) -> Pat {
    let indices = op("Squeeze", [x.clone(), made(|_| ints(&[-1]))]).since(13, |_| Attrs::new());
    let bounds = [made(|found| bound(found, |_| -1)), made(|found| bound(found, |n| n))];
    let [least, greatest] = bounds;
    let clipped = op("Clip", [indices, least, greatest]).since(13, |_| Attrs::new());
    op("Gather", [made(rows), clipped]).since(13, |_| Attrs::new().with("axis", Attr::Int(0)))
}

/// A scalar of the type of `x` that follows from the number of classes.
fn bound(found: &Match<'_>, of: fn(i64) -> i64) -> Result<Tensor, Refusal> {
    let wide = Refusal("there are too many classes");
    let n = found.constant("classes").map_or(0, Tensor::len);
    let bound = of(i64::try_from(n).map_err(|_| wide)?);
    match found.fact("x").dtype() {
        Some(DType::I64) => Ok(Tensor::scalar(bound)),
        Some(DType::I32) => Ok(Tensor::scalar(i32::try_from(bound).map_err(|_| wide)?)),
        _ => Err(Refusal("the classes are not integers of 32 or 64 bits")),
    }
}

/// The rows of the table, and one of zeros. Adding +0 removes −0.
fn rows(found: &Match<'_>) -> Result<Tensor, Refusal> {
    let table = found.constant("table").ok_or(NO_MATRIX)?;
    let &[n, width] = table.shape() else { return Err(NO_MATRIX) };
    let rows = table.as_slice::<f32>().map_err(|_| NO_MATRIX)?;
    let rows: Vec<f32> = rows.iter().map(|x| x + 0.0).chain(vec![0.0; width]).collect();
    Tensor::from_slice(&[n + 1, width], &rows).map_err(|_| Refusal("the table is too large"))
}

const NO_MATRIX: Refusal = Refusal("the table is not a matrix of f32");

fn is_lookup(found: &Match<'_>) -> Result<(), Refusal> {
    let classes = found.constant("classes").ok_or(Refusal("the classes are not constant"))?;
    let table = found.constant("table").ok_or(NO_MATRIX)?;
    let x = found.fact("x").dims().unwrap_or_default();
    let [ones @ .., n] = classes.shape() else { return Err(Refusal("there is only one class")) };
    let is_along = ones.len() < x.len() && ones.iter().all(|&n| n == 1);
    if !is_along || !is_column(found.graph, found.value("x")) {
        return Err(Refusal("the classes do not have their own axis"));
    }
    let values = found.fact("classes").ints().unwrap_or_default();
    if *n == 0 || !values.into_iter().eq((0_i64..).take(*n)) {
        return Err(Refusal("the classes are not 0, 1, 2, …"));
    }
    let is_finite = |rows: &[f32]| rows.iter().all(|x| x.is_finite());
    match table.as_slice::<f32>() {
        Ok(rows) if table.shape().len() == 2 && is_finite(rows) => Ok(()),
        // Zero times infinity is not zero.
        Ok(_) if table.shape().len() == 2 => Err(Refusal("the table is not finite")),
        _ => Err(NO_MATRIX),
    }
}

/// Whether the last dimension is 1, maybe because an Expand leaves it so.
fn is_column(graph: &Graph, x: ValueId) -> bool {
    if graph.fact(x).dims().and_then(<[Dim]>::last) == Some(&Dim::Known(1)) {
        return true;
    }
    let expand = graph.producer(x).map(|(id, _)| graph.node(id));
    let Some(expand) = expand.filter(|node| node.op_type == "Expand") else { return false };
    let &[Some(source), Some(shape)] = &*expand.inputs else { return false };
    let last = sizes(graph, shape).and_then(|sizes| sizes.last().cloned());
    last == Some(Size::Known(1)) && is_column(graph, source)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized_in;

    #[test]
    fn rows_are_looked_up() {
        assert_optimized_in(
            Some(17),
            super::PASS,
            "graph(x: int32[n,4,1], i: int64[1], w: int32[?,4,1]) -> (y, z, u) {
               classes = const int32[1,1,3] [0, 1, 2]
               table = const float[3,2] [1, -2, 3, 0.5, -0.25, 7]
               a = Equal-13 (x, classes)
               b = Cast-13 [to: 1] (a)
               y = MatMul-13 (b, table)
               two = const int64[2] [0, 1]
               pair = const float[2,1] [4, 5]
               c = Equal-13 (two, i)
               d = Cast-13 [to: 1] (c)
               z = MatMul-13 (d, pair)
               rows = Shape-15 [end: 1] (x)
               rest = const int64[2] [4, 1]
               shape = Concat-13 [axis: 0] (rows, rest)
               e = Expand-13 (w, shape)
               f = Equal-13 (e, classes)
               g = Cast-13 [to: 1] (f)
               u = MatMul-13 (g, table)
             }",
            &expect![[r#"
                graph(x: int32[n,4,1], i: int64[1], w: int32[?,4,1]) -> (y, z, u) {
                  rest = const int64[2] [4, 1]
                  value = const float[4,2] [1, -2, 3, 0.5, -0.25, 7, 0, 0]
                  value_2 = const int64[1] [-1]
                  value_4 = const int32[] -1
                  value_5 = const int32[] 3
                  value_7 = const float[3,1] [4, 5, 0]
                  value_8 = const int64[1] [-1]
                  value_10 = const int64[] -1
                  value_11 = const int64[] 2
                  value_13 = const float[4,2] [1, -2, 3, 0.5, -0.25, 7, 0, 0]
                  value_14 = const int64[1] [-1]
                  value_16 = const int32[] -1
                  value_17 = const int32[] 3
                  rows = Shape-15 [end: 1] (x)
                  shape = Concat-13 [axis: 0] (rows, rest)
                  e = Expand-13 (w, shape)
                  value_3 = Squeeze-13 (x, value_2)
                  value_6 = Clip-13 (value_3, value_4, value_5)
                  y = Gather-13 [axis: 0] (value, value_6)
                  value_9 = Squeeze-13 (i, value_8)
                  value_12 = Clip-13 (value_9, value_10, value_11)
                  z = Gather-13 [axis: 0] (value_7, value_12)
                  value_15 = Squeeze-13 (e, value_14)
                  value_18 = Clip-13 (value_15, value_16, value_17)
                  u = Gather-13 [axis: 0] (value_13, value_18)
                }"#]],
        );
    }

    #[test]
    fn other_products_stay() {
        assert_optimized_in(
            Some(17),
            super::PASS,
            "graph(x: int32[n,4,1], w: int32[n,3]) -> (y, z, u, v) {
               classes = const int32[3] [0, 1, 2]
               others = const int32[3] [0, 2, 1]
               table = const float[3,2] [1, -2, 3, 0.5, -0.25, 7]
               a = Equal-13 (x, others)
               b = Cast-13 [to: 1] (a)
               y = MatMul-13 (b, table)
               c = Equal-13 (w, classes)
               d = Cast-13 [to: 1] (c)
               z = MatMul-13 (d, table)
               e = Equal-13 (x, classes)
               f = Cast-13 [to: 1] (e)
               u = MatMul-13 (f, table)
               v = ReduceSum-13 (f)
             }",
            &expect![[r#"
                graph(x: int32[n,4,1], w: int32[n,3]) -> (y, z, u, v) {
                  classes = const int32[3] [0, 1, 2]
                  others = const int32[3] [0, 2, 1]
                  table = const float[3,2] [1, -2, 3, 0.5, -0.25, 7]
                  a = Equal-13 (x, others)
                  b = Cast-13 [to: 1] (a)
                  y = MatMul-13 (b, table)
                  c = Equal-13 (w, classes)
                  d = Cast-13 [to: 1] (c)
                  z = MatMul-13 (d, table)
                  e = Equal-13 (x, classes)
                  f = Cast-13 [to: 1] (e)
                  u = MatMul-13 (f, table)
                  v = ReduceSum-13 (f)
                }
                1 refused: the classes are not 0, 1, 2, …
                1 refused: the classes do not have their own axis
                1 refused: a value within it is used elsewhere"#]],
        );
    }
}
