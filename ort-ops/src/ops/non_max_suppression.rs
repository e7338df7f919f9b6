//! NonMaxSuppression: the best boxes of each class that do not overlap a better one too much.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Element, Inputs, Output, Room, Tensor, collected, go_on, sort};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "NonMaxSuppression",
    versions: (10, 11),
    types: |dtype| matches!(dtype, DType::F32),
    build: NonMaxSuppression::build,
}];

/// NonMaxSuppression: selects the boxes of a class in descending order of their scores (the first of equal ones
/// first), without those whose intersection over union with a selected one is greater than the threshold. `boxes`:
/// `[N, S, 4]`, `scores`: `[N, C, S]`, float; then, optional and of one element: the limit per class (int64, 0 by
/// default), the threshold of the overlap (float, 0), and the score above which a box counts (float; all by default).
/// Output: `[n, 3]`, int64: image, class and box. Boxes whose score is NaN come last.
///
/// Source: ONNX operator set, NonMaxSuppression-11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonMaxSuppression {
    /// Whether a box is centre and size, and not two opposite corners.
    pub is_centered: bool,
}

impl NonMaxSuppression {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { is_centered: spec.flag("center_point_box", false)? }))
    }

    /// The selected boxes of one class, from their scores.
    fn select(boxes: &[Rectangle], scores: &[f32], limits: &Limits) -> Result<Vec<usize>, OpError> {
        let above = |&i: &usize| limits.score.is_none_or(|least| scores[i] > least);
        let mut candidates = collected((0..boxes.len()).filter(above))?;
        let key = |i: usize| if scores[i].is_nan() { f32::NEG_INFINITY } else { scores[i] };
        sort(&mut candidates, &|&a, &b| key(b).total_cmp(&key(a)))?;
        let mut selected: Vec<usize> = Vec::new();
        for candidate in candidates {
            if selected.len() >= limits.n_boxes {
                break;
            }
            go_on()?;
            let overlaps =
                |&taken: &usize| boxes[candidate].overlap(&boxes[taken]) > limits.overlap;
            if !selected.iter().any(overlaps) {
                selected.push(candidate);
            }
        }
        Ok(selected)
    }
}

impl Operator for NonMaxSuppression {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        for (index, expected) in
            [DType::F32, DType::F32, DType::I64, DType::F32, DType::F32].into_iter().enumerate()
        {
            inputs.expect_dtype(index, expected)?;
        }
        for index in 0..2 {
            if let Some(found) = inputs.fact(index)?.rank().filter(|&rank| rank != 3) {
                return Err(OpError::InputRank { index, expected: "3", found });
            }
        }
        Ok(vec![Fact::tensor(DType::I64, [Dim::Unknown, Dim::Known(3)])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (boxes, scores) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let [_, n_classes, s] = self.dims(boxes.shape(), scores.shape())?;
        let limits = Limits::of(inputs)?;
        let (boxes, scores) = (boxes.as_slice::<f32>()?, scores.as_slice::<f32>()?);
        let corners = boxes.as_chunks().0.iter();
        let rectangles = collected(corners.map(|corners| self.rectangle(corners)))?;
        let mut triples = Room::new();
        if s > 0 {
            for (row, scores) in scores.chunks_exact(s).enumerate() {
                let (image, class) = (row / n_classes, row % n_classes);
                let boxes = &rectangles[image * s..(image + 1) * s];
                for index in Self::select(boxes, scores, &limits)? {
                    for part in [image, class, index] {
                        triples.push(i64::try_from(part).map_err(|_| OpError::TooLarge)?)?;
                    }
                }
            }
        }
        outputs[0].set(Tensor::from_slice(&[triples.len() / 3, 3], &triples)?.into())?;
        Ok(())
    }
}

/// The inputs after the scores.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most boxes of a class.
    pub n_boxes: usize,
    /// The greatest intersection over union with a better box.
    pub overlap: f32,
    /// The score above which a box counts; without one, every box does.
    pub score: Option<f32>,
}

impl Limits {
    /// The limits of a node with these inputs.
    ///
    /// # Errors
    ///
    /// If one has another type or not exactly one element.
    pub fn of(inputs: Inputs<'_>) -> Result<Self, OpError> {
        Ok(Self {
            n_boxes: usize::try_from(only::<i64>(inputs, 2)?.unwrap_or(0)).unwrap_or(0),
            overlap: only(inputs, 3)?.unwrap_or(0.0),
            score: only(inputs, 4)?,
        })
    }
}

/// The only element of an optional input.
fn only<T: Element>(inputs: Inputs<'_>, index: usize) -> Result<Option<T>, OpError> {
    match inputs.optional_tensor(index)?.map(|x| x.as_slice::<T>()).transpose()? {
        None => Ok(None),
        Some(&[value]) => Ok(Some(value)),
        Some(_) => Err(OpError::InputValue { index, what: "a single value is needed" }),
    }
}

/// A box as its least and greatest coordinates.
#[derive(Clone, Copy, Debug)]
pub struct Rectangle {
    /// The least x and y.
    pub least: [f32; 2],
    /// The greatest x and y.
    pub greatest: [f32; 2],
}

impl NonMaxSuppression {
    /// `[N, C, S]`: the images, classes and boxes of operands with these shapes.
    ///
    /// # Errors
    ///
    /// If they are not `[N, S, 4]` and `[N, C, S]`.
    pub fn dims(&self, boxes: &[usize], scores: &[usize]) -> Result<[usize; 3], OpError> {
        match (boxes, scores) {
            (&[n, s, 4], &[scores_n, c, scores_s]) if n == scores_n && s == scores_s => {
                Ok([n, c, s])
            }
            (left, right) => {
                let (left, right) = (left.to_vec(), right.to_vec());
                Err(OpError::Shapes { what: "boxes and scores", left, right })
            }
        }
    }

    /// The box of these four numbers.
    pub fn rectangle(&self, corners: &[f32; 4]) -> Rectangle {
        let (first, second) = ([corners[0], corners[1]], [corners[2], corners[3]]);
        let pair = |axis: usize| {
            if self.is_centered {
                let half = second[axis] / 2.0;
                (first[axis] - half, first[axis] + half)
            } else {
                (first[axis].min(second[axis]), first[axis].max(second[axis]))
            }
        };
        let (x, y) = (pair(0), pair(1));
        Rectangle { least: [x.0, y.0], greatest: [x.1, y.1] }
    }
}

impl Rectangle {
    fn area(&self) -> f32 {
        (self.greatest[0] - self.least[0]) * (self.greatest[1] - self.least[1])
    }

    /// Intersection over union; 0 if one of the boxes is empty.
    #[inline]
    pub fn overlap(&self, other: &Self) -> f32 {
        let side = |axis: usize| {
            let end = self.greatest[axis].min(other.greatest[axis]);
            end - self.least[axis].max(other.least[axis])
        };
        let (width, height) = (side(0), side(1));
        if width <= 0.0 || height <= 0.0 {
            return 0.0;
        }
        let (a, b) = (self.area(), other.area());
        let common = width * height;
        let union = a + b - common;
        if a <= 0.0 || b <= 0.0 || union <= 0.0 { 0.0 } else { common / union }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn inputs(boxes: &[f32], scores: &[f32], limits: (i64, f32, f32)) -> [Tensor; 5] {
        [
            tensor(&[1, boxes.len() / 4, 4], boxes),
            tensor(&[1, 1, scores.len()], scores),
            Tensor::scalar(limits.0),
            Tensor::scalar(limits.1),
            Tensor::scalar(limits.2),
        ]
    }

    fn selected(boxes: &[i64]) -> Result<Tensor, String> {
        let triples: Vec<i64> = boxes.iter().flat_map(|&i| [0, 0, i]).collect();
        Ok(tensor(&[boxes.len(), 3], &triples))
    }

    #[test]
    fn better_boxes_suppress_those_they_overlap() {
        // The second is half of the first, with the corners swapped; the third is disjoint.
        let boxes = [0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 0.0, 1.0, 5.0, 5.0, 6.0, 6.0];
        let scores = [0.5, 0.75, 0.9];
        let case = Case::new("NonMaxSuppression", 11);
        let cases: [((i64, f32, f32), &[i64]); 5] = [
            ((3, 0.4, 0.0), &[2, 1]),
            ((3, 0.5, 0.0), &[2, 1, 0]),
            ((1, 0.5, 0.0), &[2]),
            ((3, 0.5, 0.75), &[2]),
            ((-1, 0.5, 0.0), &[]),
        ];
        for (limits, expected) in cases {
            let y = case.tensor(&inputs(&boxes, &scores, limits));
            assert_eq!(y, selected(expected), "{limits:?}");
        }
        let centered = Case::new("NonMaxSuppression", 10).attr("center_point_box", Attr::Int(1));
        let boxes = [1.0, 1.0, 2.0, 2.0, 1.0, 1.5, 2.0, 1.0];
        let y = centered.tensor(&inputs(&boxes, &[0.5, 0.5], (2, 0.4, 0.0)));
        assert_eq!(y, selected(&[0]));
    }

    #[test]
    fn without_limits_nothing_is_taken_and_shapes_must_fit() {
        let case = Case::new("NonMaxSuppression", 11);
        let [boxes, scores, ..] = inputs(&[0.0; 8], &[1.0; 2], (0, 0.0, 0.0));
        assert_eq!(case.tensor(&[boxes.clone(), scores]), selected(&[]));
        assert!(case.tensor(&[boxes, tensor(&[1, 1, 1], &[1_f32])]).is_err());
    }
}
