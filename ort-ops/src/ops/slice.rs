//! Slice: a range with a step of each of some axes.

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, row_major_strides};

use crate::infer::{folded, int_values, normalize_axis, ranked_fact};
use crate::strided::{Strided, StridedView};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "DynamicSlice",
        versions: (1, 1),
        types: DType::is_any,
        build: |_| Ok(Arc::new(Slice { ranges: None })),
    },
    OpDef {
        domain: "",
        name: "Slice",
        versions: (1, 13),
        types: DType::is_any,
        build: Slice::build,
    },
];

/// Slice: `y[…, i, …] = x[…, start + i·step, …]` for each given axis. Starts and ends count from
/// the back where they are negative, and are clamped to the axis; a negative step goes backwards. They are inputs 1
/// to 4 (starts, ends, axes, steps), attributes before version 10, but not of DynamicSlice.
///
/// Source: ONNX operator set, Slice-13, DynamicSlice-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The ranges, if they are attributes.
    pub ranges: Option<Ranges>,
}

/// Which part of which axes is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// The first entry of each axis.
    pub starts: Vec<i64>,
    /// The entry after the last.
    pub ends: Vec<i64>,
    /// The axes; the first ones if absent.
    pub axes: Option<Vec<i64>>,
    /// The steps; ones if absent.
    pub steps: Option<Vec<i64>>,
}

/// The range of one axis, as stated.
#[derive(Clone, Copy)]
struct Range {
    axis: usize,
    start: i64,
    end: i64,
    step: i64,
}

impl Slice {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        if spec.since_version >= 10 {
            return Ok(Arc::new(Self { ranges: None }));
        }
        let ints = |name| spec.ints(name)?.ok_or(OpError::MissingAttribute { name });
        let (starts, ends) = (ints("starts")?.to_vec(), ints("ends")?.to_vec());
        let axes = spec.ints("axes")?.map(<[i64]>::to_vec);
        Ok(Arc::new(Self { ranges: Some(Ranges { starts, ends, axes, steps: None }) }))
    }

    /// The result for an `x` of a shape, and the values of inputs 1 to 4.
    ///
    /// # Errors
    /// If these are not ranges of it.
    pub fn view(&self, x: &[usize], inputs: Inputs<'_>) -> Result<StridedView, OpError> {
        let ranges = match &self.ranges {
            Some(ranges) => ranges.of_rank(x.len())?,
            None => Ranges {
                starts: int_values(inputs.tensor(1)?)?,
                ends: int_values(inputs.tensor(2)?)?,
                axes: inputs.optional_tensor(3)?.map(int_values).transpose()?,
                steps: inputs.optional_tensor(4)?.map(int_values).transpose()?,
            }
            .of_rank(x.len())?,
        };
        let mut shape = Shape::from_slice(x);
        let mut from = Strided::new(0, &row_major_strides(x));
        for range in ranges {
            let (start, n) = range.clamped(x[range.axis])?;
            let stride = &mut from.strides[range.axis];
            from.offset = from.offset.wrapping_add_signed(stride.wrapping_mul(start.cast_signed()));
            // A step beyond the axis is never taken twice.
            *stride = stride.wrapping_mul(isize::try_from(range.step).unwrap_or(1));
            shape[range.axis] = n;
        }
        Ok(StridedView { axes: shape.clone(), shape, from })
    }
}

impl Ranges {
    /// The range of each axis that has one.
    fn of_rank(&self, rank: usize) -> Result<Vec<Range>, OpError> {
        let n = self.starts.len();
        let lengths = [Some(&self.ends), self.axes.as_ref(), self.steps.as_ref()];
        if lengths.into_iter().flatten().any(|other| other.len() != n) {
            let what = "starts, ends, axes and steps have different lengths";
            return Err(OpError::InputValue { index: 1, what });
        }
        // bounded: as many as the node has
        let mut ranges: Vec<Range> = Vec::with_capacity(n);
        for (i, (&start, &end)) in self.starts.iter().zip(&self.ends).enumerate() {
            let axis = match &self.axes {
                Some(axes) => axes[i],
                None => i64::try_from(i).map_err(|_| OpError::TooLarge)?,
            };
            let axis = normalize_axis(axis, rank)?;
            let step = self.steps.as_ref().map_or(1, |steps| steps[i]);
            if step == 0 {
                return Err(OpError::InputValue { index: 4, what: "a step is zero" });
            }
            if ranges.iter().any(|other| other.axis == axis) {
                return Err(OpError::InputValue { index: 3, what: "an axis is repeated" });
            }
            ranges.push(Range { axis, start, end, step });
        }
        Ok(ranges)
    }
}

impl Range {
    /// The first entry and the number of entries, for an axis of `n`.
    fn clamped(self, n: usize) -> Result<(usize, usize), OpError> {
        let n = i64::try_from(n).map_err(|_| OpError::TooLarge)?;
        let from_front = |i: i64| if i < 0 { i.saturating_add(n) } else { i };
        let (start, end) = (from_front(self.start), from_front(self.end));
        let (start, distance) = if self.step > 0 {
            let start = start.clamp(0, n);
            (start, end.clamp(0, n) - start)
        } else {
            // Nothing is before the front: an empty axis has the range −1..−1.
            let start = start.clamp((n - 1).min(0), n - 1);
            (start, start - end.clamp(-1, n - 1))
        };
        let step = self.step.unsigned_abs();
        let count = u64::try_from(distance).map_or(0, |distance| distance.div_ceil(step));
        Ok((
            usize::try_from(start).unwrap_or(0),
            usize::try_from(count).map_err(|_| OpError::TooLarge)?,
        ))
    }

    /// The sliced dimension of `dim`.
    fn dim(self, dim: &Dim) -> Result<Dim, OpError> {
        match dim {
            Dim::Known(n) => self.clamped(*n).map(|(_, n)| Dim::Known(n)),
            // All of it, whatever its length: exporters write the largest int32 or int64.
            _ if (self.start, self.step) == (0, 1) && self.end >= i64::from(i32::MAX) => {
                Ok(dim.clone())
            }
            _ if (self.start, self.step) == (0, 1) && self.end == 0 => Ok(Dim::Known(0)),
            _ => Ok(Dim::Unknown),
        }
    }
}

impl Operator for Slice {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        let Some(x) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        let ranges = match &self.ranges {
            Some(ranges) => Some(ranges.clone()),
            None => ranges_of_facts(inputs)?,
        };
        let mut dims: Dims = x.into();
        if let Some(ranges) = ranges {
            for range in ranges.of_rank(x.len())? {
                dims[range.axis] = range.dim(&x[range.axis])?;
            }
            return Ok(folded(self, inputs, vec![Fact::tensor(dtype, dims)]));
        }
        let Some(axes) = inputs.get(3).and_then(Fact::ints) else {
            return Ok(vec![ranked_fact(dtype, Some(x.len()))]);
        };
        for axis in axes {
            dims[normalize_axis(axis, x.len())?] = Dim::Unknown;
        }
        Ok(vec![Fact::tensor(dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        Ok(self.view(x.shape(), inputs)?.write(x, &mut outputs[0])?)
    }
}

/// The ranges in inputs 1 to 4, if all are constant.
fn ranges_of_facts(inputs: &Facts<'_>) -> Result<Option<Ranges>, OpError> {
    inputs.fact(2)?;
    let dtype = inputs.dtype(1, DType::is_index)?;
    (2..5).try_for_each(|i| inputs.expect_dtype(i, dtype))?;
    // For each input: absent, unknown, or known.
    let ints = |i| inputs.get(i).map_or(Some(None), |fact| fact.ints().map(Some));
    Ok(match (ints(1), ints(2), ints(3), ints(4)) {
        (Some(Some(starts)), Some(Some(ends)), Some(axes), Some(steps)) => {
            Some(Ranges { starts, ends, axes, steps })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;
    use proptest::prelude::*;

    use super::*;
    use crate::case::{Case, tensor};

    fn slice(n: usize, start: i64, end: i64, step: i64) -> Result<Tensor, String> {
        let data: Vec<i64> = (0..).take(n).collect();
        let vector = |i: i64| tensor(&[1], &[i]);
        Case::new("Slice", 13).tensor(&[
            tensor(&[n], &data),
            vector(start),
            vector(end),
            vector(-1),
            vector(step),
        ])
    }

    #[test]
    fn ends_are_clamped_and_steps_may_go_back() {
        let cases: [(usize, i64, i64, i64, &[i64]); 14] = [
            (5, 1, 3, 1, &[1, 2]),
            (5, -2, i64::MAX, 1, &[3, 4]),
            (5, 0, 5, 2, &[0, 2, 4]),
            (5, 3, 1, 1, &[]),
            (5, 9, 12, 1, &[]),
            (5, -9, 2, 1, &[0, 1]),
            (5, -1, i64::MIN, -1, &[4, 3, 2, 1, 0]),
            (5, 20, 0, -2, &[4, 2]),
            (5, 4, -6, -3, &[4, 1]),
            (5, 0, 5, i64::MAX, &[0]),
            (5, 4, i64::MIN, i64::MIN, &[4]),
            (5, -10, i64::MIN, -1, &[0]),
            (0, 0, 1, 1, &[]),
            (0, -1, i64::MIN, -1, &[]),
        ];
        for (n, start, end, step, expected) in cases {
            let y = slice(n, start, end, step);
            assert_eq!(y, Ok(tensor(&[expected.len()], expected)), "{start}..{end} by {step}");
        }
        assert!(slice(5, 0, 1, 0).is_err());
    }

    #[test]
    fn ranges_were_attributes_once_and_default_to_the_first_axes() {
        let x = tensor(&[2, 3], &[1_u8, 2, 3, 4, 5, 6]);
        let case = Case::new("Slice", 1)
            .attr("starts", Attr::Ints(vec![1, 0]))
            .attr("ends", Attr::Ints(vec![2, -1]));
        assert_eq!(case.tensor(std::slice::from_ref(&x)), Ok(tensor(&[1, 2], &[4_u8, 5])));
        let vector = |ints: &[i64]| tensor(&[2], ints);
        let inputs = [x.clone(), vector(&[1, 0]), vector(&[2, -1])];
        let dynamic = Case::new("DynamicSlice", 1).tensor(&inputs);
        assert_eq!(dynamic, Ok(tensor(&[1, 2], &[4_u8, 5])));
        let twice = case.attr("axes", Attr::Ints(vec![0, -2]));
        assert!(twice.tensor(&[x]).is_err());
    }

    #[test]
    fn a_whole_axis_keeps_its_symbol() {
        let n = Dim::Symbol("n".into());
        let x = Fact::tensor(DType::F32, [n.clone(), n.clone(), Dim::Known(4)]);
        let ints = |data: &[i64]| Fact::constant(tensor(&[data.len()], data));
        let (starts, ends) = (ints(&[0, 1]), ints(&[i64::MAX, 3]));
        let op = Slice { ranges: None };
        let facts = op.infer(&Facts::new(&[Some(&x), Some(&starts), Some(&ends)])).unwrap();
        assert_eq!(facts, [Fact::tensor(DType::F32, [n, Dim::Unknown, Dim::Known(4)])]);
    }

    proptest! {
        #[test]
        fn every_range_is_that_of_a_walk(
            n in 0_usize..6, start in -8_i64..8, end in -8_i64..8,
            step in (-4_i64..4).prop_filter("steps", |step| *step != 0)
        ) {
            let len = i64::try_from(n).unwrap();
            let front = |i: i64| if i < 0 { i + len } else { i };
            let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
            let end = front(end).clamp(low, high);
            let mut i = front(start).clamp(low.max(0), high.max(0));
            let mut expected = vec![];
            while n > 0 && (if step > 0 { i < end } else { i > end }) {
                expected.push(i);
                i += step;
            }
            let y = slice(n, start, if end < 0 { i64::MIN } else { end }, step);
            prop_assert_eq!(y, Ok(tensor(&[expected.len()], &expected)));
        }
    }
}
