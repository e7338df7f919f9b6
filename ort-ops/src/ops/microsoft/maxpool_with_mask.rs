//! MaxpoolWithMask: the largest element of each window before the first that is masked out.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::elementwise::only;
use crate::infer::{WindowAttrs, expect_dims};
use crate::pool::{Pool, pool_fact};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "MaxpoolWithMask",
    versions: (1, 1),
    types: is_allowed,
    build: MaxpoolWithMask::build,
}];

/// MaxpoolWithMask: as MaxPool, but in each row of a window only the elements before the first with a `mask` of 0
/// count. `x`: `[N, C, D₁, …]`, float; `mask`: `[N', C', D₁, …]`, int32. NaN is ignored, and a window without
/// elements gives the least float.
///
/// Plane `p` of `x`, of n elements, has the n elements of the mask from element `p·n mod N'·C'` on,
/// regardless of the mask's planes; and with two or more axes, the first element of a plane is never masked. Both are
/// undocumented behaviour of ONNX Runtime.
///
/// Source: com.microsoft, MaxpoolWithMask-1 (ONNX Runtime 1.32).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxpoolWithMask {
    /// The placement of the windows.
    pub window: WindowAttrs,
}

impl MaxpoolWithMask {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        // It is the order of indices, and there are none.
        spec.flag("storage_order", false)?;
        let window = WindowAttrs::read_undilated(spec)?;
        if window.kernel.is_none() {
            return Err(OpError::MissingAttribute { name: "kernel_shape" });
        }
        Ok(Arc::new(Self { window }))
    }
}

impl Operator for MaxpoolWithMask {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_allowed)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, DType::I32)?;
        let x = inputs.fact(0)?;
        if let Some([_, _, spatial @ ..]) = x.dims() {
            // bounded: a constant
            let mut mask = Dims::from_elem(Dim::Unknown, 2);
            mask.extend(spatial.iter().cloned());
            expect_dims(inputs, 1, &mask)?;
        }
        Ok(vec![pool_fact(&self.window, x, dtype)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, mask) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let pool = Pool::new(&self.window, x.shape())?;
        let fits = mask.shape().get(2..) == Some(&x.shape()[2..]);
        if !fits || (mask.is_empty() && !x.is_empty()) {
            let (left, right) = (x.shape().to_vec(), mask.shape().to_vec());
            return Err(OpError::Shapes { what: "input and mask", left, right });
        }
        let (x, mask) = (x.as_slice::<f32>()?, mask.as_slice::<i32>()?);
        // With less than one element per plane there is no mask, and no window that reads one.
        let n_masks = (mask.len() / pool.n_plane.max(1)).max(1);
        let is_spread = pool.window.input.len() > 1;
        let row = pool.window.input.last().copied().unwrap_or(1).max(1);
        let y = only(outputs)?.tensor(DType::F32, &pool.shape)?.into_slice::<f32>()?;
        pool.for_each(|seen| {
            let first = seen.plane * pool.n_plane;
            // As (n_masks − 1)·(n_plane − 1) ≥ 0, this does not exceed the mask.
            let mask = &mask[first % n_masks..];
            let is_masked = |at: usize| (at > 0 || !is_spread) && mask[at] == 0;
            let rows = seen.taps.chunk_by(|a, b| a / row == b / row);
            let counted = rows.flat_map(|taps| taps.iter().take_while(|&&at| !is_masked(at)));
            let larger = |y, &at| if x[first + at] > y { x[first + at] } else { y };
            y[seen.output] = counted.fold(f32::MIN, larger);
        })?;
        Ok(())
    }
}

const fn is_allowed(dtype: DType) -> bool {
    matches!(dtype, DType::F32)
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn pool(kernel: &[i64], x: Tensor, mask: Tensor) -> Result<Tensor, String> {
        let case = Case::new("MaxpoolWithMask", 1).domain("com.microsoft");
        case.attr("kernel_shape", Attr::Ints(kernel.to_vec())).tensor(&[x, mask])
    }

    #[test]
    fn a_row_of_a_window_ends_at_the_first_masked_element() {
        let x = || tensor(&[1, 1, 2, 3], &[1_f32, 2.0, 9.0, 4.0, 5.0, 6.0]);
        let cases = [
            ([1, 1, 1, 1, 1, 1], [5_f32, 9.0]),
            ([1, 1, 0, 1, 1, 1], [5.0, 6.0]),
            ([1, 1, 1, 0, 1, 1], [2.0, 9.0]),
            ([1, 0, 1, 1, 0, 0], [4.0, f32::MIN]),
            // The first element is always included.
            ([0, 0, 0, 0, 1, 0], [1.0, 5.0]),
        ];
        for (mask, expected) in cases {
            let y = pool(&[2, 2], x(), tensor(&[1, 1, 2, 3], &mask));
            assert_eq!(y, Ok(tensor(&[1, 1, 1, 2], &expected)), "{mask:?}");
        }
        let x = tensor(&[1, 1, 3], &[f32::NAN, 2.0, 1.0]);
        let y = pool(&[2], x.clone(), tensor(&[1, 1, 3], &[1, 1, 1]));
        assert_eq!(y, Ok(tensor(&[1, 1, 2], &[2_f32, 2.0])), "NaN does not count");
        let y = pool(&[2], x, tensor(&[1, 1, 3], &[0, 1, 1]));
        assert_eq!(y, Ok(tensor(&[1, 1, 2], &[f32::MIN, 2.0])), "of one axis, all are masked");
    }

    /// Results of onnxruntime 1.32.
    #[test]
    fn planes_begin_in_the_mask_where_onnxruntime_has_them_begin() {
        let numbers: Vec<f32> = (1_u8..=18).map(f32::from).collect();
        let mask = [1, 1, 0, 1, 1, 1, 0, 1, 1];
        // Planes of three elements of a mask of three planes: all from its element 0 on.
        let y = pool(&[2], tensor(&[2, 3, 3], &numbers), tensor(&[1, 3, 3], &mask));
        let expected = [2_f32, 2.0, 5.0, 5.0, 8.0, 8.0, 11.0, 11.0, 14.0, 14.0, 17.0, 17.0];
        assert_eq!(y, Ok(tensor(&[2, 3, 2], &expected)));
        // With two planes: alternately from element 0 and from element 1 on.
        let y = pool(&[2], tensor(&[2, 3, 3], &numbers), tensor(&[2, 1, 3], &mask[..6]));
        let no = f32::MIN;
        let expected = [2_f32, 2.0, 4.0, no, 8.0, 8.0, 10.0, no, 14.0, 14.0, 16.0, no];
        assert_eq!(y, Ok(tensor(&[2, 3, 2], &expected)));
    }

    #[test]
    fn a_mask_has_the_axes_of_what_it_masks() {
        let x = || tensor(&[2, 2, 1], &[1_f32, 2.0, 3.0, 4.0]);
        let mask = tensor(&[1, 2, 1], &[1, 0]);
        let expected = tensor(&[2, 2, 1], &[1_f32, f32::MIN, 3.0, f32::MIN]);
        assert_eq!(pool(&[1], x(), mask), Ok(expected));
        assert!(pool(&[1], x(), tensor(&[1, 2, 2], &[1; 4])).is_err());
        assert!(pool(&[1], x(), tensor::<i32>(&[0, 2, 1], &[])).is_err());
        let empty = tensor::<f32>(&[0, 2, 1], &[]);
        assert_eq!(pool(&[1], empty.clone(), tensor::<i32>(&[0, 2, 1], &[])), Ok(empty));
    }
}
