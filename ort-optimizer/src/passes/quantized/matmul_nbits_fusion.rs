//! MatMulNBitsFusion: `MatMulNBits(a, b, …) + c = MatMulNBits(a, b, …, c)`.

use ort_graph::Patch;

use super::biased::biased;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "MatMulNBitsFusion",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Box::new(MatMulNBitsFusion),
};

struct MatMulNBitsFusion;

impl Rewrite for MatMulNBitsFusion {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(vec!["Add"])
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        biased(site, "MatMulNBits", 5)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_bias_becomes_part_of_the_product() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,16], c: float[2], d: float[n,2]) -> (y, z, v, u) {
               w = const uint8[2,1,8] fill 137
               s = const float[2] [0.5, 0.25]
               a = com.microsoft:MatMulNBits-1 [K: 16, N: 2, block_size: 16] (x, w, s)
               y = Add-14 (c, a)
               b = com.microsoft:MatMulNBits-1 [K: 16, N: 2, block_size: 16] (x, w, s, _, _, c)
               z = Add-14 (b, c)
               e = com.microsoft:MatMulNBits-1 [K: 16, N: 2, block_size: 16] (x, w, s)
               v = Add-14 (e, d)
               f = com.microsoft:MatMulNBits-1 [K: 16, N: 2, block_size: 16] (x, w, s)
               g = Add-14 (f, c)
               u = Add-14 (f, g)
             }",
            &expect![[r#"
                graph(x: float[n,16], c: float[2], d: float[n,2]) -> (y, z, v, u) {
                  w = const uint8[2,1,8] fill 137
                  s = const float[2] [0.5, 0.25]
                  b = com.microsoft:MatMulNBits-1 [K: 16, N: 2, block_size: 16] (x, w, s, _, _, c)
                  z = Add-14 (b, c)
                  e = com.microsoft:MatMulNBits-1 [K: 16, N: 2, block_size: 16] (x, w, s)
                  v = Add-14 (e, d)
                  f = com.microsoft:MatMulNBits-1 [K: 16, N: 2, block_size: 16] (x, w, s)
                  g = Add-14 (f, c)
                  u = Add-14 (f, g)
                  y = com.microsoft:MatMulNBits-1 [K: 16, N: 2, block_size: 16] (x, w, s, _, _, c)
                }
                1 refused: the summand is not one number per column
                2 refused: the product is used elsewhere"#]],
        );
    }
}
