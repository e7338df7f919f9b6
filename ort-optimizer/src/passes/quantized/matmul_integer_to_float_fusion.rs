//! MatMulIntegerToFloatFusion: `Cast(MatMulInteger(a, b)) · (s · t) + c = MatMulIntegerToFloat(…)`.

use std::rc::Rc;

use ort_graph::{Attrs, Dim, Fact, NewNode, Node, Patch, ValueId};
use ort_tensor::DType;

use super::biased::biased;
use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};
use crate::pattern::{OpPat, Pat, op, var};

pub(crate) const PASS: Pass = Pass {
    name: "MatMulIntegerToFloatFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || {
        let sums = op("MatMulInteger", [var("a"), var("b")]).and_more();
        let Pat::Op(find) = op("Cast", [sums]) * (&var("s") * &var("t")) else {
            unreachable!("invariant: a product is a node")
        };
        Box::new(MatMulIntegerToFloatFusion(find))
    },
};

/// The pass, with its pattern.
struct MatMulIntegerToFloatFusion(Rc<OpPat>);

impl Rewrite for MatMulIntegerToFloatFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Mul", "Add"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        if site.node().op_type == "Add" {
            return biased(site, "MatMulIntegerToFloat", 6);
        }
        match Match::at(site.graph, site.id, &self.0) {
            Some(found) => scaled(&found).map(Some),
            None => Ok(None),
        }
    }
}

/// The product with its two scales.
fn scaled(found: &Match<'_>) -> Result<Patch, Refusal> {
    let product = found.node("MatMulInteger");
    let zero = |index: usize| product.inputs.get(index).copied().flatten();
    let root = found.root_fact();
    if !found.is_private() {
        return Err(Refusal("a value within it is used elsewhere"));
    }
    if root.and_then(Fact::dtype) != Some(DType::F32) {
        return Err(Refusal("its result is not f32"));
    }
    let (Some(1..), Some([_, .., columns])) = (root.and_then(Fact::rank), found.fact("b").dims())
    else {
        return Err(Refusal("its operands have an unknown rank, or are vectors"));
    };
    let is_one = |value: ValueId| is_row(found.graph.fact(value), &Dim::Known(1));
    let is_scale = |value: ValueId| is_one(value) || is_row(found.graph.fact(value), columns);
    // Where both are scalars, the scale of the left operand is that of its DynamicQuantizeLinear.
    let (s, t) = (found.value("s"), found.value("t"));
    let source = |value: ValueId| found.graph.producer(value).map(|(node, _)| node);
    let is_t_first = source(t).is_some() && source(t) == source(found.value("a"));
    let scales = [[s, t], [t, s], [s, t]].into_iter().skip(usize::from(is_t_first));
    let scales = scales.into_iter().find(|&[a, b]| is_one(a) && is_scale(b));
    let scales = scales.ok_or(Refusal("its scales are not one, and one per column"))?;
    if !zero(2).is_none_or(is_one) {
        return Err(Refusal("its left operand has several zero points"));
    }
    let mut inputs = vec![product.inputs[0], product.inputs[1]];
    inputs.extend(scales.map(Some));
    inputs.extend([zero(2), zero(3)]);
    while inputs.pop_if(|input| input.is_none()).is_some() {}
    replaced(found, product, inputs)
}

/// Whether there is one element, or one for each of `n`.
fn is_row(fact: &Fact, n: &Dim) -> bool {
    match fact.dims() {
        Some([]) => true,
        Some([dim]) => dim.equals(n),
        _ => false,
    }
}

fn replaced(
    found: &Match<'_>,
    product: &Node,
    inputs: Vec<Option<ValueId>>,
) -> Result<Patch, Refusal> {
    let mut patch = Patch::new(found.graph);
    let new = patch.output_of(NewNode {
        name: product.name.clone(),
        domain: "com.microsoft".to_owned(),
        op_type: "MatMulIntegerToFloat".to_owned(),
        since_version: 1,
        inputs,
        outputs: Vec::new(),
        captured: Vec::new(),
        attrs: Attrs::new(),
    })?;
    found.root().outputs.iter().flatten().for_each(|&old| patch.replace(old, new));
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn scales_and_bias_become_part_of_the_product() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,2,3], c: float[4]) -> (y, z, v) {
               w = const int8[3,4] [1, -2, 3, 4, 5, 6, -7, 8, 9, 10, 11, 12]
               t = const float[1] [0.5]
               ts = const float[4] [0.5, 0.25, 1, 2]
               zero = const int8[4] [1, 2, 3, 4]
               xq, s, xz = DynamicQuantizeLinear-11 (x)
               a1 = MatMulInteger-10 (xq, w, xz, zero)
               a2 = Cast-13 [to: 1] (a1)
               a3 = Mul-14 (s, ts)
               a4 = Mul-14 (a2, a3)
               y = Add-14 (c, a4)
               b1 = MatMulInteger-10 (xq, w)
               b2 = Cast-13 [to: 1] (b1)
               b3 = Mul-14 (ts, s)
               z = Mul-14 (b3, b2)
               c1 = MatMulInteger-10 (xq, w, _, zero)
               c2 = Cast-13 [to: 1] (c1)
               c3 = Mul-14 (t, s)
               v = Mul-14 (c2, c3)
             }",
            &expect![[r#"
                graph(x: float[n,2,3], c: float[4]) -> (y, z, v) {
                  w = const int8[3,4] [1, -2, 3, 4, 5, 6, -7, 8, 9, 10, 11, 12]
                  t = const float[1] [0.5]
                  ts = const float[4] [0.5, 0.25, 1, 2]
                  zero = const int8[4] [1, 2, 3, 4]
                  xq, s, xz = DynamicQuantizeLinear-11 (x)
                  y = com.microsoft:MatMulIntegerToFloat-1 (xq, w, s, ts, xz, zero, c)
                  z = com.microsoft:MatMulIntegerToFloat-1 (xq, w, s, ts)
                  v = com.microsoft:MatMulIntegerToFloat-1 (xq, w, s, t, _, zero)
                }"#]],
        );
    }

    #[test]
    fn other_products_and_sums_stay() {
        assert_optimized(
            super::PASS,
            "graph(x: uint8[2,4], s: float[2,1], t: float[], z: uint8[2], c: float[1]) -> (a, b, d, e, f, g) {
               w = const uint8[4,4] fill 3
               a1 = MatMulInteger-10 (x, w)
               a2 = Cast-13 [to: 1] (a1)
               a3 = Mul-14 (s, t)
               a = Mul-14 (a2, a3)
               b1 = MatMulInteger-10 (x, w)
               b2 = Cast-13 [to: 11] (b1)
               b3 = Cast-13 [to: 11] (t)
               b4 = Mul-14 (b3, b3)
               b = Mul-14 (b2, b4)
               d1 = MatMulInteger-10 (x, w, z)
               d2 = Cast-13 [to: 1] (d1)
               d3 = Mul-14 (t, t)
               d = Mul-14 (d2, d3)
               e1 = MatMulInteger-10 (x, w)
               e2 = Cast-13 [to: 1] (e1)
               e = Mul-14 (t, t)
               f = Mul-14 (e2, e)
               g1 = com.microsoft:MatMulIntegerToFloat-1 (x, w, t, t)
               g = Add-14 (g1, c)
             }",
            &expect![[r#"
                graph(x: uint8[2,4], s: float[2,1], t: float[], z: uint8[2], c: float[1]) -> (a, b, d, e, f, g) {
                  w = const uint8[4,4] fill 3
                  a1 = MatMulInteger-10 (x, w)
                  a2 = Cast-13 [to: 1] (a1)
                  a3 = Mul-14 (s, t)
                  a = Mul-14 (a2, a3)
                  b1 = MatMulInteger-10 (x, w)
                  b2 = Cast-13 [to: 11] (b1)
                  b3 = Cast-13 [to: 11] (t)
                  b4 = Mul-14 (b3, b3)
                  b = Mul-14 (b2, b4)
                  d1 = MatMulInteger-10 (x, w, z)
                  d2 = Cast-13 [to: 1] (d1)
                  d3 = Mul-14 (t, t)
                  d = Mul-14 (d2, d3)
                  e1 = MatMulInteger-10 (x, w)
                  e2 = Cast-13 [to: 1] (e1)
                  e = Mul-14 (t, t)
                  f = Mul-14 (e2, e)
                  g1 = com.microsoft:MatMulIntegerToFloat-1 (x, w, t, t)
                  g = Add-14 (g1, c)
                }
                1 refused: its scales are not one, and one per column
                1 refused: its result is not f32
                1 refused: its left operand has several zero points
                1 refused: a value within it is used elsewhere
                1 refused: the summand is not one number per column"#]],
        );
    }
}
