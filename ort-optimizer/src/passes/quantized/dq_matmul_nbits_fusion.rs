//! DQMatMulNBitsFusion: a product with dequantized weights reads the quantized ones.
//!
//! ```text
//! MatMul(a, DQ(q, s, z)) = MatMulNBits(a, q', s', z')
//! Gemm(a, DQ(q, s, z), c) = MatMulNBits(a, q', s', z') + c
//! ```
//! `q: [k, n]`, or `[n, k]` with a Transpose or `transB`. The weights are constants of 2, 4 or 8 bits with blocks along
//! `k`, or of 2 or 4 bits with one scale, or one per column. (Those of 8 bits without blocks are dequantized: the
//! product in floats is faster where there are many rows.) MatMulNBits computes with unsigned values: signed ones and
//! their zero points are moved up by half of the range.
//!
//! ONNX Runtime does this in QDQSelectorActionTransformer, at accuracy level 4: the quantized product of activations of
//! 8 bits. Here `Options::matmul_nbits_accuracy_level` is 0 by default, the product in floats.

use ort_graph::{NewNode, Patch};
use ort_ops::ops::gemm::Gemm;

use super::nbits::Weights;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "DQMatMulNBitsFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Box::new(DQMatMulNBitsFusion),
};

struct DQMatMulNBitsFusion;

impl Rewrite for DQMatMulNBitsFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["MatMul", "Gemm"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let (graph, node) = (site.graph, site.node());
        let (&[Some(a), Some(b), ..], &[Some(y)]) = (&*node.inputs, &*node.outputs) else {
            return Ok(None);
        };
        if !node.domain.is_empty() {
            return Ok(None);
        }
        let gemm = node.operator::<Gemm>();
        let is_b_transposed = gemm.is_some_and(|gemm| gemm.is_b_transposed);
        let Some(weights) = Weights::of(graph, b, is_b_transposed)? else { return Ok(None) };
        let bias = node.inputs.get(2).copied().flatten();
        let is_plain = |gemm: &Gemm| {
            !gemm.is_a_transposed && gemm.alpha == 1.0 && (bias.is_none() || gemm.beta == 1.0)
        };
        if !gemm.is_none_or(is_plain) {
            return Err(Refusal("it is not the plain product, or not the plain sum with its bias"));
        }
        if graph.fact(a).rank().is_none_or(|rank| rank < 2) {
            return Err(Refusal("its left operand is a vector, or of unknown rank"));
        }
        let mut patch = Patch::new(graph);
        let level = i64::from(site.options.matmul_nbits_accuracy_level);
        let mut new = weights.product(a, &node.name, level, &mut patch)?;
        if let Some(bias) = bias {
            new = patch.output_of(NewNode {
                name: node.name.clone(),
                op_type: "Add".to_owned(),
                since_version: 7,
                inputs: vec![Some(new), Some(bias)],
                ..NewNode::default()
            })?;
        }
        patch.replace(y, new);
        Ok(Some(patch))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use ort_testing::Rng;

    use super::PASS;
    use crate::options::Options;
    use crate::testing::{assert_equivalent, assert_optimized, assert_optimized_with, parse, run};

    #[test]
    fn products_read_quantized_weights() {
        assert_optimized(
            PASS,
            "graph(x: float[m,32], c: float[m,2], v: float[32]) -> (y, z, u, t) {
               q = const int4[32,2] fill 0x3
               s = const float[2,2] [0.5, 0.25, 0.125, 1]
               p = const uint4[32,2] fill 0x5
               ps = const float[2] [0.5, 2]
               a = DequantizeLinear-21 [axis: 0, block_size: 16] (q, s)
               y = MatMul-13 (x, a)
               b = DequantizeLinear-21 (p, ps)
               z = Gemm-13 (x, b, c)
               u = MatMul-13 (v, a)
               t = Gemm-13 [alpha: 0.5] (x, a)
             }",
            &expect![[r#"
                graph(x: float[m,32], c: float[m,2], v: float[32]) -> (y, z, u, t) {
                  q = const int4[32,2] fill 0x3
                  s = const float[2,2] [0.5, 0.25, 0.125, 1]
                  weight = const uint8[2,2,8] fill 187
                  scale = const float[2,2] [0.5, 0.125, 0.25, 1]
                  weight_2 = const uint8[2,1,16] fill 85
                  scale_2 = const float[2,1] [0.5, 2]
                  zero_point = const uint8[2] fill 0
                  a = DequantizeLinear-21 [axis: 0, block_size: 16] (q, s)
                  u = MatMul-13 (v, a)
                  t = Gemm-13 [alpha: 0.5] (x, a)
                  y = com.microsoft:MatMulNBits-1 [K: 32, N: 2, accuracy_level: 0, bits: 4, block_size: 16] (x, weight, scale)
                  value = com.microsoft:MatMulNBits-1 [K: 32, N: 2, accuracy_level: 0, bits: 4, block_size: 32] (x, weight_2, scale_2, zero_point)
                  z = Add-7 (value, c)
                }
                1 refused: its left operand is a vector, or of unknown rank
                1 refused: it is not the plain product, or not the plain sum with its bias"#]],
        );
    }

    #[test]
    fn the_accuracy_level_is_that_of_the_options() {
        let options = Options { matmul_nbits_accuracy_level: 4, ..Options::default() };
        assert_optimized_with(
            &options,
            PASS,
            "graph(x: float16[2,20]) -> (y) {
               q = const uint8[3,20] fill 0x82
               s = const float16[3,1] [0.5, 0.25, 1]
               z = const uint8[3,1] fill 0x81
               a = DequantizeLinear-21 [axis: -1, block_size: 20] (q, s, z)
               t = Transpose-13 (a)
               y = MatMul-13 (x, t)
             }",
            &expect![[r#"
                graph(x: float16[2,20]) -> (y) {
                  weight = const uint8[3,1,32] #d3c164fa3703e075
                  scale = const float16[3,1] [0.5, 0.25, 1]
                  zero_point = const uint8[3] fill 129
                  y = com.microsoft:MatMulNBits-1 [K: 20, N: 3, accuracy_level: 4, bits: 8, block_size: 32] (x, weight, scale, zero_point)
                }"#]],
        );
    }

    /// Every type, layout and kind of scales, with blocks that are split, and a last one that is not whole.
    #[test]
    fn each_layout_is_the_same_product() {
        let mut rng = Rng::new(1);
        for (dtype, bits) in
            [("int2", 2), ("uint2", 2), ("int4", 4), ("uint4", 4), ("int8", 8), ("uint8", 8)]
        {
            for (case, block) in [0, 16, 48, 512].into_iter().cycle().take(48).enumerate() {
                let (flags, float) = ([case & 4 != 0, case & 8 != 0], FLOATS[case / 16]);
                let text = network(&mut rng, (dtype, bits, float), block, flags);
                let (after, report) = run(&PASS, &text, None);
                let are_floats = block == 0 && bits == 8;
                assert_eq!(report.applied(), if are_floats { 0 } else { 2 }, "{text}");
                assert_equivalent(&parse(&text), &after, PASS.exactness);
            }
        }
    }

    const FLOATS: [&str; 3] = ["float", "float16", "bfloat16"];

    /// A MatMul, of a Transpose where the weights are transposed, and a Gemm; one scale per column if `block` is 0.
    fn network(
        rng: &mut Rng,
        (dtype, bits, float): (&str, u32, &str),
        block: usize,
        [is_transposed, has_zeros]: [bool; 2],
    ) -> String {
        const K: usize = 70;
        const N: usize = 3;
        let n_blocks = K.div_ceil(block.max(1));
        let shape = |k: usize| if is_transposed { format!("{N},{k}") } else { format!("{k},{N}") };
        let (scales, n_scales, axis) = match block {
            0 => (N.to_string(), N, u8::from(!is_transposed)),
            _ => (shape(n_blocks), N * n_blocks, u8::from(is_transposed)),
        };
        let mut quantized = |n: usize| -> String {
            (0..n).map(|_| format!("{:#x}, ", rng.below(1 << bits))).collect()
        };
        let (w, z) = (quantized(N * K), quantized(n_scales));
        let s: String = (0..n_scales).map(|_| format!("{}, ", rng.uniform().abs() + 0.1)).collect();
        let (w, z, s) =
            (w.trim_end_matches(", "), z.trim_end_matches(", "), s.trim_end_matches(", "));
        let (transposed, b) =
            if is_transposed { ("t = Transpose-13 [perm: [1, 0]] (d)", "t") } else { ("", "d") };
        format!(
            "graph(x: {float}[2,m,{K}], v: {float}[m,{K}], c: {float}[{N}]) -> (y, g) {{
               w = const {dtype}[{}] [{w}]
               z = const {dtype}[{scales}] [{z}]
               s = const {float}[{scales}] [{s}]
               d = DequantizeLinear-21 [axis: {axis}, block_size: {block}] (w, s{})
               {transposed}
               y = MatMul-13 (x, {b})
               g = Gemm-13 [transB: {}] (v, d, c)
             }}",
            shape(K),
            if has_zeros { ", z" } else { "" },
            u8::from(is_transposed),
        )
    }
}
