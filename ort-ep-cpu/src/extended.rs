//! An operator's own `eval` where outputs hold inputs that they extend, and inputs have room.

// collects are bounded: by the inputs and outputs of a node

use ort_ep::{Extension, Io, KernelError};
use ort_graph::{OpError, Operator};
use ort_tensor::{GrowingTensor, Inputs, Output, Tensor, TensorError, ValueView};
use smallvec::SmallVec;

/// An input that may have room along an axis, behind so many entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roomy {
    pub(crate) input: usize,
    pub(crate) axis: usize,
    pub(crate) len: usize,
}

/// Evaluates an operator. Outputs that are to extend an input are made of a copy of it instead, and replaced;
/// inputs with room are copied without it.
pub(crate) fn eval_extended(
    op: &dyn Operator,
    extensions: &[Extension],
    roomy: &[Roomy],
    io: &mut Io<'_, '_>,
) -> Result<(), KernelError> {
    let held = extensions.iter().filter_map(|extension| {
        let held = io.outputs.get(extension.output)?.to_extend()?;
        Some(held.to_tensor().map(|tensor| (extension.input, tensor)))
    });
    let trimmed = roomy.iter().filter_map(|input| Some((input.input, input.trimmed(io.inputs)?)));
    let trimmed = trimmed.map(|(input, tensor)| tensor.map(|tensor| (input, tensor)));
    let copies = held.chain(trimmed).collect::<Result<SmallVec<[(usize, Tensor); 2]>, _>>()?;
    if copies.is_empty() {
        return Ok(op.eval(io.inputs, io.outputs)?);
    }
    let mut inputs: SmallVec<[_; 16]> = (0..io.inputs.len()).map(|i| io.inputs.get(i)).collect();
    for (input, tensor) in &copies {
        inputs[*input] = Some(ValueView::Tensor(tensor.view()));
    }
    let free = |output: &Output<'_>| match output.is_wanted() {
        true => Output::free(),
        false => Output::unwanted(),
    };
    let mut made: SmallVec<[Output<'_>; 4]> = io.outputs.iter().map(free).collect();
    op.eval(Inputs::new(&inputs), &mut made)?;
    for (output, made) in io.outputs.iter_mut().zip(made) {
        if let Some(value) = made.into_value() {
            output.set(value).map_err(OpError::from)?;
        }
    }
    Ok(())
}

impl Roomy {
    /// The input without its room, if it has any.
    fn trimmed(&self, inputs: Inputs<'_>) -> Option<Result<Tensor, TensorError>> {
        let Some(ValueView::Tensor(view)) = inputs.get(self.input) else { return None };
        let has_room = view.shape().get(self.axis).is_some_and(|&room| room > self.len);
        has_room.then(|| {
            let mut tensor = GrowingTensor::new(view.to_tensor()?, self.axis)?;
            tensor.truncate(self.len);
            tensor.to_tensor()
        })
    }
}
