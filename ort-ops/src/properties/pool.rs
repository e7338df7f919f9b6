//! Pools: one number for the elements of each window.

use ort_graph::Attr;
use ort_tensor::DType;

use super::array::indices;
use super::draw::signed;
use super::windows::{Windows, ints};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("MaxPool", &[1, 8, 10, 11, 12, 22], max_pool),
    Property::microsoft("MaxpoolWithMask", masked),
    Property::onnx("AveragePool", &[1, 7, 10, 11, 19, 22], average_pool),
    Property::onnx("LpPool", &[1, 2, 11, 18, 22], lp_pool),
    Property::onnx("GlobalAveragePool", &[1, 22], |draw, dtype| global(draw, dtype, mean)),
    Property::onnx("GlobalMaxPool", &[1, 22], |draw, dtype| global(draw, dtype, largest)),
    Property::onnx("GlobalLpPool", &[1, 2, 22], global_lp),
];

/// The shapes of images and of results.
fn images(draw: &mut Draw, windows: &Windows) -> [Vec<usize>; 2] {
    let planes = [draw.dim().min(2), draw.dim().min(2)];
    [&windows.input, &windows.output].map(|spatial| [&planes, &spatial[..]].concat())
}

/// The indices in a window.
fn seen(windows: &Windows, at: &[usize]) -> Vec<Vec<usize>> {
    let seen = windows.seen(&at[2..]).into_iter();
    seen.map(|place| [&at[..2], &place].concat()).collect()
}

fn with_kernel(sample: Sample, windows: &Windows) -> Sample {
    windows.written(sample).attr("kernel_shape", ints(&windows.kernel))
}

/// The first of the largest, or the first NaN.
fn place_of_largest(x: &Array, seen: &[Vec<usize>]) -> Option<Vec<usize>> {
    let value = |at: &Vec<usize>| x.at(at).float();
    let is_nan = |at: &&Vec<usize>| value(at).is_nan();
    let larger = |a, b| if value(b) > value(a) { b } else { a };
    seen.iter().find(is_nan).or_else(|| seen.iter().reduce(larger)).cloned()
}

fn max_pool(draw: &mut Draw, dtype: DType) -> Sample {
    let is_new = draw.version >= 10;
    let windows = Windows::draw(draw, is_new, is_new);
    let [x, y] = images(draw, &windows);
    let x = if draw.one_in(4) { draw.any(dtype, &x) } else { draw.small(dtype, &x) };
    let (is_column_major, order) = if draw.version >= 8 { draw.flag(false) } else { (false, None) };
    let n_outputs = if draw.version >= 8 { 1 + draw.below(2) } else { 1 };
    let least = match dtype {
        DType::I8 => Cell::Int(-128),
        DType::U8 => Cell::Int(0),
        _ => Cell::Float(f64::NEG_INFINITY),
    };
    let sample = Sample::new(&[&x.clone()], {
        let windows = windows.clone();
        move || {
            let x = Array::of(&x);
            let place = |at: &[usize]| place_of_largest(&x, &seen(&windows, at));
            let values =
                Array::from_fn(&y, |at| place(at).map_or(least.clone(), |at| x.at(&at).clone()));
            let order: Vec<_> = match is_column_major {
                true => [0, 1].into_iter().chain((2..y.len()).rev()).collect(),
                false => (0..y.len()).collect(),
            };
            let index = |at: Vec<usize>| {
                let count = |flat, &axis: &usize| flat * x.shape[axis] + at[axis];
                signed(order.iter().fold(0, count)).into()
            };
            let places = Array::from_fn(&y, |at| Cell::Int(place(at).map_or(-1, index)));
            let mut expected = Expected::exact(dtype, values);
            expected.extend(Expected::exact(DType::I64, places));
            expected.truncate(n_outputs);
            expected
        }
    });
    with_kernel(sample, &windows).maybe("storage_order", order).outputs(n_outputs)
}

/// In each row of a window the elements before the first that is masked out.
fn masked(draw: &mut Draw, dtype: DType) -> Sample {
    let windows = Windows::draw(draw, false, false);
    let [shape, y] = images(draw, &windows);
    let x = draw.small(dtype, &shape);
    let mut planes = shape.clone();
    if draw.one_in(2) && !shape[..2].contains(&0) {
        planes[..2].copy_from_slice(&[1 + draw.below(3), 1 + draw.below(3)]);
    }
    let mask = Array::from_fn(&planes, |_| Cell::Int(draw.int(0, 3).into()));
    let stored = mask.to_tensor(DType::I32);
    let sample = Sample::new(&[&x.clone(), &stored], {
        let windows = windows.clone();
        move || {
            let x = Array::of(&x);
            let (n, n_masks) = (shape[2..].iter().product::<usize>(), planes[0] * planes[1]);
            let y = Array::from_fn(&y, |at| {
                let is_masked = |at: &Vec<usize>| {
                    let within = at[2..].iter().zip(&shape[2..]).fold(0, |i, (at, n)| i * n + at);
                    let plane = at[0] * shape[1] + at[1];
                    let is_first = within == 0 && shape.len() > 3;
                    !is_first && mask.cells[plane * n % n_masks + within] == Cell::Int(0)
                };
                let rows = seen(&windows, at);
                let rows = rows.chunk_by(|a, b| a[..a.len() - 1] == b[..b.len() - 1]);
                let counted = rows.flat_map(|row| row.iter().take_while(|at| !is_masked(at)));
                let counted: Vec<_> = counted.cloned().collect();
                let place = place_of_largest(&x, &counted);
                place.map_or(Cell::Float(f32::MIN.into()), |at| x.at(&at).clone())
            });
            Expected::exact(dtype, y)
        }
    });
    with_kernel(sample, &windows)
}

fn average_pool(draw: &mut Draw, dtype: DType) -> Sample {
    let windows = Windows::draw(draw, draw.version >= 19, draw.version >= 10);
    let [x, y] = images(draw, &windows);
    let x = draw.small(dtype, &x);
    let (counts_padding, written) =
        if draw.version >= 7 { draw.flag(false) } else { (false, None) };
    let sample = Sample::new(&[&x.clone()], {
        let windows = windows.clone();
        move || {
            let x = Array::of(&x);
            let is_counted = |at: &[usize], tap: &[usize]| {
                tap.iter().enumerate().all(|(axis, tap)| {
                    let ahead = at[axis] * windows.strides[axis] + tap * windows.dilations[axis];
                    ahead < windows.begin[axis] + windows.input[axis] + windows.end[axis]
                })
            };
            let y = Array::from_fn(&y, |at| {
                let seen = seen(&windows, at);
                let sum: f64 = seen.iter().map(|at| x.at(at).float()).sum();
                let within = windows.taps().iter().filter(|tap| is_counted(&at[2..], tap)).count();
                let count = if counts_padding { within } else { seen.len() };
                Cell::Float(if count == 0 { 0.0 } else { sum / count as f64 })
            });
            Expected::exact(dtype, y)
        }
    });
    with_kernel(sample, &windows).maybe("count_include_pad", written)
}

/// `(Σ |x|ᵖ)^(1/p)`.
fn norm(p: u8, x: &[f64]) -> f64 {
    let sum: f64 = x.iter().map(|x| x.abs().powi(p.into())).sum();
    sum.powf(f64::from(p).recip())
}

/// `p`, and its attribute: as a float in the first version.
fn exponent(draw: &mut Draw) -> (u8, Option<Attr>) {
    let p = draw.pick(&[1_u8, 2, 3]);
    let attr = if draw.version == 1 { Attr::Float(p.into()) } else { Attr::Int(p.into()) };
    (p, Some(attr).filter(|_| p != 2 || draw.one_in(2)))
}

/// The error of doubles after a fractional power.
const ROOT: f64 = 8.0;

fn lp_pool(draw: &mut Draw, dtype: DType) -> Sample {
    let windows = Windows::draw(draw, draw.version >= 18, draw.version >= 18);
    let [x, y] = images(draw, &windows);
    let x = draw.small(dtype, &x);
    let (p, written) = exponent(draw);
    let sample = Sample::new(&[&x.clone()], {
        let windows = windows.clone();
        move || {
            let x = Array::of(&x);
            let y = Array::from_fn(&y, |at| {
                let seen = seen(&windows, at);
                Cell::Float(norm(p, &seen.iter().map(|at| x.at(at).float()).collect::<Vec<_>>()))
            });
            Expected::rounded(dtype, y, ROOT)
        }
    });
    with_kernel(sample, &windows).maybe("p", written)
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn largest(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn global(draw: &mut Draw, dtype: DType, of: fn(&[f64]) -> f64) -> Sample {
    whole(draw, dtype, of)
}

fn global_lp(draw: &mut Draw, dtype: DType) -> Sample {
    let (p, written) = exponent(draw);
    whole(draw, dtype, move |x| norm(p, x)).maybe("p", written)
}

/// A global pool.
fn whole(draw: &mut Draw, dtype: DType, of: impl Fn(&[f64]) -> f64 + 'static) -> Sample {
    let shape = draw.shape(2);
    let x = draw.small(dtype, &shape);
    Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let places = indices(&shape[2..]);
        let y = [&shape[..2], &vec![1; shape.len() - 2]].concat();
        let y = Array::from_fn(&y, |at| {
            let value = |place: &Vec<usize>| x.at(&[&at[..2], place].concat()).float();
            Cell::Float(of(&places.iter().map(value).collect::<Vec<_>>()))
        });
        Expected::rounded(dtype, y, ROOT)
    })
}
