//! Operators that write or add elements by indices or windows.

use std::cmp::Ordering;

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::array::{for_each_index, unravel};
use super::draw::{counts, signed};
use super::gather::{along, element_indices, tuple_at, tuples};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property { domain: "", name: "Scatter", versions: &[9, 11], draw: scatter_elements },
    Property {
        domain: "",
        name: "ScatterElements",
        versions: &[11, 13, 16, 18],
        draw: scatter_elements,
    },
    Property { domain: "", name: "ScatterND", versions: &[11, 13, 16, 18], draw: scatter_nd },
    Property { domain: "", name: "TensorScatter", versions: &[24], draw: tensor_scatter },
    Property { domain: "", name: "MaxUnpool", versions: &[9, 11, 22], draw: max_unpool },
    Property { domain: "", name: "Col2Im", versions: &[18], draw: col2im },
];

/// The combination of an element and its update, and its attribute.
#[derive(Clone, Copy)]
struct Reduction {
    name: Option<&'static str>,
    f: fn(&Cell, &Cell) -> Cell,
}

/// A reduction that the version has, for numbers and booleans.
fn reduction(draw: &mut Draw, dtype: DType) -> Reduction {
    let replaced = |name| Reduction { name, f: |_, update| update.clone() };
    let reductions = [
        replaced(None),
        replaced(Some("none")),
        Reduction { name: Some("add"), f: sum },
        Reduction { name: Some("mul"), f: product },
        Reduction { name: Some("max"), f: |x, update| extreme(x, update, Ordering::Greater) },
        Reduction { name: Some("min"), f: |x, update| extreme(x, update, Ordering::Less) },
    ];
    let n_reductions = match draw.version {
        ..16 => 1,
        _ if !dtype.is_number() && dtype != DType::Bool => 2,
        16..18 => 4,
        _ => 6,
    };
    reductions[draw.below(n_reductions)]
}

fn sum(x: &Cell, update: &Cell) -> Cell {
    match (x, update) {
        (Cell::Int(x), Cell::Int(update)) => Cell::Int(x.wrapping_add(*update)),
        (Cell::Bool(x), Cell::Bool(update)) => Cell::Bool(x | update),
        (Cell::Complex(a, b), Cell::Complex(c, d)) => Cell::Complex(a + c, b + d),
        _ => Cell::Float(x.float() + update.float()),
    }
}

fn product(x: &Cell, update: &Cell) -> Cell {
    match (x, update) {
        // Its low bits equal those of any narrower product.
        (Cell::Int(x), Cell::Int(update)) => Cell::Int(x.wrapping_mul(*update)),
        (Cell::Bool(x), Cell::Bool(update)) => Cell::Bool(x & update),
        _ => Cell::Float(x.float() * update.float()),
    }
}

/// The first of both in this order, or NaN if either is.
fn extreme(x: &Cell, update: &Cell, order: Ordering) -> Cell {
    let is_nan = |cell: &Cell| matches!(cell, Cell::Float(value) if value.is_nan());
    let is_x = is_nan(x) || !is_nan(update) && x.total_order(update) == order;
    if is_x { x.clone() } else { update.clone() }
}

/// `y[place(i)] = f(y[place(i)], updates[i])` for every index `i` in row-major order that has a
/// place; rounded to the type each time.
fn write(
    y: &mut Array,
    updates: &Array,
    (f, dtype): (fn(&Cell, &Cell) -> Cell, DType),
    place: impl Fn(&[usize]) -> Option<Vec<usize>>,
) {
    for_each_index(&updates.shape, |index| {
        let Some(place) = place(index) else { return };
        let cell = f(y.at(&place), updates.at(index));
        *y.at_mut(&place) = if dtype.is_float() { cell.rounded(dtype) } else { cell };
    });
}

/// A node that writes updates into a copy of a tensor.
fn updating(
    (x, indices, updates): (Tensor, Tensor, Tensor),
    reduction: Reduction,
    place: impl Fn(&[usize]) -> Vec<usize> + 'static,
) -> Sample {
    let sample = Sample::new(&[&x.clone(), &indices, &updates.clone()], move || {
        let mut y = Array::of(&x);
        write(&mut y, &Array::of(&updates), (reduction.f, x.dtype()), |index| Some(place(index)));
        Expected::exact(x.dtype(), y)
    });
    match reduction.name {
        Some(name) => sample.attr("reduction", Attr::String(name.into())),
        None => sample,
    }
}

/// Any values for moves and comparisons, small numbers for arithmetic.
fn values(draw: &mut Draw, reduction: Reduction, dtype: DType, shape: &[usize]) -> Tensor {
    match reduction.name {
        Some("add" | "mul") => draw.small(dtype, shape),
        _ => draw.any(dtype, shape),
    }
}

fn scatter_elements(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let (axis, written) = draw.axis(shape.len());
    let is_signed = draw.version >= 11;
    let indices = element_indices(draw, &shape, axis, is_signed);
    let reduction = reduction(draw, dtype);
    let x = values(draw, reduction, dtype, &shape);
    let updates = values(draw, reduction, dtype, &indices.shape);
    let index_tensor = indices.to_tensor(draw.index_type());
    let sample = updating((x, index_tensor, updates), reduction, move |index| {
        let mut place = index.to_vec();
        place[axis] = indices.index_at(index, shape[axis]);
        place
    });
    along(draw, sample, axis, if is_signed { written } else { signed(axis) })
}

fn scatter_nd(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let k = 1 + draw.below(shape.len());
    let outer_rank = draw.below(3);
    let outer = draw.shape_of_rank(outer_rank);
    let tuples = tuples(draw, &shape[..k], outer);
    let outer_rank = tuples.shape.len() - 1;
    let reduction = reduction(draw, dtype);
    let x = values(draw, reduction, dtype, &shape);
    let update_shape = [&tuples.shape[..outer_rank], &shape[k..]].concat();
    let updates = values(draw, reduction, dtype, &update_shape);
    let index_tensor = tuples.to_tensor(DType::I64);
    updating((x, index_tensor, updates), reduction, move |index| {
        let (tuple, slice) = index.split_at(outer_rank);
        [&tuple_at(&tuples, tuple, &shape)[..], slice].concat()
    })
}

fn tensor_scatter(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(2);
    let rank = shape.len();
    let axis = 1 + draw.below(rank - 1);
    let is_circular = draw.one_in(2);
    let len = shape[axis];
    let mut update_shape = shape.clone();
    update_shape[axis] = draw.below(len + 1);
    let room = if is_circular { 9 } else { len - update_shape[axis] };
    let has_starts = draw.one_in(2);
    let starts: Vec<_> =
        (0..shape[0]).map(|_| if has_starts { draw.below(room + 1) } else { 0 }).collect();
    let starts_tensor = counts(&starts);
    let (x, update) = (draw.any(dtype, &shape), draw.any(dtype, &update_shape));
    let mut sample = Sample::new(&[&x.clone(), &update.clone()], move || {
        let mut y = Array::of(&x);
        write(&mut y, &Array::of(&update), (|_, update| update.clone(), dtype), |index| {
            let mut place = index.to_vec();
            place[axis] = (starts[index[0]] + index[axis]) % len;
            Some(place)
        });
        Expected::exact(dtype, y)
    });
    if has_starts {
        sample = sample.input(2, starts_tensor);
    }
    if is_circular || draw.one_in(2) {
        let mode = if is_circular { "circular" } else { "linear" };
        sample = sample.attr("mode", Attr::String(mode.into()));
    }
    let is_default = axis + 2 == rank && draw.one_in(2);
    let written = draw.written(axis, rank);
    if is_default { sample } else { sample.attr("axis", Attr::Int(written)) }
}

fn max_unpool(draw: &mut Draw, dtype: DType) -> Sample {
    let rank = 1 + draw.below(3);
    let axes: Vec<_> = (0..rank).map(|_| Window::draw(draw, false)).collect();
    let n: Vec<_> = axes.iter().map(|_| draw.some_dim()).collect();
    let planes = [draw.dim(), draw.dim()];
    let pooled =
        axes.iter().zip(&n).map(|(axis, n)| (n - 1) * axis.stride + axis.size - axis.pads());
    let pooled: Vec<_> = planes.into_iter().chain(pooled).collect();
    let given =
        draw.one_in(3).then(|| pooled.iter().map(|n| n + draw.below(3)).collect::<Vec<_>>());
    let shape = [&planes[..], &n].concat();
    let n_places: usize = pooled.iter().product();
    let indices = draw.positions(&shape, n_places, false);
    let x = draw.any(dtype, &shape);
    let result = given.clone().unwrap_or_else(|| pooled.clone());
    let sample = Sample::new(&[&x.clone(), &indices.to_tensor(DType::I64)], move || {
        let mut y = Array::from_fn(&result, |_| Cell::zero(dtype));
        write(&mut y, &Array::of(&x), (|_, update| update.clone(), dtype), |index| {
            // The indices refer to the pooled shape, whatever the result is padded to.
            Some(unravel(indices.index_at(index, n_places), &pooled))
        });
        Expected::exact(dtype, y)
    });
    let sample = match given {
        Some(given) => sample.input(2, counts(&given)),
        None => sample,
    };
    let kernel = axes.iter().map(|axis| signed(axis.size)).collect();
    window_attrs(draw, sample.attr("kernel_shape", Attr::Ints(kernel)), &axes)
}

/// The windows along one axis.
#[derive(Clone)]
struct Window {
    size: usize,
    stride: usize,
    dilation: usize,
    pads: [usize; 2],
}

impl Window {
    /// A window longer than its padding.
    fn draw(draw: &mut Draw, is_dilated: bool) -> Self {
        let size = 1 + draw.below(3);
        let dilation = if is_dilated { 1 + draw.below(2) } else { 1 };
        let pads = [draw.below(size), draw.below(size)].map(|pad| pad / 2);
        Self { size, stride: 1 + draw.below(3), dilation, pads }
    }

    fn pads(&self) -> usize {
        self.pads[0] + self.pads[1]
    }

    /// Its dilated length.
    fn extent(&self) -> usize {
        (self.size - 1) * self.dilation + 1
    }
}

/// The attributes of windows, absent where they are the default.
fn window_attrs(draw: &mut Draw, mut sample: Sample, axes: &[Window]) -> Sample {
    let of = |f: fn(&Window) -> usize| axes.iter().map(f).map(signed);
    let lists: [(_, i64, Vec<_>); 3] = [
        ("strides", 1, of(|axis| axis.stride).collect()),
        ("dilations", 1, of(|axis| axis.dilation).collect()),
        ("pads", 0, of(|axis| axis.pads[0]).chain(of(|axis| axis.pads[1])).collect()),
    ];
    for (name, default, values) in lists {
        let is_default = values.iter().all(|&value| value == default);
        if !is_default || name != "dilations" && draw.one_in(2) {
            sample = sample.attr(name, Attr::Ints(values));
        }
    }
    sample
}

fn col2im(draw: &mut Draw, dtype: DType) -> Sample {
    let rank = 1 + draw.below(3);
    let axes: Vec<_> = (0..rank).map(|_| Window::draw(draw, true)).collect();
    let image: Vec<_> = axes
        .iter()
        .map(|axis| axis.extent().saturating_sub(axis.pads()).max(1) + draw.below(3))
        .collect();
    let blocks = axes.iter().zip(&image);
    let blocks: Vec<_> =
        blocks.map(|(axis, n)| (n + axis.pads() - axis.extent()) / axis.stride + 1).collect();
    let sizes: Vec<_> = axes.iter().map(|axis| axis.size).collect();
    let [n, c] = [draw.dim(), draw.dim()];
    let columns = [n, c * sizes.iter().product::<usize>(), blocks.iter().product()];
    let x = draw.small(dtype, &columns);
    let inputs = [x.clone(), counts(&image), counts(&sizes)];
    let windows = axes.clone();
    let sample = Sample::new(&inputs.each_ref(), move || {
        let mut y = Array::from_fn(&[&[n, c], &image[..]].concat(), |_| Cell::zero(dtype));
        write(&mut y, &Array::of(&x), (sum, dtype), |index| {
            let row = unravel(index[1], &[&[c], &sizes[..]].concat());
            let block = unravel(index[2], &blocks);
            let mut place = vec![index[0], row[0]];
            for (axis, window) in windows.iter().enumerate() {
                let padded = block[axis] * window.stride + row[axis + 1] * window.dilation;
                let at = padded.checked_sub(window.pads[0]).filter(|&at| at < image[axis])?;
                place.push(at);
            }
            Some(place)
        });
        Expected::exact(dtype, y)
    });
    window_attrs(draw, sample, &axes)
}
