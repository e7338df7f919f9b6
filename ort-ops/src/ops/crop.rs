//! Crop: a part of each image.

// collects are bounded: as long as the file's lists

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, row_major_strides};

use crate::infer::ranked_fact;
use crate::strided::{self, Strided};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Crop",
    versions: (1, 1),
    types: DType::is_float,
    build: Crop::build,
}];

/// Crop: `y[n, c, h, w] = x[n, c, top + h, left + w]`, of the given size, or up to the borders at right and bottom;
/// overlapping borders leave nothing. Any float type.
///
/// Source: ONNX operator set, Crop-1, an experimental operator, removed in version 10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crop {
    /// What is left out at the left, top, right and bottom.
    pub border: [usize; 4],
    /// Height and width of the result; with them the right and the bottom border are ignored.
    pub size: Option<[usize; 2]>,
}

impl Crop {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let name = "border";
        let border = spec.ints(name)?.ok_or(OpError::MissingAttribute { name })?;
        let size = spec.ints("scale")?.map(|scale| read("scale", scale));
        Ok(Arc::new(Self { border: read(name, border)?, size: size.transpose()? }))
    }

    /// Height and width of what is left.
    fn cropped(&self, h: usize, w: usize) -> Result<[usize; 2], OpError> {
        let [left, top, right, bottom] = self.border;
        let Some([height, width]) = self.size else {
            return Ok([
                h.saturating_sub(top).saturating_sub(bottom),
                w.saturating_sub(left).saturating_sub(right),
            ]);
        };
        let fits = |border: usize, size, n| border.checked_add(size).is_some_and(|end| end <= n);
        if !fits(top, height, h) || !fits(left, width, w) {
            let (left, right) = (vec![top, height, left, width], vec![h, w]);
            return Err(OpError::Shapes { what: "borders and size, and image", left, right });
        }
        Ok([height, width])
    }
}

/// As many integers, none below zero.
fn read<const N: usize>(name: &'static str, values: &[i64]) -> Result<[usize; N], OpError> {
    let wrong = || OpError::AttributeValue { name, found: format!("{values:?}") };
    let sizes: Option<Vec<usize>> = values.iter().map(|&n| usize::try_from(n).ok()).collect();
    sizes.and_then(|sizes| sizes.try_into().ok()).ok_or_else(wrong)
}

const fn wrong_rank(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "4", found }
}

impl Operator for Crop {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        Ok(vec![match inputs.fact(0)?.dims() {
            None => ranked_fact(dtype, Some(4)),
            Some([n, c, h, w]) => {
                let cropped = match (h.known(), w.known(), self.size) {
                    (Some(h), Some(w), _) => self.cropped(h, w)?.map(Dim::Known),
                    (_, _, Some(size)) => size.map(Dim::Known),
                    _ => [Dim::Unknown, Dim::Unknown],
                };
                Fact::tensor(dtype, [n.clone(), c.clone()].into_iter().chain(cropped))
            }
            Some(dims) => return Err(wrong_rank(dims.len())),
        }])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let &[n, c, h, w] = x.shape() else { return Err(wrong_rank(x.shape().len())) };
        let [left, top, ..] = self.border;
        let [height, width] = self.cropped(h, w)?;
        let shape = [n, c, height, width];
        // Beyond the image only where nothing is left.
        let from =
            Strided::new(top.saturating_mul(w).saturating_add(left), &row_major_strides(x.shape()));
        let y = outputs[0].tensor(x.dtype(), &shape)?;
        Ok(strided::copy(&shape, x, &from, y, &Strided::row_major(&shape))?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn crop(border: &[i64], scale: Option<&[i64]>) -> Option<Tensor> {
        let case = Case::new("Crop", 1).attr("border", Attr::Ints(border.to_vec()));
        let case = match scale {
            Some(scale) => case.attr("scale", Attr::Ints(scale.to_vec())),
            None => case,
        };
        let image: Vec<f32> = (0_u8..12).map(f32::from).collect();
        case.tensor(&[tensor(&[1, 1, 3, 4], &image)]).ok()
    }

    #[test]
    fn what_is_between_the_borders_is_left() {
        let image = |h, w, data: &[f32]| Some(tensor(&[1, 1, h, w], data));
        assert_eq!(crop(&[1, 1, 1, 1], None), image(1, 2, &[5., 6.]));
        assert_eq!(crop(&[0, 1, 2, 0], None), image(2, 2, &[4., 5., 8., 9.]));
        assert_eq!(crop(&[2, 0, 2, 0], None), image(3, 0, &[]));
        assert_eq!(crop(&[9, 0, 0, i64::MAX], None), image(0, 0, &[]));
        assert_eq!(crop(&[1, 1, 9, 9], Some(&[2, 3])), image(2, 3, &[5., 6., 7., 9., 10., 11.]));
        assert_eq!(crop(&[1, 1, 0, 0], Some(&[0, 0])), image(0, 0, &[]));
    }

    #[test]
    fn mismatched_operands_are_rejected() {
        for (border, scale) in [
            (&[1, 1, 0, 0][..], Some(&[3, 2][..])),
            (&[1, 1, 0, 0], Some(&[i64::MAX, 2])),
            (&[1, 1, 0, 0], Some(&[2])),
            (&[1, 1, 1], None),
            (&[-1, 0, 0, 0], None),
        ] {
            assert_eq!(crop(border, scale), None, "{border:?}");
        }
        let case = || Case::new("Crop", 1);
        assert!(case().tensor(&[tensor(&[1, 1, 1, 1], &[1_f32])]).is_err());
        let border = Attr::Ints(vec![0; 4]);
        assert!(case().attr("border", border).tensor(&[tensor(&[1, 1], &[1_f32])]).is_err());
    }
}
