//! Operators that select elements by indices or conditions.

use ort_graph::Attr;
use ort_tensor::DType;

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property { domain: "", name: "Gather", versions: &[1, 11, 13], draw: gather },
    Property { domain: "", name: "GatherElements", versions: &[11, 13], draw: gather_elements },
    Property { domain: "", name: "GatherND", versions: &[11, 12, 13], draw: gather_nd },
    Property { domain: "com.microsoft", name: "GatherND", versions: &[1], draw: gather_nd },
    Property { domain: "", name: "Compress", versions: &[9, 11, 28], draw: compress },
    Property { domain: "", name: "OneHot", versions: &[9, 11, 28], draw: one_hot },
];

fn gather(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let is_signed = draw.version >= 11;
    let (axis, written) = draw.axis(shape.len());
    let rank = draw.below(3);
    let indices = indices(draw, rank, shape[axis], is_signed);
    let x = draw.any(dtype, &shape);
    let gathered = [&shape[..axis], &indices.shape, &shape[axis + 1..]].concat();
    let sample = Sample::moving(&x, gathered, {
        let indices = indices.clone();
        move |index| {
            let (place, after) = index[axis..].split_at(indices.shape.len());
            let i = indices.index_at(place, shape[axis]);
            [&index[..axis], &[i], after].concat()
        }
    });
    let sample = sample.input(1, indices.to_tensor(draw.index_type()));
    along(draw, sample, axis, if is_signed { written } else { signed(axis) })
}

/// Indices of this rank into `n` entries; no indices without entries.
fn indices(draw: &mut Draw, rank: usize, n: usize, is_signed: bool) -> Array {
    let mut shape = draw.shape_of_rank(rank);
    if n == 0 && !shape.contains(&0) {
        shape.push(0);
    }
    draw.positions(&shape, n, is_signed)
}

/// With the attribute `axis`, optional if it is 0.
pub(super) fn along(draw: &mut Draw, sample: Sample, axis: usize, written: i64) -> Sample {
    let is_default = axis == 0 && draw.one_in(2);
    if is_default { sample } else { sample.attr("axis", Attr::Int(written)) }
}

fn gather_elements(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let (axis, written) = draw.axis(shape.len());
    let indices = element_indices(draw, &shape, axis, true);
    let x = draw.any(dtype, &shape);
    let sample = Sample::moving(&x, indices.shape.clone(), {
        let indices = indices.clone();
        move |index| {
            let mut from = index.to_vec();
            from[axis] = indices.index_at(index, shape[axis]);
            from
        }
    });
    let sample = sample.input(1, indices.to_tensor(draw.index_type()));
    along(draw, sample, axis, written)
}

/// Indices along an axis, in a tensor that is no longer along the others.
pub(super) fn element_indices(
    draw: &mut Draw,
    shape: &[usize],
    axis: usize,
    is_signed: bool,
) -> Array {
    let mut part: Vec<_> = shape.iter().map(|&n| n - draw.below(n + 1).min(n / 2)).collect();
    part[axis] = if shape[axis] == 0 { 0 } else { draw.dim() };
    draw.positions(&part, shape[axis], is_signed)
}

fn gather_nd(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let has_batches = draw.version >= 12;
    let n_batch_dims = if has_batches { draw.below(shape.len()) } else { 0 };
    let k = 1 + draw.below(shape.len() - n_batch_dims);
    let mut outer = shape[..n_batch_dims].to_vec();
    outer.extend((0..draw.below(3)).map(|_| draw.dim()).collect::<Vec<_>>());
    let tuples = tuples(draw, &shape[n_batch_dims..][..k], outer);
    let x = draw.any(dtype, &shape);
    let outer = tuples.shape[..tuples.shape.len() - 1].to_vec();
    let gathered = [&outer[..], &shape[n_batch_dims + k..]].concat();
    let sample = Sample::moving(&x, gathered, {
        let tuples = tuples.clone();
        move |index| {
            let (tuple, slice) = index.split_at(outer.len());
            let picked = tuple_at(&tuples, tuple, &shape[n_batch_dims..]);
            [&index[..n_batch_dims], &picked, slice].concat()
        }
    });
    let sample = sample.input(1, tuples.to_tensor(DType::I64));
    match n_batch_dims {
        0 => sample,
        n => sample.attr("batch_dims", Attr::Int(signed(n))),
    }
}

/// Tuples of indices into axes of this shape, in a tensor of the shape `outer` before the tuples;
/// none if one of the axes is empty.
pub(super) fn tuples(draw: &mut Draw, shape: &[usize], mut outer: Vec<usize>) -> Array {
    if shape.contains(&0) && !outer.contains(&0) {
        outer.push(0);
    }
    outer.push(shape.len());
    Array::from_fn(&outer, |index| {
        let n = signed(shape[index[index.len() - 1]]);
        Cell::Int(draw.int(-n, n - 1).into())
    })
}

/// The tuple at `place`, counted from the front.
pub(super) fn tuple_at(tuples: &Array, place: &[usize], shape: &[usize]) -> Vec<usize> {
    let k = tuples.shape[tuples.shape.len() - 1];
    (0..k).map(|i| tuples.index_at(&[place, &[i]].concat(), shape[i])).collect()
}

fn compress(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(1);
    let is_flat = draw.one_in(3);
    let (axis, written) = draw.axis(shape.len());
    let n = if is_flat { shape.iter().product() } else { shape[axis] };
    // A short condition drops the rest.
    let n_flags = n - if draw.one_in(3) { draw.below(n + 1) } else { 0 };
    let condition = draw.any(DType::Bool, &[n_flags]);
    let chosen: Vec<_> =
        (0..n_flags).filter(|&i| Array::of(&condition).cells[i] == Cell::Bool(true)).collect();
    let x = draw.any(dtype, &shape);
    if is_flat {
        return Sample::new(&[&x.clone(), &condition], move || {
            let x = Array::of(&x);
            let y = Array::from_fn(&[chosen.len()], |index| x.cells[chosen[index[0]]].clone());
            Expected::exact(dtype, y)
        });
    }
    let mut taken = shape;
    taken[axis] = chosen.len();
    let sample = Sample::moving(&x, taken, move |index| {
        let mut from = index.to_vec();
        from[axis] = chosen[index[axis]];
        from
    });
    let written = if draw.version < 11 { signed(axis) } else { written };
    sample.input(1, condition).attr("axis", Attr::Int(written))
}

fn one_hot(draw: &mut Draw, dtype: DType) -> Sample {
    const NUMBERS: [DType; 6] =
        [DType::I64, DType::I32, DType::U8, DType::F32, DType::F16, DType::F64];
    let shape = draw.shape(0);
    let (axis, written) = draw.axis(shape.len() + 1);
    let depth = draw.dim();
    let (index_type, depth_type) = (draw.pick(&NUMBERS), draw.pick(&NUMBERS));
    let indices = Array::from_fn(&shape, |_| {
        let least = if index_type == DType::U8 { 0 } else { -signed(depth) - 2 };
        // The fraction is ignored.
        let quarters = draw.int(4 * least, 4 * signed(depth) + 7);
        match index_type.is_float() {
            true => Cell::Float(Cell::Int(quarters.into()).float() / 4.0),
            false => Cell::Int((quarters / 4).into()),
        }
    });
    let depth_shape = draw.pick(&[vec![], vec![1]]);
    let depths = Array::from_fn(&depth_shape, |_| Cell::Int(signed(depth).into()));
    let values = draw.any(dtype, &[2]);
    let mut result = shape;
    result.insert(axis, depth);
    let counts_back = draw.version >= 11;
    let inputs = [indices.to_tensor(index_type), depths.to_tensor(depth_type), values.clone()];
    let sample = Sample::new(&inputs.each_ref(), move || {
        let values = Array::of(&values);
        let y = Array::from_fn(&result, |place| {
            let mut outer = place.to_vec();
            let d = outer.remove(axis);
            let index = indices.at(&outer).float().trunc();
            let is_at = |d: i64| index == Cell::Int(d.into()).float();
            let is_on = is_at(signed(d)) || counts_back && is_at(signed(d) - signed(depth));
            values.cells[usize::from(is_on)].clone()
        });
        Expected::exact(dtype, y)
    });
    if written == -1 && draw.one_in(2) { sample } else { sample.attr("axis", Attr::Int(written)) }
}
