//! ReorderOutput: from NCHWc to NCHW.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorView};

use super::detour;
use crate::blocked::unblocked;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft.nchwc",
    name: "ReorderOutput",
    versions: (1, 1),
    types: is_allowed,
    build: ReorderOutput::build,
}];

/// ReorderOutput: the first channels of `x`, in NCHW. `x`: `[N, C, H, W]` f32, in NCHWc; `y`:
/// `[N, channels, H, W]`, or `[N, H, W, channels]` if channels are last.
///
/// Source: com.microsoft.nchwc, ReorderOutput-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReorderOutput {
    /// How many channels there are without padding; at least 1.
    pub channels: usize,
    /// Whether `y` is `[N, H, W, channels]`.
    pub has_channels_last: bool,
    /// The block size, if stated.
    pub block_size: Option<usize>,
}

impl ReorderOutput {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        const NAME: &str = "channels";
        let found = spec.int(NAME)?.ok_or(OpError::MissingAttribute { name: NAME })?;
        let wrong = || OpError::AttributeValue { name: NAME, found: found.to_string() };
        let channels = usize::try_from(found).ok().filter(|&channels| channels > 0);
        Ok(Arc::new(Self {
            channels: channels.ok_or_else(wrong)?,
            has_channels_last: spec.flag("channels_last", false)?,
            block_size: detour::read_block_size(spec)?,
        }))
    }

    fn expect_channels(self, found: usize) -> Result<(), OpError> {
        if self.channels <= found {
            return Ok(());
        }
        let (left, right) = (vec![self.channels], vec![found]);
        Err(OpError::Shapes { what: "channels of the output and of the input", left, right })
    }

    /// Copies from planes of `shape`.
    fn copy(self, x: &[f32], shape: [usize; 4], y: &mut [f32]) {
        let [_, c, h, w] = shape;
        let (plane, channels) = (h * w, self.channels);
        let images = x.chunks_exact(c * plane).zip(y.chunks_exact_mut(channels * plane));
        for (x, y) in images {
            if !self.has_channels_last {
                y.copy_from_slice(&x[..channels * plane]);
                continue;
            }
            for (channel, x) in x.chunks_exact(plane).take(channels).enumerate() {
                let y = y[channel..].iter_mut().step_by(channels);
                y.zip(x).for_each(|(y, &x)| *y = x);
            }
        }
    }
}

impl Operator for ReorderOutput {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_allowed)?;
        let (n, h, w) = match inputs.fact(0)?.dims() {
            None => (Dim::Unknown, Dim::Unknown, Dim::Unknown),
            Some([n, c, h, w]) => {
                c.known().map_or(Ok(()), |c| self.expect_channels(c))?;
                (n.clone(), h.clone(), w.clone())
            }
            Some(dims) => {
                return Err(OpError::InputRank { index: 0, expected: "4", found: dims.len() });
            }
        };
        let c = Dim::Known(self.channels);
        let dims = if self.has_channels_last { [n, h, w, c] } else { [n, c, h, w] };
        Ok(vec![Fact::tensor(DType::F32, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let block = detour::stated(self.block_size)?;
        let x: TensorView<'_> = inputs.tensor(0)?;
        let &[n, c, h, w] = x.shape() else {
            return Err(OpError::InputRank { index: 0, expected: "4", found: x.shape().len() });
        };
        self.expect_channels(c)?;
        let x = unblocked(x, block)?;
        let channels = self.channels;
        let shape = if self.has_channels_last { [n, h, w, channels] } else { [n, channels, h, w] };
        let y = outputs[0].tensor(DType::F32, &shape)?.into_slice::<f32>()?;
        if !y.is_empty() {
            self.copy(x.as_slice()?, [n, c, h, w], y);
        }
        Ok(())
    }
}

fn is_allowed(dtype: DType) -> bool {
    dtype == DType::F32
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn blocks_become_planes_or_pixels_without_the_padding() {
        let x = tensor(&[1, 4, 1, 2], &[1_f32, 3.0, 2.0, 4.0, 5.0, 0.0, 6.0, 0.0]);
        let case = |channels: i64| {
            let case = Case::new("ReorderOutput", 1).domain("com.microsoft.nchwc");
            case.attr("block_size", Attr::Int(2)).attr("channels", Attr::Int(channels))
        };
        let planes = tensor(&[1, 3, 1, 2], &[1_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(case(3).tensor(std::slice::from_ref(&x)), Ok(planes));
        let pixels = tensor(&[1, 1, 2, 3], &[1_f32, 3.0, 5.0, 2.0, 4.0, 6.0]);
        let last = case(3).attr("channels_last", Attr::Int(1));
        assert_eq!(last.tensor(std::slice::from_ref(&x)), Ok(pixels));
        for channels in [0, 5] {
            assert!(case(channels).tensor(std::slice::from_ref(&x)).is_err(), "{channels}");
        }
    }
}
