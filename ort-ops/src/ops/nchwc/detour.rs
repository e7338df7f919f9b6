//! How every operator of this domain is computed: converted to NCHW, by the plain operator, and back to NCHWc.

// collects are bounded: by the operands

use ort_graph::{NodeSpec, OpError, Operator};
use ort_tensor::{Inputs, Output, Tensor, TensorError, TensorView, Value, ValueView};

use crate::blocked::{blocked, unblocked};

/// The attribute `block_size`. It is ours: ONNX Runtime does not write it.
pub(super) fn read_block_size(spec: &NodeSpec<'_>) -> Result<Option<usize>, OpError> {
    const NAME: &str = "block_size";
    let Some(found) = spec.int(NAME)? else { return Ok(None) };
    let wrong = || OpError::AttributeValue { name: NAME, found: found.to_string() };
    let size = usize::try_from(found).ok().filter(|size| size.is_power_of_two());
    Ok(Some(size.ok_or_else(wrong)?))
}

/// The block size, without which NCHWc cannot be read.
pub(super) fn stated(block_size: Option<usize>) -> Result<usize, OpError> {
    block_size.ok_or(OpError::MissingAttribute { name: "block_size" })
}

/// `y = plain(x, …)` for an `x` and a `y` in NCHWc; the other inputs are passed to `plain` unchanged.
pub(super) fn compute(
    plain: &dyn Operator,
    block_size: Option<usize>,
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
) -> Result<(), OpError> {
    let block = stated(block_size)?;
    let x = unblocked(inputs.tensor(0)?, block)?;
    write(evaluated(plain, &[Some(x.view())])?.view(), block, output)
}

/// The first output of an operator.
pub(super) fn evaluated(
    plain: &dyn Operator,
    inputs: &[Option<TensorView<'_>>],
) -> Result<Tensor, OpError> {
    let views: Vec<_> = inputs.iter().map(|input| input.map(ValueView::Tensor)).collect();
    let mut outputs = [Output::free()];
    plain.eval(Inputs::new(&views), &mut outputs)?;
    let [output] = outputs;
    match output.into_value() {
        Some(Value::Tensor(tensor)) => Ok(tensor),
        _ => Err(TensorError::Kind { expected: "tensor", found: "nothing" }.into()),
    }
}

/// Writes `y`, which is in NCHW, in NCHWc.
pub(super) fn write(
    y: TensorView<'_>,
    block: usize,
    output: &mut Output<'_>,
) -> Result<(), OpError> {
    Ok(output.set(Value::Tensor(blocked(y, block)?))?)
}
