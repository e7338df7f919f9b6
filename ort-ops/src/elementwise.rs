//! One function applied to each element, in place where the plan says so.

use ort_graph::{Fact, Facts, NodeSpec, OpError};
use ort_tensor::{DType, Element, Inputs, Number, Output, Pace, go_on};

/// The only output of a one-output operator.
///
/// # Errors
/// If the node has none.
pub(crate) fn only<'o, 't>(outputs: &'o mut [Output<'t>]) -> Result<&'o mut Output<'t>, OpError> {
    outputs.first_mut().ok_or(OpError::Unsupported { what: "a node without outputs" })
}

/// The element type of input `index`, which `output` may already contain.
///
/// # Errors
/// If the input is absent or no tensor.
pub(crate) fn dtype_of(
    index: usize,
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
) -> Result<DType, OpError> {
    match output.in_place_tensor() {
        Some((input, view)) if input == index => Ok(view.dtype()),
        _ => Ok(inputs.tensor(index)?.dtype()),
    }
}

/// `y[i] = f(x[i])`, `x` being input 0.
///
/// # Errors
/// If the input is absent or not of type `T`.
pub(crate) fn map<T: Element>(
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
    f: &dyn Fn(T) -> T,
) -> Result<(), OpError> {
    let Some((0, view)) = output.in_place_tensor() else { return convert(inputs, output, f) };
    for y in view.into_slice::<T>()?.chunks_mut(Pace::STEP) {
        go_on()?;
        y.iter_mut().for_each(|y| *y = f(*y));
    }
    Ok(())
}

/// As [`map`] with a function of `f64`, rounded once to the type of the elements: the nearest
/// value for floats, the integer toward zero for integers.
///
/// # Errors
/// As [`map`].
pub(crate) fn map_f64<T: Number>(
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
    f: &dyn Fn(f64) -> f64,
) -> Result<(), OpError> {
    map::<T>(inputs, output, &|x| T::from_f64(f(x.to_f64())))
}

/// `y[i] = f(x[i])`, `x` being input 0, to elements of another type.
///
/// # Errors
/// As [`map`].
pub(crate) fn convert<T: Element, U: Element>(
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
    f: &dyn Fn(T) -> U,
) -> Result<(), OpError> {
    let x = inputs.tensor(0)?;
    let y = output.tensor(U::DTYPE, x.shape())?.into_slice::<U>()?;
    for (y, x) in y.chunks_mut(Pace::STEP).zip(x.as_slice::<T>()?.chunks(Pace::STEP)) {
        go_on()?;
        y.iter_mut().zip(x).for_each(|(y, x)| *y = f(*x));
    }
    Ok(())
}

/// The fact of a result with the type and shape of input 0.
///
/// # Errors
/// If the input is absent, not a tensor, or of a type that is not allowed.
pub(crate) fn like_first(
    inputs: &Facts<'_>,
    allowed: fn(DType) -> bool,
) -> Result<Vec<Fact>, OpError> {
    let dtype = inputs.dtype(0, allowed)?;
    Ok(vec![shaped_like_first(inputs, dtype)?])
}

/// The fact of a result with the shape of input 0 and this type.
///
/// # Errors
/// If the input is absent.
pub(crate) fn shaped_like_first(inputs: &Facts<'_>, dtype: DType) -> Result<Fact, OpError> {
    let dims = inputs.fact(0)?.dims();
    Ok(dims.map_or_else(|| Fact::unranked(dtype), |dims| Fact::tensor(dtype, dims.to_vec())))
}

/// The error that input `index` has an unsupported element type.
pub(crate) fn unsupported(index: usize, dtype: DType) -> OpError {
    OpError::InputType { index, found: Box::new(Fact::unranked(dtype).ty) }
}

/// Ignores `consumed_inputs`, a hint about memory that operators had before opset 6.
pub(crate) fn ignore_consumed_inputs(spec: &NodeSpec<'_>) {
    if spec.since_version < 6 {
        spec.ignore("consumed_inputs");
    }
}
