//! ReorderInput: from NCHW to NCHWc.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Tensor, TensorView, by_pieces};

use super::detour;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft.nchwc",
    name: "ReorderInput",
    versions: (1, 1),
    types: is_allowed,
    build: ReorderInput::build,
}];

/// ReorderInput: `y` is `x` in NCHWc, its channels padded with zeros to whole blocks. `x`:
/// `[N, C, H, W]` f32, or `[N, H, W, C]` if channels are last.
///
/// Source: com.microsoft.nchwc, ReorderInput-1 (ONNX Runtime 1.31, which requires a multiple of four channels; here
/// any number is allowed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReorderInput {
    /// Whether `x` is `[N, H, W, C]`.
    pub has_channels_last: bool,
    /// The block size, if stated.
    pub block_size: Option<usize>,
}

impl ReorderInput {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let has_channels_last = spec.flag("channels_last", false)?;
        Ok(Arc::new(Self { has_channels_last, block_size: detour::read_block_size(spec)? }))
    }

    /// Positions of N, C, H and W in `x`.
    const fn axes(self) -> [usize; 4] {
        if self.has_channels_last { [0, 3, 1, 2] } else { [0, 1, 2, 3] }
    }

    /// `x` in NCHW, padded.
    fn padded(self, x: TensorView<'_>, block: usize) -> Result<Tensor, OpError> {
        let &[_, _, _, _] = x.shape() else {
            return Err(OpError::InputRank { index: 0, expected: "4", found: x.shape().len() });
        };
        let [n, c, h, w] = self.axes().map(|axis| x.shape()[axis]);
        let padded = c.checked_next_multiple_of(block).ok_or(OpError::TooLarge)?;
        let mut y = Tensor::zeros(DType::F32, &[n, padded, h, w])?;
        let plane = h.saturating_mul(w);
        if x.is_empty() {
            return Ok(y);
        }
        let (from, to) = (x.as_slice::<f32>()?, y.view_mut().into_slice::<f32>()?);
        let images = from.chunks_exact(c * plane).zip(to.chunks_exact_mut(padded * plane));
        for (from, to) in images {
            if !self.has_channels_last {
                let copy = |at: usize, to: &mut [f32]| to.copy_from_slice(&from[at..][..to.len()]);
                by_pieces(&mut to[..from.len()], copy)?;
                continue;
            }
            for (channel, to) in to.chunks_exact_mut(plane).take(c).enumerate() {
                by_pieces(to, |at, to| {
                    let from = from[at * c + channel..].iter().step_by(c);
                    to.iter_mut().zip(from).for_each(|(to, &from)| *to = from);
                })?;
            }
        }
        Ok(y)
    }
}

impl Operator for ReorderInput {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_allowed)?;
        let Some(dims) = inputs.fact(0)?.dims() else {
            // bounded: a constant
            return Ok(vec![Fact::tensor(DType::F32, [const { Dim::Unknown }; 4])]);
        };
        expect_rank(dims)?;
        let [n, c, h, w] = self.axes().map(|axis| dims[axis].clone());
        let c = c.map(|c| match self.block_size {
            Some(block) => c.checked_next_multiple_of(block),
            None => None,
        });
        Ok(vec![Fact::tensor(DType::F32, [n, c, h, w])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let block = detour::stated(self.block_size)?;
        let padded = self.padded(inputs.tensor(0)?, block)?;
        detour::write(padded.view(), block, &mut outputs[0])
    }
}

fn expect_rank(dims: &[Dim]) -> Result<(), OpError> {
    if dims.len() == 4 {
        return Ok(());
    }
    Err(OpError::InputRank { index: 0, expected: "4", found: dims.len() })
}

fn is_allowed(dtype: DType) -> bool {
    dtype == DType::F32
}

#[cfg(test)]
mod tests {
    use ort_graph::{Attr, Fact, Facts};
    use ort_tensor::DType;

    use super::ReorderInput;
    use crate::case::{Case, tensor};
    use ort_graph::Operator;

    #[test]
    fn planes_and_pixels_become_blocks_with_zeros_for_channels_that_are_not_there() {
        let case = Case::new("ReorderInput", 1).domain("com.microsoft.nchwc");
        let case = case.attr("block_size", Attr::Int(2));
        let expected = tensor(&[1, 4, 1, 2], &[1_f32, 3.0, 2.0, 4.0, 5.0, 0.0, 6.0, 0.0]);
        let planes = tensor(&[1, 3, 1, 2], &[1_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(case.tensor(&[planes]).as_ref(), Ok(&expected));
        let pixels = tensor(&[1, 1, 2, 3], &[1_f32, 3.0, 5.0, 2.0, 4.0, 6.0]);
        assert_eq!(case.attr("channels_last", Attr::Int(1)).tensor(&[pixels]), Ok(expected));
    }

    #[test]
    fn without_a_block_size_only_the_channels_are_unknown() {
        let op = ReorderInput { has_channels_last: true, block_size: None };
        let x = Fact::shaped(DType::F32, &[2, 5, 7, 3]);
        let y = op.infer(&Facts::new(&[Some(&x)])).unwrap();
        assert_eq!(y[0].ty.to_string(), "float[2,?,5,7]");
    }
}
