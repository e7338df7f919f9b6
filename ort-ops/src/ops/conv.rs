//! Conv: `y[n, m, p] = b[m] + Σ w[m, c, k]·x[n, c, p·stride + k·dilation − pad]`.

// collects are bounded: by the rank, or into checked allocations

use std::ops::Range;
use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Room, Shape, TensorView, collected, go_on, with_dtype};

use crate::accumulate::{Accumulate, Sum, multiply_add, zeros};
use crate::activation::Activation;
use crate::infer::{PADDING, Window, WindowAttrs, known_or_zero};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Conv",
        versions: (1, 22),
        types: DType::is_float,
        build: Conv::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "FusedConv",
        versions: (1, 1),
        types: DType::is_float,
        build: Conv::build_fused,
    },
];

/// Conv: `y = activation(Σ w·x + b + z)`. `x`: `[N, C, D₁, …]`, `w`: `[M, C/group, K₁, …]`, `b`:
/// absent or `[M]`, `z` (FusedConv): absent or of the shape of `y`; all of one float type. Output channel `m` reads
/// the input channels of its group. Padding is 0.
///
/// Source: ONNX operator set, Conv-22; com.microsoft, FusedConv-1 (ONNX Runtime 1.31).
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// The placement of the windows.
    pub window: WindowAttrs,
    /// The number of groups, at least 1.
    pub group: usize,
    /// The activation.
    pub activation: Activation,
}

impl Conv {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let (window, group) = (WindowAttrs::read(spec)?, read_group(spec)?);
        Ok(Arc::new(Self { window, group, activation: Activation::None }))
    }

    fn build_fused(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let (window, group) = (WindowAttrs::read(spec)?, read_group(spec)?);
        Ok(Arc::new(Self { window, group, activation: Activation::of_conv(spec)? }))
    }

    fn compute<T: Accumulate>(
        &self,
        inputs: Inputs<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let (x, w) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let geometry = ConvGeometry::new(&self.window, self.group, x.shape(), w.shape())?;
        let bias = geometry.channel_values::<T>(inputs.optional_tensor(2)?)?;
        let shape = geometry.output_shape();
        let z = inputs.optional_tensor(3)?;
        if let Some(z) = z.filter(|z| z.shape() != shape.as_slice()) {
            let (left, right) = (z.shape().to_vec(), shape.to_vec());
            return Err(OpError::Shapes { what: "summand of FusedConv", left, right });
        }
        let z = z.map(|z| z.as_slice::<T>()).transpose()?;
        let (x, w) = (widened::<T>(x)?, widened::<T>(w)?);
        let y = output.tensor(T::DTYPE, &shape)?.into_slice::<T>()?;
        geometry.convolve(&x, &w, T::Sum::default(), |at, channel, sums| {
            for (i, &sum) in (at..).zip(sums) {
                let sum = sum.plus(bias[channel]);
                let sum = z.map_or(sum, |z| sum.plus(z[i].widen()));
                y[i] = T::narrow(self.activation.apply_to(sum));
            }
        })
    }
}

impl Operator for Conv {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.fact(1)?;
        for index in 1..4 {
            inputs.expect_dtype(index, dtype)?;
        }
        let y = conv_fact(&self.window, self.group, [inputs.fact(0)?, inputs.fact(1)?], dtype)?;
        let channels = y.dims().and_then(|dims| dims.get(1));
        expect_channels(inputs, 2, channels)?;
        match inputs.get(3).and_then(|z| z.dims().zip(y.dims())) {
            Some((z, y)) if !fits(z, y) => {
                let (left, right) = (known_or_zero(z), known_or_zero(y));
                Err(OpError::Shapes { what: "summand of FusedConv", left, right })
            }
            _ => Ok(vec![y]),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        with_dtype!(x.dtype(), float, T => self.compute::<T>(inputs, &mut outputs[0]), else => {
            let found = Box::new(Fact::shaped(x.dtype(), x.shape()).ty);
            Err(OpError::InputType { index: 0, found })
        })
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        conv_flops(inputs.get(1), outputs.first())
    }
}

/// The attribute `group`.
pub(crate) fn read_group(spec: &NodeSpec<'_>) -> Result<usize, OpError> {
    let group = spec.int("group")?.unwrap_or(1);
    let wrong = || OpError::AttributeValue { name: "group", found: group.to_string() };
    usize::try_from(group).ok().filter(|&group| group > 0).ok_or_else(wrong)
}

/// The fact of the convolution of `x` with `w`.
pub(crate) fn conv_fact(
    window: &WindowAttrs,
    group: usize,
    [x, w]: [&Fact; 2],
    dtype: DType,
) -> Result<Fact, OpError> {
    for (index, fact) in [x, w].into_iter().enumerate() {
        if let Some(found) = fact.rank().filter(|&rank| rank < 2) {
            return Err(OpError::InputRank { index, expected: "2 or more", found });
        }
    }
    let (Some(x), Some(w)) = (x.dims(), w.dims()) else { return Ok(Fact::unranked(dtype)) };
    if x.len() != w.len() {
        let expected = "that of the weights";
        return Err(OpError::InputRank { index: 0, expected, found: x.len() });
    }
    let seen = w[1].map(|c| c.checked_mul(group));
    if x[1].unify(&seen).is_none() || w[0].known().is_some_and(|m| !m.is_multiple_of(group)) {
        return Err(wrong_channels(&known_or_zero(x), &known_or_zero(w)));
    }
    let mut dims: Dims = [x[0].clone(), w[0].clone()].into_iter().collect();
    dims.extend(window.output_dims(&x[2..], &w[2..])?);
    Ok(Fact::tensor(dtype, dims))
}

/// Checks that the input at `index`, if present, has one element per channel.
pub(crate) fn expect_channels(
    inputs: &Facts<'_>,
    index: usize,
    channels: Option<&Dim>,
) -> Result<(), OpError> {
    match inputs.get(index).and_then(Fact::dims) {
        None => Ok(()),
        Some([n]) => match channels {
            Some(channels) if n.unify(channels).is_none() => {
                let (left, right) =
                    (vec![n.known().unwrap_or(0)], vec![channels.known().unwrap_or(0)]);
                Err(OpError::Shapes { what: "values of channels", left, right })
            }
            _ => Ok(()),
        },
        Some(dims) => Err(OpError::InputRank { index, expected: "1", found: dims.len() }),
    }
}

/// Two operations for each weight of a channel and each element of the output.
pub(crate) fn conv_flops(w: Option<&Fact>, output: Option<&Fact>) -> u64 {
    let w = w.and_then(Fact::shape);
    let terms = w.and_then(|w| ort_tensor::n_elements(w.get(1..)?));
    crate::infer::product_flops(terms, output)
}

fn fits(a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.unify(b).is_some())
}

fn wrong_channels(x: &[usize], w: &[usize]) -> OpError {
    OpError::Shapes { what: "channels and groups", left: x.to_vec(), right: w.to_vec() }
}

/// All elements as sums.
pub(crate) fn widened<T: Accumulate>(x: TensorView<'_>) -> Result<Vec<T::Sum>, OpError> {
    Ok(collected(x.as_slice::<T>()?.iter().map(|x| x.widen()))?)
}

/// The sizes of one convolution.
pub(crate) struct ConvGeometry {
    pub(crate) n: usize,
    pub(crate) group: usize,
    /// Input channels of a group.
    pub(crate) c: usize,
    /// Output channels of a group.
    pub(crate) m: usize,
    pub(crate) window: Window,
}

impl ConvGeometry {
    /// The sizes for operands of these shapes.
    pub(crate) fn new(
        attrs: &WindowAttrs,
        group: usize,
        x: &[usize],
        w: &[usize],
    ) -> Result<Self, OpError> {
        if x.len() < 2 || x.len() != w.len() {
            let expected = "that of the weights, 2 or more";
            return Err(OpError::InputRank { index: 0, expected, found: x.len() });
        }
        if w[1].checked_mul(group) != Some(x[1]) || !w[0].is_multiple_of(group) {
            return Err(wrong_channels(x, w));
        }
        let window = attrs.window(&x[2..], &w[2..])?;
        Ok(Self { n: x[0], group, c: w[1], m: w[0] / group, window })
    }

    /// The shape of the result.
    pub(crate) fn output_shape(&self) -> Shape {
        [self.n, self.m * self.group]
            .into_iter()
            .chain(self.window.output.iter().copied())
            .collect()
    }

    /// One value per output channel, 0 by default.
    pub(crate) fn channel_values<T: Accumulate>(
        &self,
        values: Option<TensorView<'_>>,
    ) -> Result<Vec<T::Sum>, OpError> {
        let n_channels = self.m * self.group;
        let Some(values) = values else { return zeros(n_channels) };
        if values.shape() != [n_channels] {
            let (left, right) = (values.shape().to_vec(), vec![n_channels]);
            return Err(OpError::Shapes { what: "values of channels", left, right });
        }
        widened::<T>(values)
    }

    /// Calls `write(start, channel, sums)` for runs of elements of the output that lie in one
    /// image and channel, each element once. Padding is `padding`.
    pub(crate) fn convolve<S: Sum>(
        &self,
        x: &[S],
        w: &[S],
        padding: S,
        mut write: impl FnMut(usize, usize, &[S]),
    ) -> Result<(), OpError> {
        let n_inputs: usize = self.window.input.iter().product();
        if self.output_shape().contains(&0) {
            return Ok(());
        }
        let mut patches = Room::new();
        for run in self.window.runs() {
            let offsets = self.window.offsets(run.clone())?;
            for image in 0..self.n * self.group {
                go_on()?;
                patches.clear();
                for channel in image * self.c..(image + 1) * self.c {
                    let plane = &x[channel * n_inputs..(channel + 1) * n_inputs];
                    let seen = |&at: &usize| if at == PADDING { padding } else { plane[at] };
                    patches.extend(offsets.iter().map(seen))?;
                }
                self.multiply(w, &patches, (image, run.clone()), &mut write)?;
            }
        }
        Ok(())
    }

    /// Multiplies the filters of a group with `patches`, whose columns are the windows of `run` and
    /// whose rows are the taps of the group's channels; `image` counts groups of images.
    pub(crate) fn multiply<S: Sum>(
        &self,
        w: &[S],
        patches: &[S],
        (image, run): (usize, Range<usize>),
        write: &mut impl FnMut(usize, usize, &[S]),
    ) -> Result<(), OpError> {
        let n_terms = self.c.saturating_mul(self.window.n_taps());
        let first = image % self.group * self.m;
        let filters = &w[first * n_terms..(first + self.m) * n_terms];
        let mut sums = zeros(self.m.saturating_mul(run.len()))?;
        multiply_add(filters, patches, &mut sums, run.len())?;
        for (m, sums) in sums.chunks_exact(run.len()).enumerate() {
            let start = (image * self.m + m) * self.window.n_outputs() + run.start;
            write(start, first + m, sums);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    fn counted(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        tensor(shape, &(0..n).map(|i| i as f32).collect::<Vec<_>>())
    }

    fn ones(shape: &[usize]) -> Tensor {
        tensor(shape, &vec![1_f32; shape.iter().product()])
    }

    #[test]
    fn windows_follow_padding_strides_and_dilations() {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        let conv = || Case::new("Conv", 11);
        let cases = [
            (conv().attr("pads", ints(&[1, 1])), vec![1_f32, 3.0, 6.0, 9.0, 7.0]),
            (conv().attr("strides", ints(&[2])), vec![3.0, 9.0]),
            (conv().attr("dilations", ints(&[2])), vec![6.0]),
            (
                conv().attr("auto_pad", Attr::String("SAME_LOWER".into())),
                vec![1_f32, 3.0, 6.0, 9.0, 7.0],
            ),
        ];
        for (case, expected) in cases {
            let y = case.tensor(&[counted(&[1, 1, 5]), ones(&[1, 1, 3])]);
            assert_eq!(y, Ok(tensor(&[1, 1, expected.len()], &expected)));
        }
    }

    #[test]
    fn one_two_and_three_axes_and_none_convolve() {
        for rank in 0..4 {
            let spatial = vec![3; rank];
            let x = counted(&[&[2, 1], &spatial[..]].concat());
            let w = ones(&[&[1, 1], &spatial[..]].concat());
            let n = 3_usize.pow(u32::try_from(rank).unwrap());
            let sum = |from: usize| (from..from + n).map(|i| i as f32).sum::<f32>();
            let y = Case::new("Conv", 22).tensor(&[x, w]);
            let shape = [&[2, 1], &vec![1; rank][..]].concat();
            assert_eq!(y, Ok(tensor(&shape, &[sum(0), sum(n)])), "{rank} axes");
        }
    }

    #[test]
    fn groups_see_their_own_channels_and_the_bias_is_theirs() {
        let case = Case::new("Conv", 1).attr("group", Attr::Int(2));
        let x = tensor(&[1, 2, 1], &[1_f32, 10.0]);
        let w = tensor(&[4, 1, 1], &[1_f32, 2.0, 3.0, 4.0]);
        let b = tensor(&[4], &[0.5_f32, 0.0, 0.0, -1.0]);
        let y = case.tensor(&[x.clone(), w.clone(), b]);
        assert_eq!(y, Ok(tensor(&[1, 4, 1], &[1.5_f32, 2.0, 30.0, 39.0])));
        assert!(Case::new("Conv", 1).tensor(&[x, w]).is_err());
    }

    #[test]
    fn the_summand_and_the_activation_come_last() {
        let case = Case::new("FusedConv", 1)
            .domain("com.microsoft")
            .attr("activation", Attr::String("Relu".into()));
        let half = |x: f32| f16::from_f32(x);
        let x = tensor(&[1, 1, 2], &[half(1.0), half(2.0)]);
        let w = tensor(&[1, 1, 1], &[half(1.0)]);
        let z = tensor(&[1, 1, 2], &[half(-3.0), half(1.0)]);
        let y = case.run_optional(&[Some(x), Some(w), None, Some(z)]).unwrap();
        let expected = tensor(&[1, 1, 2], &[half(0.0), half(3.0)]);
        assert_eq!(y[0].as_tensor().unwrap(), &expected);
    }

    #[test]
    fn no_image_and_no_channel_give_no_or_empty_sums() {
        let y = Case::new("Conv", 11).tensor(&[counted(&[0, 1, 3]), ones(&[2, 1, 2])]);
        assert_eq!(y, Ok(counted(&[0, 2, 2])));
        let y = Case::new("Conv", 11).tensor(&[counted(&[1, 0, 3]), ones(&[1, 0, 3])]);
        assert_eq!(y, Ok(tensor(&[1, 1, 1], &[0_f32])));
    }
}
