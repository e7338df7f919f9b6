//! Updates of a copy of a tensor at positions that are computed first.

use ort_graph::{NodeSpec, OpError};
use ort_tensor::{
    Bool, DType, Inputs, Output, Pace, TensorError, TensorView, TensorViewMut, move_elements,
    with_dtype,
};

use crate::arithmetic::Arithmetic;

/// The combination of an element and its update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The update; the last one if a position has several.
    None,
    /// The sum; for booleans, whether either is true.
    Add,
    /// The product; for booleans, whether both are true.
    Mul,
    /// The larger, NaN if either is.
    Max,
    /// The smaller, NaN if either is.
    Min,
}

impl Reduction {
    /// The attribute `reduction`, which versions below 16 do not have.
    pub(crate) fn of(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let name = if spec.since_version < 16 { None } else { spec.string("reduction")? };
        match name {
            None | Some("none") => Ok(Reduction::None),
            Some("add") => Ok(Reduction::Add),
            Some("mul") => Ok(Reduction::Mul),
            Some("max") if spec.since_version >= 18 => Ok(Reduction::Max),
            Some("min") if spec.since_version >= 18 => Ok(Reduction::Min),
            Some(other) => {
                Err(OpError::AttributeValue { name: "reduction", found: other.to_owned() })
            }
        }
    }

    fn apply<T: Arithmetic>(self, x: T, update: T) -> T {
        match self {
            Reduction::None => update,
            Reduction::Add => x.add(update),
            Reduction::Mul => x.mul(update),
            Reduction::Max => x.larger(update),
            Reduction::Min => x.smaller(update),
        }
    }

    fn apply_bool(self, x: bool, update: bool) -> bool {
        match self {
            Reduction::None => update,
            Reduction::Add | Reduction::Max => x | update,
            Reduction::Mul | Reduction::Min => x & update,
        }
    }

    /// Whether it has a meaning for elements of this type.
    pub(crate) fn allows(self, dtype: DType) -> bool {
        let is_number = dtype.is_float() || dtype.is_integer();
        self == Reduction::None || is_number || dtype == DType::Bool
    }
}

/// Runs `update` on a copy of input 0, or on its own memory if the output is computed in place.
pub(crate) fn update_copy(
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
    update: impl FnOnce(TensorViewMut<'_>) -> Result<(), OpError>,
) -> Result<(), OpError> {
    if let Some((0, view)) = output.in_place_tensor() {
        return update(view);
    }
    let x = inputs.tensor(0)?;
    let mut y = output.tensor(x.dtype(), x.shape())?;
    y.reborrow().copy_from(x)?;
    update(y)
}

/// `y[at..at + run] = f(y[at..at + run], u)` for each position `at` and the next `run` updates `u`, from
/// `first` on. Every position must exist.
pub(crate) fn scatter(
    reduction: Reduction,
    (updates, first): (TensorView<'_>, usize),
    positions: &[usize],
    run: usize,
    y: TensorViewMut<'_>,
) -> Result<(), OpError> {
    if run == 0 {
        return Ok(());
    }
    if reduction == Reduction::None {
        return Ok(move_elements!(updates => y, |src, dst| {
            for_each_update(&src[first..], positions, run, |at, update| match update {
                [update] => dst[at].clone_from(update),
                _ => dst[at..at + run].clone_from_slice(update),
            })
        })?);
    }
    if y.dtype() == DType::Bool {
        let apply = |x: Bool, update: Bool| reduction.apply_bool(x.get(), update.get()).into();
        let updates = &updates.as_slice::<Bool>()?[first..];
        return Ok(reduce(updates, positions, run, y.into_slice::<Bool>()?, apply)?);
    }
    with_dtype!(y.dtype(), number, T => {
        let apply = |x, update| reduction.apply::<T>(x, update);
        let updates = &updates.as_slice::<T>()?[first..];
        Ok(reduce(updates, positions, run, y.into_slice::<T>()?, apply)?)
    }, else => Err(OpError::Unsupported { what: "a reduction of this element type" }))
}

fn reduce<T: Copy>(
    updates: &[T],
    positions: &[usize],
    run: usize,
    y: &mut [T],
    apply: impl Fn(T, T) -> T,
) -> Result<(), TensorError> {
    for_each_update(updates, positions, run, |at, updates| {
        let y = &mut y[at..at + run];
        y.iter_mut().zip(updates).for_each(|(y, &update)| *y = apply(*y, update));
    })
}

/// Calls `apply` with each position and its `run` updates.
fn for_each_update<T>(
    updates: &[T],
    positions: &[usize],
    run: usize,
    mut apply: impl FnMut(usize, &[T]),
) -> Result<(), TensorError> {
    let mut pace = Pace::new();
    for (update, &at) in updates.chunks_exact(run).zip(positions) {
        pace.go(run)?;
        apply(at, update);
    }
    Ok(())
}
