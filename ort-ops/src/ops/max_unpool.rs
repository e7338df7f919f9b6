//! MaxUnpool: `y[indices[i]] = x[i]`, and 0 elsewhere.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Pace, Shape, move_elements, n_elements, row_major_strides, with_room,
};

use crate::infer::{WindowAttrs, sizes, unravel};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "MaxUnpool",
    versions: (9, 22),
    types: DType::is_float,
    build: MaxUnpool::build,
}];

/// MaxUnpool: the partial inverse of MaxPool. `x`: `[N, C, D₁, …]`, float; `indices`: int64, of
/// the shape of `x`, into the whole of a result whose axes have
/// `(n − 1)·stride + kernel − pads` elements. `output_shape`, if given, is at least as large in each dimension,
/// filled with 0. Of equal indices the last prevails.
///
/// Source: ONNX operator set, MaxUnpool-22.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxUnpool {
    /// The placement of the pool's windows.
    pub window: WindowAttrs,
}

impl MaxUnpool {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let window = WindowAttrs {
            kernel: crate::infer::read_axes(spec, "kernel_shape", 1)?,
            strides: crate::infer::read_axes(spec, "strides", 1)?,
            pads: crate::infer::read_axes(spec, "pads", 0)?,
            ..WindowAttrs::default()
        };
        match window.kernel {
            Some(_) => Ok(Arc::new(Self { window })),
            None => Err(OpError::MissingAttribute { name: "kernel_shape" }),
        }
    }

    /// The shape that the indices refer to, of an input of shape `x`.
    ///
    /// # Errors
    /// If window and input do not fit.
    pub fn unpooled(&self, x: &[usize]) -> Result<Shape, OpError> {
        let dims: Vec<Dim> = x.iter().copied().map(Dim::Known).collect();
        Ok(self.pooled_dims(&dims)?.iter().filter_map(Dim::known).collect())
    }

    /// The dimensions that the indices refer to.
    fn pooled_dims(&self, x: &[Dim]) -> Result<Vec<Dim>, OpError> {
        let kernel = self.window.kernel.as_deref().unwrap_or_default();
        if x.len() != kernel.len().saturating_add(2) {
            let expected = "2 more than `kernel_shape`";
            return Err(OpError::InputRank { index: 0, expected, found: x.len() });
        }
        let window = self.window.unplaced(kernel)?;
        let size = |axis: usize, n: usize| {
            let padding = window.pads_begin[axis].checked_add(window.pads_end[axis])?;
            let full = n.checked_sub(1)?.checked_mul(window.strides[axis])?;
            full.checked_add(kernel[axis])?.checked_sub(padding)
        };
        let mut dims = x[..2].to_vec();
        for (axis, dim) in x[2..].iter().enumerate() {
            let pooled = dim.map(|n| size(axis, n));
            if dim.known().is_some() && pooled.known().is_none() {
                let (left, right) = (vec![dim.known().unwrap_or(0)], kernel.to_vec());
                return Err(OpError::Shapes { what: "pooled input and window", left, right });
            }
            dims.push(pooled);
        }
        Ok(dims)
    }
}

impl Operator for MaxUnpool {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, DType::I64)?;
        inputs.expect_dtype(2, DType::I64)?;
        let x = inputs.fact(0)?;
        if let (Some(x), Some(indices)) = (x.shape(), inputs.fact(1)?.shape())
            && x != indices
        {
            let (left, right) = (x.to_vec(), indices.to_vec());
            return Err(OpError::Shapes { what: "values and indices", left, right });
        }
        let Some(dims) = x.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        let pooled = self.pooled_dims(dims)?;
        let Some(given) = inputs.get(2) else { return Ok(vec![Fact::tensor(dtype, pooled)]) };
        let Some(given) = given.ints() else {
            return Ok(vec![Fact::tensor(dtype, pooled.iter().map(|_| Dim::Unknown))]);
        };
        Ok(vec![Fact::shaped(dtype, &given_shape(&given, pooled.len())?)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        if x.shape() != indices.shape() {
            let (left, right) = (x.shape().to_vec(), indices.shape().to_vec());
            return Err(OpError::Shapes { what: "values and indices", left, right });
        }
        let pooled = self.unpooled(x.shape())?;
        let shape = match inputs.optional_tensor(2)? {
            Some(given) => given_shape(given.as_slice()?, pooled.len())?,
            None => pooled.clone(),
        };
        if pooled.iter().zip(&shape).any(|(pooled, given)| given < pooled) {
            let (left, right) = (shape.to_vec(), pooled.to_vec());
            return Err(OpError::Shapes { what: "output_shape", left, right });
        }
        let len = n_elements(&pooled).ok_or(OpError::TooLarge)?;
        let mut targets = with_room(x.len())?;
        let mut pace = Pace::new();
        for &index in indices.as_slice::<i64>()? {
            pace.go(1)?;
            let within = usize::try_from(index).ok().filter(|&at| at < len);
            let at = within.ok_or(OpError::Index { what: "indices of MaxUnpool", index, len })?;
            targets.push(at);
        }
        if pooled != shape {
            let strides = row_major_strides(&shape);
            for at in &mut targets {
                pace.go(shape.len())?;
                *at =
                    unravel(*at, &pooled).iter().zip(&strides).map(|(i, stride)| i * stride).sum();
            }
        }
        let y = outputs[0].tensor(x.dtype(), &shape)?;
        move_elements!(x => y, |src, dst| {
            dst.fill_with(Default::default);
            for (from, &at) in src.iter().zip(&targets) {
                pace.go(1)?;
                dst[at].clone_from(from);
            }
            Ok(())
        })?;
        Ok(())
    }
}

fn given_shape(given: &[i64], rank: usize) -> Result<Shape, OpError> {
    if given.len() != rank {
        return Err(OpError::InputValue { index: 2, what: "one size per dimension is needed" });
    }
    sizes(2, given)
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::f16;

    use crate::case::{Case, tensor};

    fn unpool() -> Case {
        let two = || Attr::Ints(vec![2, 2]);
        Case::new("MaxUnpool", 11).attr("kernel_shape", two()).attr("strides", two())
    }

    #[test]
    fn values_go_where_they_came_from() {
        let x = tensor(&[1, 1, 1, 2], &[f16::ONE, f16::NEG_ONE]);
        let i = tensor(&[1, 1, 1, 2], &[5_i64, 2]);
        let mut expected = vec![f16::ZERO; 8];
        (expected[5], expected[2]) = (f16::ONE, f16::NEG_ONE);
        let y = unpool().tensor(&[x.clone(), i.clone()]);
        assert_eq!(y, Ok(tensor(&[1, 1, 2, 4], &expected)));
        // The indices still refer to rows of four.
        let mut wide = vec![f16::ZERO; 15];
        (wide[6], wide[2]) = (f16::ONE, f16::NEG_ONE);
        let y = unpool().tensor(&[x, i, tensor(&[4], &[1_i64, 1, 3, 5])]);
        assert_eq!(y, Ok(tensor(&[1, 1, 3, 5], &wide)));
    }

    #[test]
    fn indices_and_shapes_that_do_not_fit_are_refused() {
        let x = || tensor(&[1, 1, 1, 1], &[1_f32]);
        for index in [-1, 4] {
            assert!(unpool().tensor(&[x(), tensor(&[1, 1, 1, 1], &[index])]).is_err());
        }
        let i = || tensor(&[1, 1, 1, 1], &[0_i64]);
        for shape in [[1_i64, 1, 1, 2], [1, 1, -2, 2]] {
            assert!(unpool().tensor(&[x(), i(), tensor(&[4], &shape)]).is_err());
        }
    }
}
