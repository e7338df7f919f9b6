//! Conv in NCHWc: `y = activation(Σ w·x + b + sum)`.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use super::detour;
use crate::activation::Activation;
use crate::blocked::{FilterForm, unblocked, unblocked_filter};
use crate::infer::WindowAttrs;
use crate::ops::conv::{Conv as PlainConv, read_group};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft.nchwc",
    name: "Conv",
    versions: (1, 1),
    types: is_allowed,
    build: Conv::build,
}];

/// Conv in NCHWc (B channels), f32. `x`: `[N, C, H, W]` in NCHWc, or in NCHW if it has fewer
/// than B channels; `w`: `[O, C/group, KH, KW]`, OIHWBiBo if a filter reads B channels or more,
/// else OIHWBo; `b`: absent or `[O]`; `sum`: absent or of the shape of `y`, in NCHWc. `y` is in NCHWc, so `O` is a
/// multiple of B.
///
/// Source: com.microsoft.nchwc, Conv-1 (ONNX Runtime 1.31).
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// The same convolution in NCHW.
    pub plain: PlainConv,
    /// The block size, if stated.
    pub block_size: Option<usize>,
}

impl Conv {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let plain = PlainConv {
            window: WindowAttrs::read(spec)?,
            group: read_group(spec)?,
            activation: Activation::of_conv(spec)?,
        };
        Ok(Arc::new(Self { plain, block_size: detour::read_block_size(spec)? }))
    }

    /// Whether `x` is in NCHWc, for filters that read `n_inputs` channels.
    const fn reads_blocks(&self, n_inputs: usize, block: usize) -> bool {
        n_inputs >= block || (n_inputs == 1 && self.plain.group > 1)
    }
}

impl Operator for Conv {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_allowed)?;
        self.plain.infer(inputs)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let block = detour::stated(self.block_size)?;
        let (x, w) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let n_inputs = w.shape().get(1).copied().unwrap_or(0);
        let unblocked_x =
            self.reads_blocks(n_inputs, block).then(|| unblocked(x, block)).transpose()?;
        let x = unblocked_x.as_ref().map_or(x, |x| x.view());
        let w = unblocked_filter(w, FilterForm::of(n_inputs, block), block)?;
        let sum = inputs.optional_tensor(3)?;
        let sum = sum.map(|sum| unblocked(sum, block)).transpose()?;
        let bias = inputs.optional_tensor(2)?;
        let operands = [Some(x), Some(w.view()), bias, sum.as_ref().map(|sum| sum.view())];
        let y = detour::evaluated(&self.plain, &operands)?;
        detour::write(y.view(), block, &mut outputs[0])
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        self.plain.flops(inputs, outputs)
    }
}

fn is_allowed(dtype: DType) -> bool {
    dtype == DType::F32
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::blocked::{FilterForm, blocked, blocked_filter};
    use crate::case::{Case, tensor};

    fn counted(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        tensor(shape, &(0..n).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>())
    }

    fn conv(group: usize) -> Case {
        let case = Case::new("Conv", 1).domain("com.microsoft.nchwc");
        let group = Attr::Int(i64::try_from(group).unwrap());
        case.attr("group", group).attr("pads", Attr::Ints(vec![1, 1, 0, 0]))
    }

    /// Shapes of `x` and `w`, groups, and whether `x` is in NCHWc.
    const CASES: [([usize; 4], [usize; 4], usize, bool); 4] = [
        ([2, 3, 4, 5], [8, 3, 3, 2], 1, false),
        ([2, 8, 4, 5], [4, 8, 3, 2], 1, true),
        ([1, 8, 4, 5], [8, 1, 3, 2], 8, true),
        ([1, 8, 4, 5], [8, 4, 3, 2], 2, true),
    ];

    #[test]
    fn every_form_gives_what_the_plain_convolution_gives() {
        for (x, w, group, is_blocked) in CASES {
            let (x, w, bias) = (counted(&x), counted(&w), counted(&w[..1]));
            let plain = Case::new("FusedConv", 1).domain("com.microsoft");
            let plain = plain.attr("group", Attr::Int(i64::try_from(group).unwrap()));
            let plain = plain.attr("pads", Attr::Ints(vec![1, 1, 0, 0]));
            let inputs = [x.clone(), w.clone(), bias.clone()];
            let y = plain.tensor(&inputs).unwrap();
            let sum = counted(y.shape());
            let relu = || Attr::String("Relu".into());
            let inputs = [inputs.as_slice(), std::slice::from_ref(&sum)].concat();
            let y = plain.attr("activation", relu()).tensor(&inputs).unwrap();

            let x = if is_blocked { blocked(x.view(), 4).unwrap() } else { x };
            let form = FilterForm::of(w.shape()[1], 4);
            let w = blocked_filter(w.view(), form, 4).unwrap();
            let sum = blocked(sum.view(), 4).unwrap();
            let case = conv(group).attr("activation", relu()).attr("block_size", Attr::Int(4));
            let found = case.tensor(&[x, w, bias, sum]);
            assert_eq!(found, Ok(blocked(y.view(), 4).unwrap()), "{form:?} {group}");
        }
    }

    #[test]
    fn without_a_block_size_nothing_is_computed() {
        let (x, w) = (counted(&[1, 8, 3, 3]), counted(&[8, 8, 1, 1]));
        let error = conv(1).tensor(&[x.clone(), w.clone()]).unwrap_err();
        assert_eq!(error, "attribute `block_size` is missing");
        let error = conv(1).attr("block_size", Attr::Int(3)).tensor(&[x, w]).unwrap_err();
        assert_eq!(error, "attribute `block_size` has the unsupported value 3");
    }
}
