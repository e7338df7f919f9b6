//! The values of a state.

// collects are bounded: by the rank

use ort_graph::{Dim, Type};
use ort_tensor::{GrowingTensor, Tensor, TensorError, Value};

/// A value that is kept from run to run.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    /// It grows in place.
    Growing(GrowingTensor),
    /// Runs make it anew.
    Whole(Value),
}

impl Kept {
    /// A value that grows along `axis` in place, if there is one.
    pub(super) fn new(value: Value, axis: Option<usize>) -> Result<Self, TensorError> {
        match axis {
            Some(axis) => GrowingTensor::new(value.as_tensor()?.clone(), axis).map(Self::Growing),
            None => Ok(Self::Whole(value)),
        }
    }

    pub(super) fn axis_len(&self, axis: usize) -> usize {
        match self {
            Self::Growing(tensor) => tensor.axis_len(),
            Self::Whole(Value::Tensor(tensor)) => tensor.shape().get(axis).copied().unwrap_or(0),
            Self::Whole(_) => 0,
        }
    }

    pub(super) fn n_bytes(&self) -> usize {
        match self {
            Self::Growing(tensor) => tensor.n_bytes(),
            Self::Whole(value) => value.held_bytes(),
        }
    }

    pub(super) fn to_value(&self) -> Result<Value, TensorError> {
        match self {
            Self::Growing(tensor) => Ok(tensor.to_tensor()?.into()),
            Self::Whole(value) => Ok(value.clone()),
        }
    }

    pub(super) fn truncate(&mut self, axis: usize, len: usize) -> Result<(), TensorError> {
        match self {
            Self::Growing(tensor) => tensor.truncate(len),
            Self::Whole(Value::Tensor(tensor)) if tensor.shape().get(axis) > Some(&len) => {
                let mut growing = GrowingTensor::new(tensor.clone(), axis)?;
                growing.truncate(len);
                *tensor = growing.to_tensor()?;
            }
            Self::Whole(_) => {}
        }
        Ok(())
    }
}

/// The axis along which a value of type `output` is longer than the input that it becomes: the only one whose
/// dimensions differ, or may.
pub(super) fn growing_axis(input: &Type, output: &Type) -> Option<usize> {
    let (Type::Tensor(input), Type::Tensor(output)) = (input, output) else { return None };
    let (input, output) = (input.dims.as_ref()?, output.dims.as_ref()?);
    let differs = |(a, b): (&Dim, &Dim)| a.known().is_none() && (a != b || *a == Dim::Unknown);
    let mut pairs = input.iter().zip(output).map(differs);
    let axis = pairs.position(|differs| differs).filter(|_| input.len() == output.len())?;
    (!pairs.any(|differs| differs)).then_some(axis)
}

/// Whether a value that is written in place is longer with each run: not if the model declares that output
/// and input are equally long.
pub(super) fn grows(input: &Type, output: &Type, axis: usize) -> bool {
    let dim = |ty: &Type| match ty {
        Type::Tensor(tensor) => tensor.dims.as_ref()?.get(axis).cloned(),
        _ => None,
    };
    match (dim(input), dim(output)) {
        (Some(Dim::Known(_)), _) => false,
        (Some(input), Some(output)) => input == Dim::Unknown || input != output,
        _ => true,
    }
}

/// Whether an output of type `made` can be the next value of an input of type `wanted`.
pub(super) fn can_become(made: &Type, wanted: &Type, axis: Option<usize>) -> bool {
    let (Type::Tensor(made), Type::Tensor(wanted)) = (made, wanted) else {
        return made.unify(wanted).is_some();
    };
    let fits = || {
        let (Some(made), Some(wanted)) = (&made.dims, &wanted.dims) else { return true };
        let fits = |(i, (a, b)): (usize, (&Dim, &Dim))| {
            axis == Some(i) || a.known().zip(b.known()).is_none_or(|(a, b)| a == b)
        };
        made.len() == wanted.len() && made.iter().zip(wanted.iter()).enumerate().all(fits)
    };
    made.dtype == wanted.dtype && fits()
}

/// A first value: zeros of the declared dimensions, none along `axis` where that is not declared, and
/// `symbol` for the others; or the axis of unknown length.
pub(super) fn first(
    ty: &Type,
    axis: Option<usize>,
    symbol: impl Fn(&str) -> Option<usize>,
) -> Result<Result<Tensor, TensorError>, usize> {
    let Type::Tensor(tensor) = ty else { return Err(0) };
    let dims = tensor.dims.as_ref().ok_or(0_usize)?;
    let dim = |(i, dim): (usize, &Dim)| match dim {
        Dim::Known(n) => Ok(*n),
        _ if axis == Some(i) => Ok(0),
        Dim::Symbol(name) => symbol(name).ok_or(i),
        Dim::Unknown => Err(i),
    };
    let shape = dims.iter().enumerate().map(dim).collect::<Result<Vec<usize>, usize>>()?;
    Ok(Tensor::zeros(tensor.dtype, &shape))
}
