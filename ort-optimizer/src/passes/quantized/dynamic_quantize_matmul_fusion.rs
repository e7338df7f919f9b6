//! DynamicQuantizeMatMulFusion: fuses the dynamic quantization of a left operand into its only product.
//!
//! ```text
//! q, s, z = DynamicQuantizeLinear(a)
//! MatMulIntegerToFloat(q, b, s, t, z, …) = DynamicQuantizeMatMul(a, b, t, …)
//! ```

use ort_graph::{Attrs, NewNode, Patch};

use super::biased::biased;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "DynamicQuantizeMatMulFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Box::new(DynamicQuantizeMatMulFusion),
};

struct DynamicQuantizeMatMulFusion;

impl Rewrite for DynamicQuantizeMatMulFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["MatMulIntegerToFloat", "Add"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        if node.op_type == "Add" {
            return biased(site, "DynamicQuantizeMatMul", 4);
        }
        let input = |index: usize| node.inputs.get(index).copied().flatten();
        let producers = [0, 2, 4].map(|index| graph.producer(input(index)?));
        let [Some((id, 0)), Some((scale_id, 1)), Some((zero_id, 2))] = producers else {
            return Ok(None);
        };
        let quantize = graph.node(id);
        if [scale_id, zero_id] != [id, id] || quantize.op_type != "DynamicQuantizeLinear" {
            return Ok(None);
        }
        let is_own = |value: &ort_graph::ValueId| {
            graph.consumers(*value) == [site.id] && !graph.is_output(*value)
        };
        if !quantize.outputs.iter().flatten().all(is_own) {
            return Err(Refusal("the quantized operand is used elsewhere"));
        }
        let mut inputs = vec![quantize.inputs[0], input(1), input(3), input(5), input(6)];
        while inputs.pop_if(|input| input.is_none()).is_some() {}
        let mut patch = Patch::new(graph);
        let new = patch.output_of(NewNode {
            name: node.name.clone(),
            domain: node.domain.clone(),
            op_type: "DynamicQuantizeMatMul".to_owned(),
            since_version: 1,
            inputs,
            outputs: Vec::new(),
            captured: Vec::new(),
            attrs: Attrs::new(),
        })?;
        node.outputs.iter().flatten().for_each(|&old| patch.replace(old, new));
        Ok(Some(patch))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn an_operand_quantized_for_one_product_is_quantized_by_it() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,3], c: float[4]) -> (y, z, v, u) {
               w = const int8[3,4] [1, -2, 3, 4, 5, 6, -7, 8, 9, 10, 11, 12]
               t = const float[4] [0.5, 0.25, 1, 2]
               zero = const int8[] 1
               aq, as, az = DynamicQuantizeLinear-11 (x)
               y = com.microsoft:MatMulIntegerToFloat-1 (aq, w, as, t, az, zero, c)
               b = Neg-13 (x)
               bq, bs, bz = DynamicQuantizeLinear-11 (b)
               b1 = com.microsoft:MatMulIntegerToFloat-1 (bq, w, bs, t, bz)
               z = Add-14 (b1, c)
               d = Abs-13 (x)
               dq, ds, dz = DynamicQuantizeLinear-11 (d)
               v = com.microsoft:MatMulIntegerToFloat-1 (dq, w, ds, t, dz)
               u = com.microsoft:MatMulIntegerToFloat-1 (dq, w, ds, t)
             }",
            &expect![[r#"
                graph(x: float[n,3], c: float[4]) -> (y, z, v, u) {
                  w = const int8[3,4] [1, -2, 3, 4, 5, 6, -7, 8, 9, 10, 11, 12]
                  t = const float[4] [0.5, 0.25, 1, 2]
                  zero = const int8[] 1
                  b = Neg-13 (x)
                  d = Abs-13 (x)
                  dq, ds, dz = DynamicQuantizeLinear-11 (d)
                  v = com.microsoft:MatMulIntegerToFloat-1 (dq, w, ds, t, dz)
                  u = com.microsoft:MatMulIntegerToFloat-1 (dq, w, ds, t)
                  y = com.microsoft:DynamicQuantizeMatMul-1 (x, w, t, zero, c)
                  z = com.microsoft:DynamicQuantizeMatMul-1 (b, w, t, _, c)
                }
                1 refused: the quantized operand is used elsewhere"#]],
        );
    }
}
