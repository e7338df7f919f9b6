//! Applies the tables of all axes to the elements.

// collects are bounded: by the rank

use ort_graph::{Fact, OpError};
use ort_tensor::{
    Number, Pace, Shape, TensorError, TensorView, TensorViewMut, collected, move_elements,
    row_major_strides, with_dtype,
};

use super::axis::Table;

/// `y[o₀, o₁, …] = x[i₀(o₀), i₁(o₁), …]` where each table has one element per row.
pub(super) fn pick(
    x: TensorView<'_>,
    mut y: TensorViewMut<'_>,
    tables: &[Option<Table>],
    extrapolation_value: f32,
) -> Result<(), OpError> {
    let indices = tables.iter().zip(x.shape()).map(|(table, &n)| match table {
        None => collected((0..n).map(Some)),
        Some(table) => collected(table.rows().map(|taps| taps.first().map(|&(i, _)| i))),
    });
    // One per axis.
    let indices: Vec<Vec<Option<usize>>> = indices.collect::<Result<_, TensorError>>()?;
    let strides = row_major_strides(x.shape());
    move_elements!(x => y.reborrow(), |src, dst| {
        for_each_picked(&indices, &strides, |o, i| match i {
            Some(i) => dst[o].clone_from(&src[i]),
            None => dst[o] = Default::default(),
        })
    })?;
    if extrapolation_value == 0.0 || !indices.iter().flatten().any(Option::is_none) {
        return Ok(());
    }
    with_dtype!(x.dtype(), number, T => {
        let value = T::from_f64(f64::from(extrapolation_value));
        let y = y.into_slice::<T>()?;
        Ok(for_each_picked(&indices, &strides, |o, i| if i.is_none() { y[o] = value })?)
    }, else => {
        Err(OpError::InputType { index: 0, found: Box::new(Fact::shaped(x.dtype(), x.shape()).ty) })
    })
}

/// Calls `f(o, i)` for each element `o` of the output and its element `i` of the input; `None` if it is extrapolated.
///
/// # Errors
/// If the run was cancelled.
fn for_each_picked(
    indices: &[Vec<Option<usize>>],
    strides: &[usize],
    mut f: impl FnMut(usize, Option<usize>),
) -> Result<(), TensorError> {
    let Some((inner, outer)) = indices.split_last() else {
        f(0, Some(0));
        return Ok(());
    };
    let mut pace = Pace::new();
    // bounded: rank
    let mut index = Shape::from_elem(0, outer.len());
    let mut o = 0;
    loop {
        let parts = index.iter().zip(outer).zip(strides);
        let start: Option<usize> =
            parts.map(|((&at, axis), stride)| Some(axis[at]? * stride)).sum();
        for inner in inner.chunks(Pace::STEP) {
            pace.go(inner.len())?;
            for &i in inner {
                f(o, start.zip(i).map(|(start, i)| start + i));
                o += 1;
            }
        }
        let Some(axis) = (0..outer.len()).rev().find(|&axis| index[axis] + 1 < outer[axis].len())
        else {
            return Ok(());
        };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
}

/// The sums `Σ weight·x` along each axis with a table, one axis after the other.
pub(super) fn blend(
    x: TensorView<'_>,
    tables: &[Option<Table>],
    extrapolation_value: f32,
) -> Result<Vec<f64>, OpError> {
    let mut shape = Shape::from_slice(x.shape());
    let mut values: Vec<f64> = with_dtype!(x.dtype(), number,
    T => collected(x.as_slice::<T>()?.iter().map(|x| x.to_f64()))?,
    else => {
        let found = Box::new(Fact::shaped(x.dtype(), x.shape()).ty);
        return Err(OpError::InputType { index: 0, found });
    });
    let mut pace = Pace::new();
    for (axis, table) in tables.iter().enumerate() {
        let Some(table) = table else { continue };
        let inner: usize = shape[axis + 1..].iter().product();
        let n_blended = values.len() / shape[axis] * table.n_outputs();
        let mut blended = crate::accumulate::zeros::<f64>(n_blended)?;
        let blocks = values.chunks_exact(shape[axis] * inner);
        for (from, to) in blocks.zip(blended.chunks_exact_mut(table.n_outputs() * inner)) {
            for (taps, sums) in table.rows().zip(to.chunks_exact_mut(inner)) {
                if taps.is_empty() {
                    sums.fill(f64::from(extrapolation_value));
                }
                for &(i, weight) in taps {
                    pace.go(inner)?;
                    let terms = &from[i * inner..(i + 1) * inner];
                    sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += weight * term);
                }
            }
        }
        shape[axis] = table.n_outputs();
        values = blended;
    }
    Ok(values)
}
