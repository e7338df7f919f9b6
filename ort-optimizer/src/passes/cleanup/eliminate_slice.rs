//! EliminateSlice: a slice of everything equals its operand.

use ort_graph::{Attr, Dim, Graph, Node};

use crate::matching::Match;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal};
use crate::pattern::{op, var};
use crate::rule::{Rules, rule};

pub(crate) const PASS: Pass = Pass {
    name: "EliminateSlice",
    level: Level::Basic,
    exactness: Exactness::Bitwise,
    start: || {
        let x = var("x");
        Rules::start([rule(op("Slice", [&x]).and_more(), &x).when(takes_everything)])
    },
};

/// With steps of 1, an axis is whole if the slice is as long as the axis, or goes from 0 to the
/// end.
fn takes_everything(found: &Match<'_>) -> Result<(), Refusal> {
    let node = found.root();
    let ranges = Ranges::of(found.graph, node).ok_or(Refusal("its ranges are not constant"))?;
    let output = node.outputs.first().copied().flatten();
    let (x, y) = (found.fact("x").dims(), output.and_then(|y| found.graph.fact(y).dims()));
    let (Some(x), Some(y)) = (x, y) else { return Err(Refusal("its rank is not known")) };
    let is_whole = |(axis, (before, after)): (usize, (&Dim, &Dim))| {
        before.equals(after) || ranges.leave(axis, x.len())
    };
    let has_unit_steps = ranges.steps.iter().all(|&step| step == 1);
    if has_unit_steps && x.iter().zip(y).enumerate().all(is_whole) {
        Ok(())
    } else {
        Err(Refusal("it may take less than everything"))
    }
}

/// The ranges: entries `i` of all lists belong to one axis; without steps all are 1.
pub(super) struct Ranges {
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
    pub(super) axes: Vec<i64>,
    pub(super) steps: Vec<i64>,
}

impl Ranges {
    /// Attributes before version 10, inputs from then on; `None` if an input is not constant.
    pub(super) fn of(graph: &Graph, node: &Node) -> Option<Self> {
        let read = |index: usize, name: &str| match (node.since_version, node.attrs.get(name)) {
            (..10, Some(Attr::Ints(ints))) => Some(Some(ints.clone())),
            (..10, _) => Some(None),
            _ => match node.inputs.get(index).copied().flatten() {
                None => Some(None),
                Some(input) => graph.fact(input).ints().map(Some),
            },
        };
        let starts = read(1, "starts")??;
        let counted = || (0..).take(starts.len()).collect();
        Some(Self {
            ends: read(2, "ends")??,
            axes: read(3, "axes")?.unwrap_or_else(counted),
            steps: read(4, "steps")?.unwrap_or_default(),
            starts,
        })
    }

    /// Whether all of this axis is taken, whatever its length: it has no range, or one from 0 to a bound beyond any
    /// length.
    fn leave(&self, axis: usize, rank: usize) -> bool {
        let is_axis = |&given: &i64| {
            let (axis, rank) = (i64::try_from(axis).ok(), i64::try_from(rank).ok());
            Some(given) == axis || given.checked_add(rank.unwrap_or(0)) == axis
        };
        match self.axes.iter().position(is_axis) {
            None => true,
            Some(at) => self.starts.get(at) == Some(&0) && self.ends.get(at) == Some(&i64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::assert_optimized;

    #[test]
    fn a_slice_goes_if_it_takes_everything() {
        assert_optimized(
            super::PASS,
            "graph(x: float[n,?,4], s: int64[1], u: float[...]) -> (y, z) {
               zeros = const int64[2] fill 0
               max = const int64[2] fill 9223372036854775807
               axes = const int64[2] [-2, 0]
               last = const int64[1] [-1]
               four = const int64[1] [4]
               zero = const int64[1] [0]
               one = const int64[1] [1]
               a = Slice-13 (x, zeros, max, axes)
               b = Slice-1 [starts: [-4], ends: [4], axes: [2]] (a)
               c = Slice-10 (b, zero, four, last, one)
               d = Slice-13 (c, zero, four, one)
               e = Slice-13 (d, four, zero, last, last)
               y = Slice-13 (e, s, four)
               z = Slice-13 (u, zeros, max)
             }",
            &expect![[r#"
                graph(x: float[n,?,4], s: int64[1], u: float[...]) -> (y, z) {
                  zeros = const int64[2] fill 0
                  max = const int64[2] fill 9223372036854775807
                  last = const int64[1] [-1]
                  four = const int64[1] [4]
                  zero = const int64[1] [0]
                  one = const int64[1] [1]
                  d = Slice-13 (x, zero, four, one)
                  e = Slice-13 (d, four, zero, last, last)
                  y = Slice-13 (e, s, four)
                  z = Slice-13 (u, zeros, max)
                }
                2 refused: it may take less than everything
                1 refused: its ranges are not constant
                1 refused: its rank is not known"#]],
        );
    }
}
