//! ConstantSharing: of small constants with the same contents, one stays.
//!
//! Other passes can then compare constants by id. Source: ONNX Runtime 1.31, ConstantSharing, for some types; ours
//! takes all but strings.

use std::collections::HashMap;

use ort_graph::{Patch, ValueId};
use ort_tensor::{DType, Shape, Tensor};

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "ConstantSharing",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::<ConstantSharing>::default(),
};

/// Constants of more elements are not compared.
const MAX_LEN: usize = 8;

/// The first constant seen of each type, shape and bytes.
#[derive(Default)]
struct ConstantSharing(HashMap<(DType, Shape, Vec<u8>), ValueId>);

impl Rewrite for ConstantSharing {
    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let mut patch = Patch::new(site.graph);
        let mut replaced: Vec<ValueId> = Vec::new();
        for value in site.node().reads() {
            let Some(contents) = site.graph.constant(value).and_then(contents) else { continue };
            let first = *self.0.entry(contents).or_insert(value);
            // A returned constant keeps its name.
            let stays = first == value || site.graph.is_output(value);
            if !stays && !replaced.contains(&value) {
                patch.replace(value, first);
                replaced.push(value);
            }
        }
        Ok((!replaced.is_empty()).then_some(patch))
    }

    fn end(&mut self) {
        self.0.clear();
    }
}

fn contents(constant: &Tensor) -> Option<(DType, Shape, Vec<u8>)> {
    if constant.len() > MAX_LEN {
        return None;
    }
    let bytes = constant.unaligned_view().as_bytes()?;
    Some((constant.dtype(), Shape::from_slice(constant.shape()), bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn equal_constants_are_merged() {
        assert_optimized(
            super::PASS,
            "graph(x: float[1], c: bool[], w = float[1] [2]) -> (y, l, z) {
               a = const float[1] [2]
               b = const float[1] [2]
               d = const float[] 2
               e = const float[1] [-0]
               f = const float[1] [0]
               i = const int32[1] [0]
               long = const float[9] fill 1
               same = const float[9] fill 1
               k = const float[] 2
               l = const float[1] [2]
               s = Sum-13 (x, a, b, d, e, f, w, b)
               t = Add-14 (long, same)
               m = Cast-13 [to: 1] (i)
               y = Sum-13 (s, t, k, m, l)
               z = If-16 [
                 then_branch: graph() -> (t) { n = const float[] 2 t = Mul-14 (x, n) },
                 else_branch: graph() -> (e) { e = Add-14 (k, x) }
               ] (c)
             }",
            &expect![[r#"
                graph(x: float[1], c: bool[], w = float[1] [2]) -> (y, l, z) {
                  a = const float[1] [2]
                  d = const float[] 2
                  e = const float[1] [-0]
                  f = const float[1] [0]
                  i = const int32[1] [0]
                  long = const float[9] fill 1
                  same = const float[9] fill 1
                  l = const float[1] [2]
                  s = Sum-13 (x, a, a, d, e, f, w, a)
                  t = Add-14 (long, same)
                  m = Cast-13 [to: 1] (i)
                  y = Sum-13 (s, t, d, m, l)
                  z = If-16 [else_branch: graph() -> (e) {
                    k = const float[] 2
                    e = Add-14 (k, x)
                  }, then_branch: graph() -> (t) {
                    n = const float[] 2
                    t = Mul-14 (x, n)
                  }] (c)
                }"#]],
        );
    }
}
