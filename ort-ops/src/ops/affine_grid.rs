//! AffineGrid: the source of each pixel of an image: `grid[n, p] = theta[n] · (x(p), y(p), …, 1)`.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, Shape, TensorView, with_dtype};

use crate::infer::{sizes, unravel};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "AffineGrid",
    versions: (20, 20),
    types: DType::is_float,
    build: AffineGrid::build,
}];

/// AffineGrid: `theta`: `[N, 2, 3]` or `[N, 3, 4]`, float; `size`: `[N, C, H, W]` or
/// `[N, C, D, H, W]`, int64. The result, `[N, H, W, 2]` or `[N, D, H, W, 3]`, names the coordinates
/// from the innermost axis outwards, from −1 to 1. With aligned corners these are the centres of the
/// outermost pixels, and a single one lies at −1; otherwise their edges.
///
/// Source: ONNX operator set, AffineGrid-20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffineGrid {
    /// Whether −1 and 1 are the centres of the outermost pixels.
    pub aligns_corners: bool,
}

impl AffineGrid {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { aligns_corners: spec.flag("align_corners", false)? }))
    }

    /// The coordinate of pixel `i` of `n`.
    pub fn coordinate(self, i: usize, n: usize) -> f64 {
        match (self.aligns_corners, n) {
            (true, 1) => -1.0,
            (true, _) => 2.0 * i as f64 / (n - 1) as f64 - 1.0,
            (false, _) => (2 * i + 1) as f64 / n as f64 - 1.0,
        }
    }

    fn compute<T: Number>(
        self,
        theta: TensorView<'_>,
        shape: &[usize],
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let theta = theta.as_slice::<T>()?;
        let grid = output.tensor(T::DTYPE, shape)?.into_slice::<T>()?;
        let (n, spatial) = (shape[0], &shape[1..shape.len() - 1]);
        let rank = spatial.len();
        if grid.is_empty() {
            return Ok(());
        }
        let n_points = grid.len() / (n * rank);
        let mut pace = Pace::new();
        for (at, point) in grid.chunks_exact_mut(rank).enumerate() {
            pace.go(rank * rank)?;
            let index = unravel(at % n_points, spatial);
            let rows = theta[at / n_points * rank * (rank + 1)..].chunks_exact(rank + 1);
            for (to, row) in point.iter_mut().zip(rows) {
                let terms = row.iter().enumerate().map(|(i, factor)| match i {
                    _ if i == rank => factor.to_f64(),
                    _ => {
                        let axis = rank - 1 - i;
                        factor.to_f64() * self.coordinate(index[axis], spatial[axis])
                    }
                });
                *to = T::from_f64(terms.sum());
            }
        }
        Ok(())
    }
}

/// The shape of the grid.
fn grid_shape(theta: &[usize], size: &[i64]) -> Result<Shape, OpError> {
    let sizes = sizes(1, size)?;
    let rank = sizes.len().saturating_sub(2);
    if !(2..=3).contains(&rank) || theta != [sizes[0], rank, rank + 1] {
        let (left, right) = (theta.to_vec(), sizes.to_vec());
        return Err(OpError::Shapes { what: "theta and size", left, right });
    }
    Ok(sizes[..1].iter().chain(&sizes[2..]).copied().chain([rank]).collect())
}

impl Operator for AffineGrid {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.expect_dtype(1, DType::I64)?;
        let fact = match (inputs.fact(0)?.shape(), inputs.fact(1)?.ints()) {
            (Some(theta), Some(size)) => Fact::shaped(dtype, &grid_shape(&theta, &size)?),
            (None, Some(size)) if (4..=5).contains(&size.len()) => {
                let rank = size.len() - 2;
                let known = |&n: &i64| usize::try_from(n).map_or(Dim::Unknown, Dim::Known);
                let dims = size[..1].iter().chain(&size[2..]).map(known);
                Fact::tensor(dtype, dims.chain([Dim::Known(rank)]))
            }
            _ => Fact::unranked(dtype),
        };
        Ok(vec![fact])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let theta = inputs.tensor(0)?;
        let shape = grid_shape(theta.shape(), inputs.tensor(1)?.as_slice()?)?;
        let output = &mut outputs[0];
        with_dtype!(theta.dtype(), float, T => self.compute::<T>(theta, &shape, output), else => {
            let found = Box::new(Fact::shaped(theta.dtype(), theta.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn corners_are_centres_or_edges() {
        let identity = tensor(&[1, 2, 3], &[1_f32, 0.0, 0.0, 0.0, 1.0, 0.5]);
        let size = tensor(&[4], &[1_i64, 3, 1, 2]);
        for (aligned, x, y) in [(0, [-0.5_f32, 0.5], 0.5_f32), (1, [-1.0, 1.0], -0.5)] {
            let case = Case::new("AffineGrid", 20).attr("align_corners", Attr::Int(aligned));
            let grid = case.tensor(&[identity.clone(), size.clone()]);
            assert_eq!(grid, Ok(tensor(&[1, 1, 2, 2], &[x[0], y, x[1], y])));
        }
        let wrong = tensor(&[3], &[1_i64, 3, 1]);
        assert!(Case::new("AffineGrid", 20).tensor(&[identity, wrong]).is_err());
    }
}
