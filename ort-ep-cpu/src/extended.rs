//! An operator's own `eval` where outputs hold inputs that they extend.

// collects are bounded: by the inputs and outputs of a node

use ort_ep::{Extension, Io, KernelError};
use ort_graph::{OpError, Operator};
use ort_tensor::{Inputs, Output, Tensor, ValueView};
use smallvec::SmallVec;

/// Evaluates an operator. Outputs that are to extend an input are made of a copy of it instead, and replaced.
pub(crate) fn eval_extended(
    op: &dyn Operator,
    extensions: &[Extension],
    io: &mut Io<'_, '_>,
) -> Result<(), KernelError> {
    let held = extensions.iter().filter_map(|extension| {
        let held = io.outputs.get(extension.output)?.to_extend()?;
        Some(held.to_tensor().map(|tensor| (extension.input, tensor)))
    });
    let held = held.collect::<Result<SmallVec<[(usize, Tensor); 2]>, _>>()?;
    if held.is_empty() {
        return Ok(op.eval(io.inputs, io.outputs)?);
    }
    let mut inputs: SmallVec<[_; 16]> = (0..io.inputs.len()).map(|i| io.inputs.get(i)).collect();
    for (input, tensor) in &held {
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
