//! A node of a custom operator: which of the program's operators of that name fits it, and the types of its outputs.

use ort_session::provider::{
    Attrs, Behaviour, Fact, Facts, Inputs, OpError, Operator, Output, TensorError,
};
use ort_session::{DType, Type};

use crate::element_type::numbered;
use crate::error::Error;
use crate::ffi::{CustomOp, Presence, Side};
use crate::shape_context::ShapeContext;

/// The operators that have the node's name and version, the node's attributes and number of outputs.
#[derive(Debug)]
pub(crate) struct CustomOperator {
    pub(crate) ops: Vec<CustomOp>,
    pub(crate) attrs: Attrs,
    pub(crate) n_outputs: usize,
}

impl CustomOperator {
    /// The first operator that takes these inputs.
    pub(crate) fn chosen(&self, inputs: &Facts<'_>) -> Result<&CustomOp, OpError> {
        let mut error = None;
        for op in &self.ops {
            match fits(op, inputs, self.n_outputs) {
                Ok(()) => return Ok(op),
                // The error of the first is reported.
                Err(other) => error = error.or(Some(other)),
            }
        }
        Err(error.unwrap_or(OpError::Unsupported { what: "the operator" }))
    }
}

/// The declared position of an input or output: the last one is repeated.
const fn position(index: usize, count: usize) -> usize {
    if index < count { index } else { count.saturating_sub(1) }
}

/// The declared element type at a position; `None` is any.
fn declared(op: &CustomOp, side: Side, index: usize) -> Result<Option<DType>, OpError> {
    let number = op.element_type(side, position(index, op.count(side)));
    numbered(number).map_err(custom)
}

/// An error of a function of the program.
pub(crate) fn custom(error: Error) -> OpError {
    OpError::Custom { message: error.message() }
}

/// Whether `found` inputs or outputs are as many as the operator has.
fn check_count(op: &CustomOp, side: Side, found: usize) -> Result<(), OpError> {
    let count = op.count(side);
    let is_variadic = count > 0 && op.presence(side, count - 1) == Presence::Variadic;
    let is_required = |&index: &usize| op.presence(side, index) == Presence::Required;
    let mut least = (0..count).filter(is_required).max().map_or(0, |last| last + 1);
    if is_variadic {
        least = least.max(count - 1 + op.variadic(side).0);
    }
    if found >= least && (is_variadic || found <= count) {
        return Ok(());
    }
    let what = if side == Side::Input { "inputs" } else { "outputs" };
    let most = if is_variadic { "more".to_owned() } else { count.to_string() };
    let message = format!("{} has {least} to {most} {what}, found {found}", op.name());
    Err(OpError::Custom { message })
}

/// Checks that the operator takes these inputs, as far as they are known.
fn fits(op: &CustomOp, inputs: &Facts<'_>, n_outputs: usize) -> Result<(), OpError> {
    check_count(op, Side::Input, inputs.len())?;
    check_count(op, Side::Output, n_outputs)?;
    let count = op.count(Side::Input);
    // The type of variadic inputs that are alike.
    let mut common = None;
    for index in 0..inputs.len() {
        let presence = op.presence(Side::Input, position(index, count));
        let Some(fact) = inputs.get(index) else {
            match presence {
                Presence::Required => return Err(TensorError::MissingInput { index }.into()),
                _ => continue,
            }
        };
        let found = match &fact.ty {
            Type::Tensor(tensor) => tensor.dtype,
            Type::Unknown => continue,
            other => return Err(OpError::InputType { index, found: Box::new(other.clone()) }),
        };
        let is_alike = presence == Presence::Variadic && op.variadic(Side::Input).1;
        let expected = declared(op, Side::Input, index)?.or(common.filter(|_| is_alike));
        match expected {
            Some(expected) => inputs.expect_dtype(index, expected)?,
            None if is_alike => common = Some(found),
            None => {}
        }
    }
    Ok(())
}

/// The first input whose type the operator leaves open: outputs of open type have its type.
pub(crate) fn dynamic_input(op: &CustomOp, n_inputs: usize) -> Result<Option<usize>, OpError> {
    for index in 0..n_inputs {
        if declared(op, Side::Input, index)?.is_none() {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// The element types of the outputs; `None` where they are open.
pub(crate) fn output_types(op: &CustomOp, n: usize) -> Result<Vec<Option<DType>>, OpError> {
    (0..n).map(|index| declared(op, Side::Output, index)).collect()
}

impl Operator for CustomOperator {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let op = self.chosen(inputs)?;
        let dynamic = dynamic_input(op, inputs.len())?.and_then(|index| inputs.get(index)?.dtype());
        let types = output_types(op, self.n_outputs)?.into_iter();
        let fact = |ty: Option<DType>| ty.or(dynamic).map_or(Fact::UNKNOWN, Fact::unranked);
        let context = ShapeContext::new(inputs, &self.attrs, types.map(fact).collect());
        op.infer(&context).map_err(custom)?;
        Ok(context.into_outputs())
    }

    /// Kernels belong to sessions: see `custom_provider`.
    fn eval(&self, _inputs: Inputs<'_>, _outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        Err(OpError::Unsupported { what: "a custom operator without a kernel" })
    }

    /// Nothing is known of what a kernel computes, or when.
    fn behaviour(&self) -> Behaviour {
        Behaviour { is_deterministic: false, ..Behaviour::default() }
    }
}
