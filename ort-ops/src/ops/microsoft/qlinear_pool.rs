//! QLinearAveragePool and QLinearGlobalAveragePool: means of quantized numbers.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Pace, Shape, go_on, n_elements, with_dtype};

use crate::channels_last::with_layout;
use crate::elementwise::{only, unsupported};
use crate::infer::WindowAttrs;
use crate::pool::{Pool, pool_fact};
use crate::quantized::{Scheme, saturate};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("QLinearAveragePool", |spec| with_layout(spec, QLinearAveragePool::read(spec)?)),
    def("QLinearGlobalAveragePool", |spec| with_layout(spec, QLinearGlobalAveragePool)),
];

const fn def(
    name: &'static str,
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "com.microsoft", name, versions: (1, 1), types: DType::is_byte, build }
}

/// QLinearAveragePool: `y = saturate(round(mean/y_scale + y_zero_point))` of the mean of each
/// window's values `x_scale · (q − x_zero_point)`, computed in float32, rounding half to even.
/// Inputs: `x: [N, C, D₁, …]`, its scale and zero point, those of `y`; zero points may be absent.
/// Quantized values are int8 or uint8, scales float.
///
/// Where padding counts, the sum is divided by the size of the window, even where that exceeds the padding, as in
/// AveragePool before version 19. An empty window has the mean 0. With `channels_last`, `x` and `y` are `[N, D₁, …,
/// C]`.
///
/// Source: com.microsoft, QLinearAveragePool-1 (ONNX Runtime 1.31).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QLinearAveragePool {
    /// The placement of the windows.
    pub window: WindowAttrs,
    /// Whether padding counts as elements.
    pub counts_padding: bool,
}

/// QLinearGlobalAveragePool: `y = saturate(round(Σ (q − x_zero_point) · x_scale/(y_scale·n)) +
/// y_zero_point)` over the `n` elements of each plane. Inputs as those of [`QLinearAveragePool`].
///
/// Source: com.microsoft, QLinearGlobalAveragePool-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QLinearGlobalAveragePool;

impl QLinearAveragePool {
    fn read(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let mut window = WindowAttrs::read_undilated(spec)?;
        if window.kernel.is_none() {
            return Err(OpError::MissingAttribute { name: "kernel_shape" });
        }
        window.is_ceil = spec.flag("ceil_mode", false)?;
        Ok(Self { window, counts_padding: spec.flag("count_include_pad", false)? })
    }
}

impl Operator for QLinearAveragePool {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = Scheme::expect_pair(inputs)?;
        Ok(vec![pool_fact(&self.window, inputs.fact(0)?, dtype)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let [from, to] = Scheme::read_pair(inputs)?;
        let pool = Pool::new(&self.window, x.shape())?;
        let y = only(outputs)?.tensor(x.dtype(), &pool.shape)?;
        with_dtype!(x.dtype(), [i8, u8], T => {
            let (x, y) = (x.as_slice::<T>()?, y.into_slice::<T>()?);
            pool.for_each(|seen| {
                let plane = &x[seen.plane * pool.n_plane..];
                let sum = seen.taps.iter().fold(0.0, |sum, &at| sum + from.dequantize(plane[at]));
                let n = if self.counts_padding { pool.window.n_taps() } else { seen.taps.len() };
                let mean = sum / n.max(1) as f32;
                y[seen.output] = saturate((mean / to.scale + to.zero_point).round_ties_even());
            })?;
            Ok(())
        }, else => Err(unsupported(0, x.dtype())))
    }
}

impl Operator for QLinearGlobalAveragePool {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = Scheme::expect_pair(inputs)?;
        let Some(dims) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        expect_planes(dims.len())?;
        let ones = dims[2..].iter().map(|_| Dim::Known(1));
        Ok(vec![Fact::tensor(dtype, dims[..2].iter().cloned().chain(ones))])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let [from, to] = Scheme::read_pair(inputs)?;
        let mut shape = Shape::from_slice(x.shape());
        expect_planes(shape.len())?;
        let n_plane = n_elements(&shape[2..]).ok_or(OpError::TooLarge)?;
        shape[2..].fill(1);
        let factor = from.scale / (to.scale * n_plane.max(1) as f32);
        let y = only(outputs)?.tensor(x.dtype(), &shape)?;
        with_dtype!(x.dtype(), [i8, u8], T => {
            let x = x.as_slice::<T>()?;
            for (i, y) in y.into_slice::<T>()?.iter_mut().enumerate() {
                let plane = &x[i * n_plane..(i + 1) * n_plane];
                let mut quantized = 0;
                for piece in plane.chunks(Pace::STEP) {
                    quantized += piece.iter().map(|&q| i64::from(q)).sum::<i64>();
                    go_on()?;
                }
                // Exact: a tensor does not have 2⁴⁵ elements.
                let sum = quantized.to_f64() - f64::from(from.zero_point) * n_plane as f64;
                let value = f32::from_f64(sum) * factor;
                *y = saturate(value.round_ties_even() + to.zero_point);
            }
            Ok(())
        }, else => Err(unsupported(0, x.dtype())))
    }
}

fn expect_planes(rank: usize) -> Result<(), OpError> {
    match rank {
        0 | 1 => Err(OpError::InputRank { index: 0, expected: "2 or more", found: rank }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn case(name: &'static str, channels_last: i64) -> Case {
        let case = Case::new(name, 1).domain("com.microsoft");
        case.attr("channels_last", Attr::Int(channels_last))
    }

    /// Values of half the quantized values less two, means of a scale of one and a zero point of one.
    fn inputs(x: Tensor) -> [Tensor; 5] {
        let zeros = [2_u8, 1].map(Tensor::scalar);
        let [from, to] = [0.5_f32, 1.0].map(Tensor::scalar);
        let [x_zero, y_zero] = zeros;
        [x, from, x_zero, to, y_zero]
    }

    #[test]
    fn means_are_rounded_after_the_zero_point() {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        let pool = |last| case("QLinearAveragePool", last).attr("kernel_shape", ints(&[2]));
        let x = tensor(&[1, 1, 4], &[2_u8, 4, 6, 255]);
        // The values are 0, 1, 2 and 126.5; the first means are 0.5 and 1.5.
        let y = pool(0).tensor(&inputs(x.clone()));
        assert_eq!(y, Ok(tensor(&[1, 1, 3], &[2_u8, 2, 65])));
        let padded = pool(0).attr("pads", ints(&[1, 0])).attr("strides", ints(&[2]));
        let y = padded.tensor(&inputs(x.clone()));
        assert_eq!(y, Ok(tensor(&[1, 1, 2], &[1_u8, 2])));
        let hanging = pool(0).attr("strides", ints(&[3])).attr("ceil_mode", Attr::Int(1));
        let y = hanging.tensor(&inputs(x.clone()));
        assert_eq!(y, Ok(tensor(&[1, 1, 2], &[2_u8, 128])));
        let y = hanging.attr("count_include_pad", Attr::Int(1)).tensor(&inputs(x));
        assert_eq!(y, Ok(tensor(&[1, 1, 2], &[2_u8, 64])));
        let last = tensor(&[1, 2, 2], &[2_u8, 4, 6, 4]);
        let y = pool(1).tensor(&inputs(last));
        assert_eq!(y, Ok(tensor(&[1, 1, 2], &[2_u8, 2])));
    }

    #[test]
    fn the_mean_of_a_plane_is_rounded_before_the_zero_point() {
        let x = [2_u8, 4, 255, 2];
        // The means are 0.5, which rounds to 0, and 63.25.
        let y = case("QLinearGlobalAveragePool", 0).tensor(&inputs(tensor(&[1, 2, 2], &x)));
        assert_eq!(y, Ok(tensor(&[1, 2, 1], &[1_u8, 64])));
        // And along columns, 63.25 and 0.5.
        let y = case("QLinearGlobalAveragePool", 1).tensor(&inputs(tensor(&[1, 2, 2], &x)));
        assert_eq!(y, Ok(tensor(&[1, 1, 2], &[64_u8, 1])));
        let y = case("QLinearGlobalAveragePool", 1).tensor(&inputs(tensor(&[2], &[1_u8, 2])));
        assert!(y.is_err());
    }
}
