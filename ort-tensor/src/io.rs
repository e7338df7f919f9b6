//! The operands of an operator or kernel: inputs to read, outputs to fill.

use std::fmt;

use crate::{
    AlignedBuf, DType, GrowingTensor, Tensor, TensorError, TensorView, TensorViewMut, Value,
    ValueView,
};

/// The inputs of one node, by position; an absent optional input is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a>(&'a [Option<ValueView<'a>>]);

impl<'a> Inputs<'a> {
    /// Inputs over a slice.
    pub const fn new(values: &'a [Option<ValueView<'a>>]) -> Self {
        Self(values)
    }

    /// The number of positions, present or absent.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no positions.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value at `index`; `None` if it is absent.
    pub fn get(&self, index: usize) -> Option<ValueView<'a>> {
        self.0.get(index).copied().flatten()
    }

    /// The value at `index`.
    ///
    /// # Errors
    /// If it is absent.
    pub fn value(&self, index: usize) -> Result<ValueView<'a>, TensorError> {
        self.get(index).ok_or(TensorError::MissingInput { index })
    }

    /// The tensor at `index`.
    ///
    /// # Errors
    /// If it is absent or no tensor.
    pub fn tensor(&self, index: usize) -> Result<TensorView<'a>, TensorError> {
        self.value(index)?.tensor()
    }

    /// The tensor at `index`, or `None` if it is absent.
    ///
    /// # Errors
    /// If it is there, but no tensor.
    pub fn optional_tensor(&self, index: usize) -> Result<Option<TensorView<'a>>, TensorError> {
        self.get(index).map(ValueView::tensor).transpose()
    }

    /// The inputs from `start` on: a variadic parameter.
    pub fn skip(&self, start: usize) -> Inputs<'a> {
        Inputs(self.0.get(start..).unwrap_or_default())
    }
}

/// Receives one result. The plan either has memory of the final shape ready, or takes what
/// the operator makes; the operator calls [`Output::tensor`] either way.
#[derive(Debug)]
pub struct Output<'a> {
    place: Place<'a>,
    in_place: Option<usize>,
    /// The value of an input, to be turned into the output.
    taken: Option<(usize, Value)>,
    /// The source of memory for unplanned outputs.
    memory: &'a dyn Memory,
}

/// Provides memory for results whose size is not known in advance.
pub trait Memory: fmt::Debug + Sync {
    /// `n_bytes` with any content; `None` if they cannot be allocated.
    fn buf(&self, n_bytes: usize) -> Option<AlignedBuf>;
}

/// Memory of the system.
#[derive(Clone, Copy, Debug)]
struct System;

impl Memory for System {
    fn buf(&self, n_bytes: usize) -> Option<AlignedBuf> {
        AlignedBuf::try_zeroed(n_bytes)
    }
}

#[derive(Debug)]
enum Place<'a> {
    Unwanted,
    Planned(TensorViewMut<'a>),
    /// Holds an input, to be extended.
    Growing(&'a mut GrowingTensor),
    Free(Option<Value>),
    /// Free, nothing made yet, in long-lived memory.
    Lasting,
}

impl<'a> Output<'a> {
    const fn at(place: Place<'a>) -> Self {
        Self { place, in_place: None, taken: None, memory: &System }
    }

    /// The output is unused and need not be computed.
    pub const fn unwanted() -> Self {
        Self::at(Place::Unwanted)
    }

    /// Planned memory of the final shape.
    pub const fn planned(view: TensorViewMut<'a>) -> Self {
        Self::at(Place::Planned(view))
    }

    /// Memory that already holds the data of input `input`, to be overwritten; that input is
    /// absent from [`Inputs`]. Only operators that declare the pair get this.
    pub const fn in_place(view: TensorViewMut<'a>, input: usize) -> Self {
        let mut output = Self::at(Place::Planned(view));
        output.in_place = Some(input);
        output
    }

    /// A tensor that already holds the data of input `input`, to be extended by the operator; the
    /// input itself has only type and shape. Only kernels that declare the pair get this.
    pub const fn growing(tensor: &'a mut GrowingTensor, input: usize) -> Self {
        let mut output = Self::at(Place::Growing(tensor));
        output.in_place = Some(input);
        output
    }

    /// Nothing is ready: the operator sets the shape, or passes a value.
    pub const fn free() -> Self {
        Self::at(Place::Free(None))
    }

    /// The same for a value that lasts as long as a session: a constant.
    pub const fn lasting() -> Self {
        Self::at(Place::Lasting)
    }

    /// The same with memory from `memory`.
    pub const fn lent(memory: &'a dyn Memory) -> Self {
        Self { place: Place::Free(None), in_place: None, taken: None, memory }
    }

    /// The same with the value of input `input`, which is absent from [`Inputs`] and has no other
    /// owner: it is to be turned into the output. Only operators that declare the pair get this.
    #[must_use]
    pub fn with_taken(self, value: Value, input: usize) -> Self {
        Self { taken: Some((input, value)), ..self }
    }

    /// The input value to be turned into the output, if there is one.
    pub fn take(&mut self) -> Option<Value> {
        self.taken.take().map(|(_, value)| value)
    }

    /// The source of memory for the output.
    pub const fn memory(&self) -> &'a dyn Memory {
        self.memory
    }

    /// The input whose value [`Output::take`] returns.
    pub fn takes(&self) -> Option<usize> {
        self.taken.as_ref().map(|(input, _)| *input)
    }

    /// Whether this output is used.
    pub const fn is_wanted(&self) -> bool {
        !matches!(self.place, Place::Unwanted)
    }

    /// The input whose data this output's memory holds, if it is computed in place.
    pub const fn in_place_of(&self) -> Option<usize> {
        self.in_place
    }

    /// The data of an input, to be overwritten with the result, and the position of that input;
    /// `None` if the output is not computed in place.
    pub fn in_place_tensor(&mut self) -> Option<(usize, TensorViewMut<'_>)> {
        match (&mut self.place, self.in_place) {
            (Place::Planned(view), Some(input)) => Some((input, view.reborrow())),
            _ => None,
        }
    }

    /// The memory of a result of this type and shape, with its room to grow (see
    /// [`GrowingTensor::extend`]), and whether it already holds the data of an input, which must be kept:
    /// then only the new entries are to be written.
    ///
    /// # Errors
    /// As [`Output::tensor`].
    pub fn extended(
        &mut self,
        dtype: DType,
        shape: &[usize],
    ) -> Result<(TensorViewMut<'_>, bool), TensorError> {
        if !matches!(self.place, Place::Growing(_)) {
            return Ok((self.tensor(dtype, shape)?, false));
        }
        match &mut self.place {
            Place::Growing(tensor) => Ok((tensor.extend(dtype, shape)?, true)),
            _ => Err(TensorError::Kind { expected: "tensor", found: "nothing" }),
        }
    }

    /// The tensor to be extended, if the output is growing.
    pub fn to_extend(&self) -> Option<&GrowingTensor> {
        match &self.place {
            Place::Growing(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The memory of the result, of this type and shape, zeroed or with any content.
    ///
    /// # Errors
    /// If another type or shape was planned, or the size overflows.
    pub fn tensor(
        &mut self,
        dtype: DType,
        shape: &[usize],
    ) -> Result<TensorViewMut<'_>, TensorError> {
        let zeros = match self.place {
            Place::Planned(_) | Place::Growing(_) => None,
            Place::Lasting => Some(Tensor::lasting_zeros(dtype, shape)?),
            Place::Free(_) | Place::Unwanted => Some(Tensor::in_memory(self.memory, dtype, shape)?),
        };
        if let Some(zeros) = zeros {
            self.place = Place::Free(Some(Value::Tensor(zeros)));
        }
        match &mut self.place {
            Place::Planned(view) => {
                if view.dtype() == dtype && view.shape() == shape {
                    return Ok(view.reborrow());
                }
                Err(TensorError::Planned {
                    planned_dtype: view.dtype(),
                    planned: view.shape().to_vec(),
                    dtype,
                    shape: shape.to_vec(),
                })
            }
            Place::Free(Some(Value::Tensor(tensor))) => Ok(tensor.view_mut()),
            Place::Free(_) | Place::Lasting | Place::Unwanted | Place::Growing(_) => {
                Err(TensorError::Kind { expected: "tensor", found: "nothing" })
            }
        }
    }

    /// Passes a finished value; a planned tensor is copied to its place.
    ///
    /// # Errors
    /// If another type or shape was planned.
    pub fn set(&mut self, value: Value) -> Result<(), TensorError> {
        match &mut self.place {
            Place::Unwanted => Ok(()),
            Place::Free(_) | Place::Lasting => {
                self.place = Place::Free(Some(value));
                Ok(())
            }
            Place::Growing(growing) => {
                let tensor = value.as_tensor()?.clone();
                **growing = growing.replaced(tensor)?;
                Ok(())
            }
            Place::Planned(_) => {
                let tensor = value.as_tensor()?;
                self.tensor(tensor.dtype(), tensor.shape())?.copy_from(tensor.view())
            }
        }
    }

    /// The operator's result, if its memory was not planned.
    pub fn into_value(self) -> Option<Value> {
        match self.place {
            Place::Free(value) => value,
            Place::Unwanted | Place::Planned(_) | Place::Growing(_) | Place::Lasting => None,
        }
    }
}

impl TensorViewMut<'_> {
    /// The same view with a shorter lifetime.
    pub fn reborrow(&mut self) -> TensorViewMut<'_> {
        let (dtype, shape) = (self.dtype(), self.shape());
        TensorViewMut::from_data(dtype, shape, self.data_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_output_takes_only_its_own_shape() {
        let mut data = [0_f32; 2];
        let shape = [2];
        let view = TensorViewMut::from_slice(&shape, &mut data).unwrap();
        let mut output = Output::planned(view);
        assert!(matches!(output.tensor(DType::F32, &[3]), Err(TensorError::Planned { .. })));
        assert!(output.set(Tensor::from_slice(&[2], &[1_f32, 2.0]).unwrap().into()).is_ok());
        assert!(output.into_value().is_none());
        assert_eq!(data, [1.0, 2.0]);
    }

    #[test]
    fn an_output_in_place_holds_the_data_of_its_input() {
        let mut data = [3_f32];
        let shape = [1];
        let view = TensorViewMut::from_slice(&shape, &mut data).unwrap();
        let mut output = Output::in_place(view, 1);
        let (input, view) = output.in_place_tensor().unwrap();
        assert_eq!((input, view.view().as_slice::<f32>()), (1, Ok(&[3_f32][..])));
        assert!(Output::free().in_place_tensor().is_none());
    }

    #[test]
    fn a_free_output_keeps_what_was_made() {
        let mut output = Output::free();
        output.tensor(DType::I64, &[1]).unwrap().into_slice::<i64>().unwrap()[0] = 7;
        let expected = Tensor::from_slice(&[1], &[7_i64]).unwrap();
        assert_eq!(output.into_value(), Some(Value::Tensor(expected)));
    }
}
