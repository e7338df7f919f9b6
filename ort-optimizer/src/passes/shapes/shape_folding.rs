//! ShapeFolding: integers that follow from the known dimensions of a partially known shape.
//!
//! ```text
//! Gather(Shape(x: [n, 3]), 1) = 3
//! Where(Equal(Concat(Gather(Shape(x), 0), 5), -1), ones, …)   dimensions are never −1
//! ```
//! Our own pass: ONNX Runtime's ConstantFolding does only the first, for Shape with `start` and `end`.

use ort_graph::{Patch, ValueId};
use ort_tensor::{Bool, DType, Tensor};

use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};
use crate::sizes::{self, Size, sizes};

pub(crate) const PASS: Pass = Pass {
    name: "ShapeFolding",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || Box::new(ShapeFolding),
};

struct ShapeFolding;

impl Rewrite for ShapeFolding {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(sizes::ROOTS.to_vec())
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let &[Some(output)] = site.node().outputs.as_slice() else { return Ok(None) };
        // Nodes with only constant inputs are left to ConstantFolding.
        if site.node().inputs.iter().flatten().all(|&input| site.graph.constant(input).is_some()) {
            return Ok(None);
        }
        let Some(tensor) = known(site, output) else { return Ok(None) };
        let mut patch = Patch::new(site.graph);
        let new = patch.constant("", tensor)?;
        patch.replace(output, new);
        Ok(Some(patch))
    }
}

/// The contents of a value, if all of its elements are known.
fn known(site: &Site<'_>, value: ValueId) -> Option<Tensor> {
    let fact = site.graph.fact(value);
    let dtype = fact.dtype().filter(|dtype| dtype.is_index() || *dtype == DType::Bool)?;
    let sizes = sizes(site.graph, value)?;
    let ints: Option<Vec<i64>> = sizes.iter().map(Size::known).collect();
    let ints = ints?;
    let shape: &[usize] = if fact.rank()? == 0 { &[] } else { &[ints.len()] };
    match dtype {
        DType::I64 => Tensor::from_slice(shape, &ints).ok(),
        DType::I32 => {
            let ints: Result<Vec<i32>, _> = ints.into_iter().map(i32::try_from).collect();
            Tensor::from_slice(shape, &ints.ok()?).ok()
        }
        _ => {
            let bools: Vec<Bool> = ints.into_iter().map(|int| Bool::from(int != 0)).collect();
            Tensor::from_slice(shape, &bools).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn known_dimensions_are_known_without_the_others() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,3,?,5], k: int64[1]) -> (a, b, c, d, e, f) {
               one = const int64[] 1
               last = const int64[1] [-1]
               zero = const int64[1] [0]
               two = const int64[1] [2]
               four = const int64[1] [4]
               ones = const int64[2] fill 1
               minus = const int64[2] fill -1
               s = Shape-15 (x)
               a = Gather-13 (s, one)
               g = Gather-13 (s, last)
               b = Mul-14 (g, two)
               t = Slice-13 (s, two, four)
               h = Slice-13 (t, last, four, zero)
               i = Unsqueeze-13 (a, zero)
               c = Concat-13 [axis: 0] (h, i, two)
               n = Gather-13 (s, zero)
               j = Concat-13 [axis: 0] (n, h)
               l = Equal-13 (j, minus)
               d = Where-16 (l, ones, j)
               m = Cast-13 [to: 6] (c)
               e = Div-14 (m, m)
               f = Add-14 (n, k)
             }",
            &expect![[r#"
                graph(x: float[n,3,?,5], k: int64[1]) -> (a, b, c, d, e, f) {
                  zero = const int64[1] [0]
                  two = const int64[1] [2]
                  ones = const int64[2] fill 1
                  a = const int64[] 3
                  g = const int64[1] [5]
                  h = const int64[1] [5]
                  c = const int64[3] [5, 3, 2]
                  l = const bool[2] fill false
                  e = const int32[3] fill 1
                  s = Shape-15 (x)
                  b = Mul-14 (g, two)
                  n = Gather-13 (s, zero)
                  j = Concat-13 [axis: 0] (n, h)
                  d = Where-16 (l, ones, j)
                  f = Add-14 (n, k)
                }"#]],
        );
    }
}
