//! Pools of quantized values, and of NHWC images.

use ort_tensor::DType;

use super::quantized_values::{QuantizedTensor, Scheme};
use super::windows::{Windows, ints};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("NhwcMaxPool", max_pool),
    Property::microsoft("QLinearAveragePool", average_pool),
];

/// The shape of an image with these dimensions, whose channels may come last.
fn image(planes: [usize; 2], spatial: &[usize], is_last: bool) -> Vec<usize> {
    let mut shape = [&planes, spatial].concat();
    if is_last {
        shape[1..].rotate_left(1);
    }
    shape
}

/// The elements of each window in an image, `None` for padding.
fn pooled(
    x: &Array,
    windows: &Windows,
    is_last: bool,
    f: impl Fn(&[Option<&Cell>]) -> Cell,
) -> Array {
    let planes = [x.shape[0], x.shape[if is_last { x.shape.len() - 1 } else { 1 }]];
    Array::from_fn(&image(planes, &windows.output, is_last), |at| {
        let mut at = at.to_vec();
        if is_last {
            at[1..].rotate_right(1);
        }
        let seen = windows.taps().into_iter().map(|tap| {
            let place = windows.element(&at[2..], &tap)?;
            Some(x.at(&image([at[0], at[1]], &place, is_last)))
        });
        f(&seen.collect::<Vec<_>>())
    })
}

fn max_pool(draw: &mut Draw, dtype: DType) -> Sample {
    let windows = Windows::draw(draw, true, true);
    let planes = [draw.dim(), draw.dim()];
    let x = draw.any(dtype, &image(planes, &windows.input, true));
    let least = match dtype {
        DType::I8 => Cell::Int(-128),
        DType::U8 => Cell::Int(0),
        _ => Cell::Float(f64::NEG_INFINITY),
    };
    let kernel = ints(&windows.kernel);
    let written = windows.clone();
    let sample = Sample::new(&[&x.clone()], move || {
        let y = pooled(&Array::of(&x), &windows, true, |seen| {
            let cells = seen.iter().copied().flatten();
            let largest = Cell::extreme(std::cmp::Ordering::Greater, cells);
            largest.map_or(least.clone(), |(_, cell)| cell.clone())
        });
        Expected::exact(dtype, y)
    });
    written.written(sample).attr("kernel_shape", kernel)
}

/// With padding that counts, the sum is divided by the size of the window.
fn average_pool(draw: &mut Draw, dtype: DType) -> Sample {
    let windows = Windows::draw(draw, false, true);
    let planes = [draw.dim(), draw.dim()];
    let (is_last, layout) = draw.flag(false);
    let (counts_padding, flag) = draw.flag(false);
    let x = QuantizedTensor::draw(draw, dtype, &image(planes, &windows.input, is_last));
    let to = Scheme::draw(draw, dtype);
    let kernel = ints(&windows.kernel);
    let written = windows.clone();
    let operands = [x.operands(), to.operands().to_vec()].concat();
    let sample = Sample::of(operands, move || {
        let y = pooled(&x.values(), &windows, is_last, |seen| {
            let sum: f64 = seen.iter().copied().flatten().map(Cell::float).sum();
            let n = seen.iter().filter(|cell| counts_padding || cell.is_some()).count();
            Cell::Float(sum / n.max(1) as f64)
        });
        to.encoded(dtype, &y)
    });
    let sample = written.written(sample).attr("kernel_shape", kernel);
    sample.maybe("channels_last", layout).maybe("count_include_pad", flag)
}
