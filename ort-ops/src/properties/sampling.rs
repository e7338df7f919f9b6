//! Operators that sample images between their elements.
//!
//! Places, weights and elements are drawn such that sums are exact where that is possible.

use ort_graph::Attr;
use ort_tensor::DType;

use super::array::for_each_index;
use super::draw::{counts, signed};
use super::resize::{cubic, operand, sum, whole};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property { domain: "", name: "GridSample", versions: &[16, 20, 22], draw: grid_sample },
    Property { domain: "com.microsoft", name: "GridSample", versions: &[1], draw: grid_sample },
    Property { domain: "", name: "AffineGrid", versions: &[20], draw: affine_grid },
    Property { domain: "", name: "RoiAlign", versions: &[10, 16, 22], draw: roi_align },
];

fn float(n: usize) -> f64 {
    Cell::Int(signed(n).into()).float()
}

/// The interpretation of a grid.
#[derive(Clone, Copy)]
struct Grid {
    mode: &'static str,
    padding: &'static str,
    is_aligned: bool,
}

impl Grid {
    /// The weights of the elements of an axis at a position from −1 to 1.
    fn weights(&self, position: f64, n: usize) -> Vec<f64> {
        let place = match self.is_aligned {
            true => (position + 1.0) / 2.0 * (float(n) - 1.0),
            false => ((position + 1.0) * float(n) - 1.0) / 2.0,
        };
        let mut weights = vec![0.0; n];
        for i in -10..signed(n) + 10 {
            let at = Cell::Int(i.into()).float();
            let distance = (at - place).abs();
            let weight = match self.mode {
                "nearest" => f64::from(u8::from(at == place.round_ties_even())),
                "linear" => (1.0 - distance).max(0.0),
                _ => cubic(distance, -0.75),
            };
            if let Some(element) = self.element(i, signed(n)) {
                weights[element] += weight;
            }
        }
        weights
    }

    /// The element at a position that may be outside.
    fn element(&self, mut i: i64, n: i64) -> Option<usize> {
        // Mirrored at the centres of the outermost elements, or at their edges.
        let (first, last) = if self.is_aligned { (0, 2 * n - 2) } else { (-1, 2 * n - 1) };
        while !(0..n).contains(&i) {
            i = match self.padding {
                "zeros" => return None,
                "border" => i.clamp(0, n - 1),
                _ if n == 1 => 0,
                _ => {
                    if i < 0 {
                        first - i
                    } else {
                        last - i
                    }
                }
            };
        }
        usize::try_from(i).ok()
    }
}

fn grid_sample(draw: &mut Draw, dtype: DType) -> Sample {
    let modes = if dtype.is_number() { &["nearest", "linear", "cubic"][..] } else { &["nearest"] };
    let grid = Grid {
        mode: draw.pick(modes),
        padding: draw.pick(&["zeros", "border", "reflection"]),
        is_aligned: draw.one_in(2),
    };
    let rank = if draw.version < 20 { 2 } else { 1 + draw.below(3) };
    let [n, c] = [draw.dim(), draw.dim()];
    let image: Vec<_> = (0..rank).map(|_| draw.some_dim()).collect();
    let points = draw.shape_of_rank(rank);
    let x_shape = [&[n, c], &image[..]].concat();
    let is_picked = grid.mode == "nearest";
    let x = if is_picked { draw.any(dtype, &x_shape) } else { draw.small(dtype, &x_shape) };
    let positions = Array::from_fn(&[&[n], &points[..], &[rank]].concat(), |_| {
        Cell::Float(Cell::Int(draw.int(-12, 12).into()).float() / 8.0)
    });
    let grid_type = draw.pick(&[DType::F32, DType::F64, DType::F16, DType::Bf16]);
    let inputs = [x.clone(), positions.to_tensor(grid_type)];
    let sample = Sample::new(&inputs.each_ref(), move || {
        let x = Array::of(&x);
        let y = Array::from_fn(&[&[n, c], &points[..]].concat(), |index| {
            let position =
                |k: usize| positions.at(&[&index[..1], &index[2..], &[k]].concat()).float();
            // The innermost axis comes first.
            let weights: Vec<_> = (0..rank)
                .map(|axis| grid.weights(position(rank - 1 - axis), image[axis]))
                .collect();
            if is_picked {
                let place = weights.iter().map(|axis| axis.iter().position(|w| *w == 1.0));
                let place: Option<Vec<_>> = place.collect();
                return place.map_or_else(
                    || Cell::zero(dtype),
                    |place| x.at(&[&index[..2], &place].concat()).clone(),
                );
            }
            let weights: Vec<_> = weights.iter().map(Vec::as_slice).collect();
            let plane = x.picked(&image, |place| [&index[..2], place].concat());
            whole(dtype, sum(&plane, &weights, &mut vec![]), f64::round_ties_even)
        });
        Expected::exact(dtype, y)
    });
    grid_attrs(draw, sample, grid)
}

fn grid_attrs(draw: &mut Draw, mut sample: Sample, grid: Grid) -> Sample {
    let mode = match grid.mode {
        "linear" if draw.version < 20 => "bilinear",
        "cubic" if draw.version < 20 => "bicubic",
        mode => mode,
    };
    let texts = [("mode", mode, "linear"), ("padding_mode", grid.padding, "zeros")];
    for (name, text, default) in texts {
        if text != default || draw.one_in(2) {
            sample = sample.attr(name, Attr::String(text.into()));
        }
    }
    let is_default = !grid.is_aligned && draw.one_in(2);
    let aligned = Attr::Int(grid.is_aligned.into());
    if is_default { sample } else { sample.attr("align_corners", aligned) }
}

fn affine_grid(draw: &mut Draw, dtype: DType) -> Sample {
    let rank = 2 + draw.below(2);
    let is_aligned = draw.one_in(2);
    // Lengths for which the coordinates are exact.
    let lengths = if is_aligned { [0, 1, 2, 3, 5] } else { [0, 1, 2, 4, 4] };
    let [n, c] = [draw.dim(), draw.dim()];
    let spatial: Vec<_> = (0..rank).map(|_| draw.pick(&lengths)).collect();
    let theta = draw.small(dtype, &[n, rank, rank + 1]);
    let inputs = [theta.clone(), counts(&[&[n, c], &spatial[..]].concat())];
    let sample = Sample::new(&inputs.each_ref(), move || {
        let theta = Array::of(&theta);
        let coordinate = |i: usize, n: usize| match is_aligned {
            true if n == 1 => -1.0,
            true => -1.0 + float(i) * 2.0 / (float(n) - 1.0),
            false => -1.0 + (float(i) + 0.5) * 2.0 / float(n),
        };
        let y = Array::from_fn(&[&[n], &spatial[..], &[rank]].concat(), |index| {
            let factor = |k: usize| theta.at(&[index[0], index[rank + 1], k]).float();
            // x before y before z, from the innermost axis outwards.
            let terms = (0..rank).map(|k| {
                let axis = rank - 1 - k;
                factor(k) * coordinate(index[1 + axis], spatial[axis])
            });
            Cell::Float(terms.sum::<f64>() + factor(rank))
        });
        Expected::exact(dtype, y)
    });
    let is_default = !is_aligned && draw.one_in(2);
    let aligned = Attr::Int(is_aligned.into());
    if is_default { sample } else { sample.attr("align_corners", aligned) }
}

/// How regions are pooled.
#[derive(Clone, Copy)]
struct Pool {
    is_max: bool,
    bins: [usize; 2],
    n_samples: usize,
    scale: f32,
    is_half_pixel: bool,
}

fn roi_align(draw: &mut Draw, dtype: DType) -> Sample {
    let pool = Pool {
        is_max: draw.one_in(2),
        bins: [1 + draw.below(2), 1 + draw.below(2)],
        n_samples: draw.below(4),
        scale: draw.pick(&[0.5, 1.0, 2.0]),
        is_half_pixel: draw.version >= 16 && draw.one_in(2),
    };
    let shape = [draw.some_dim(), draw.dim(), draw.some_dim(), draw.some_dim()];
    let n_regions = draw.dim();
    let x = operand(draw, dtype, &shape, "linear");
    // Odd sixteenths and whole lengths: then no sample is exactly at the end of the sampled range.
    let starts =
        [(); 2].map(|()| (0..n_regions).map(|_| draw.int(-16, 32) * 2 + 1).collect::<Vec<_>>());
    let lengths = [(); 2].map(|()| (0..n_regions).map(|_| draw.int(0, 4) * 16).collect::<Vec<_>>());
    let regions = Array::from_fn(&[n_regions, 4], |index| {
        let axis = index[1] % 2;
        let length = if index[1] < 2 { 0 } else { lengths[axis][index[0]] };
        Cell::Float(Cell::Int((starts[axis][index[0]] + length).into()).float() / 16.0)
    });
    let images: Vec<_> = (0..n_regions).map(|_| draw.below(shape[0])).collect();
    let regions_in =
        if dtype.is_float() { regions.to_tensor(dtype) } else { draw.any(dtype, &[n_regions, 4]) };
    let inputs = [x.clone(), regions_in, counts(&images)];
    let sample = Sample::new(&inputs.each_ref(), move || {
        let x = Array::of(&x);
        let y = Array::from_fn(&[n_regions, shape[1], pool.bins[0], pool.bins[1]], |index| {
            let plane =
                x.picked(&shape[2..], |place| vec![images[index[0]], index[1], place[0], place[1]]);
            let end = |k: usize| regions.at(&[index[0], k]).float();
            // x before y.
            let rows = pool.samples(0, [end(1), end(3)], index[2]);
            let columns = pool.samples(1, [end(0), end(2)], index[3]);
            Cell::Float(pool.value(&plane, &rows, &columns))
        });
        // All terms are positive, at most 16 samples of 4 elements: float64 loses a unit each.
        Expected::near(dtype, y, if dtype == DType::F64 { 64.0 } else { 1.0 })
    });
    pool_attrs(draw, sample, pool)
}

impl Pool {
    /// The places of the samples of a bin along one axis.
    fn samples(&self, axis: usize, ends: [f64; 2], bin: usize) -> Vec<f64> {
        let shift = if self.is_half_pixel { 0.5 } else { 0.0 };
        let [start, end] = ends.map(|end| end * f64::from(self.scale) - shift);
        let length = if self.is_half_pixel { end - start } else { (end - start).max(1.0) };
        let size = length / float(self.bins[axis]);
        let by_size = (0..9).take_while(|&n| float(n) < size).count();
        let n = if self.n_samples == 0 { by_size } else { self.n_samples };
        let place = |i| start + float(bin) * size + (float(i) + 0.5) * size / float(n);
        (0..n).map(place).collect()
    }

    /// The mean of the samples, or the largest weighted element.
    fn value(&self, plane: &Array, rows: &[f64], columns: &[f64]) -> f64 {
        let (mut total, mut largest) = (0.0, 0.0_f64);
        for (&row, &column) in rows.iter().flat_map(|row| columns.iter().map(move |col| (row, col)))
        {
            for_each_index(&plane.shape, |place| {
                let weight =
                    tent(row, place[0], plane.shape[0]) * tent(column, place[1], plane.shape[1]);
                let value = weight * plane.at(place).float();
                total += value;
                largest = largest.max(value);
            });
        }
        let n = rows.len() * columns.len();
        if n == 0 {
            0.0
        } else if self.is_max {
            largest
        } else {
            total / float(n)
        }
    }
}

/// The weight of element `i` of `n` at a place: none more than 1 beyond the border.
fn tent(place: f64, i: usize, n: usize) -> f64 {
    if place < -1.0 || place > float(n) {
        return 0.0;
    }
    let place = place.clamp(0.0, float(n - 1));
    (1.0 - (place - float(i)).abs()).max(0.0)
}

fn pool_attrs(draw: &mut Draw, mut sample: Sample, pool: Pool) -> Sample {
    let coordinates = if pool.is_half_pixel { "half_pixel" } else { "output_half_pixel" };
    if draw.version >= 16 && !(pool.is_half_pixel && draw.one_in(2)) {
        sample = sample.attr("coordinate_transformation_mode", Attr::String(coordinates.into()));
    }
    let [height, width] = pool.bins.map(signed);
    let numbers = [
        ("output_height", height, 1),
        ("output_width", width, 1),
        ("sampling_ratio", signed(pool.n_samples), 0),
    ];
    for (name, value, default) in numbers {
        if value != default || draw.one_in(2) {
            sample = sample.attr(name, Attr::Int(value));
        }
    }
    if pool.is_max || draw.one_in(2) {
        sample = sample.attr("mode", Attr::String(if pool.is_max { "max" } else { "avg" }.into()));
    }
    if pool.scale != 1.0 || draw.one_in(2) {
        sample = sample.attr("spatial_scale", Attr::Float(pool.scale));
    }
    sample
}
