//! Tile as before operator set 6: along one axis.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Tensor, ValueView, with_dtype};

use super::tile::Tile;
use crate::elementwise::unsupported;
use crate::infer::{normalize_axis, ranked_fact};

/// The definitions of this file.
pub const DEFS: &[OpDef] =
    &[OpDef { domain: "", name: "Tile", versions: (1, 5), types: DType::is_float, build }];

fn build(_: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    Ok(Arc::new(OldTile))
}

/// `y` is `x` `tiles` times (input 1) along `axis` (input 2), both numbers of the type of `x` in a tensor of one element.
///
/// Source: ONNX operator set, Tile-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldTile;

impl Operator for OldTile {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        (1..=2).try_for_each(|index| inputs.expect_dtype(index, dtype))?;
        Ok(vec![ranked_fact(dtype, inputs.fact(0)?.rank())])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let (tiles, axis) = (whole(inputs, 1)?, whole(inputs, 2)?);
        // bounded: rank
        let mut repeats = vec![1_i64; x.shape().len()];
        let axis = normalize_axis(axis, repeats.len())?;
        repeats[axis] = tiles;
        let repeats = Tensor::from_slice(&[repeats.len()], &repeats)?;
        let inputs = [Some(ValueView::Tensor(x)), Some(ValueView::Tensor(repeats.view()))];
        Tile.eval(Inputs::new(&inputs), outputs)
    }
}

/// The only number of the input at `index`, which must be an integer.
fn whole(inputs: Inputs<'_>, index: usize) -> Result<i64, OpError> {
    let view = inputs.tensor(index)?;
    let wrong = OpError::InputValue { index, what: "takes one integer" };
    let found = with_dtype!(view.dtype(), float,
        T => match view.as_slice::<T>()? {
            [x] => x.to_f64(),
            _ => return Err(wrong),
        },
        else => return Err(unsupported(index, view.dtype())));
    // Every such float fits in 64 bits.
    if found.fract() == 0.0 && found.abs() < 9e18 { Ok(i64::from_f64(found)) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn one_axis_repeats_a_whole_number_of_times() {
        let x = tensor(&[2, 2], &[1_f32, 2.0, 3.0, 4.0]);
        let tiled = |tiles: f32, axis: f32| {
            let inputs = [x.clone(), Tensor::scalar(tiles), Tensor::scalar(axis)];
            Case::new("Tile", 1).tensor(&inputs).ok()
        };
        assert_eq!(
            tiled(2.0, 0.0),
            Some(tensor(&[4, 2], &[1_f32, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]))
        );
        assert_eq!(
            tiled(2.0, 1.0),
            Some(tensor(&[2, 4], &[1_f32, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]))
        );
        assert_eq!(tiled(0.0, 1.0), Some(tensor::<f32>(&[2, 0], &[])));
        for (tiles, axis) in [(0.5, 0.0), (-1.0, 0.0), (1.0, 2.0), (f32::NAN, 0.0)] {
            assert_eq!(tiled(tiles, axis), None, "{tiles} along {axis}");
        }
    }
}
