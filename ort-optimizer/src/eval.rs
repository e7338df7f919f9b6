//! The evaluation of constants.

use std::error::Error;
use std::fmt::Debug;

use ort_graph::{Graph, Node, OpError};
use ort_tensor::{Inputs, Output, Tensor, TensorError, ValueView};

/// Computes a node whose inputs are all constant. With a provider's own kernels, a folded constant has the same bits
/// as in a run.
pub trait ConstEval {
    /// The outputs of `node`, which is a node of `graph`, one for each that is used: an
    /// absent output has no tensor in the list.
    ///
    /// # Errors
    /// If the node cannot be computed. It then stays in the graph.
    fn eval(
        &self,
        graph: &Graph,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<Vec<Tensor>, EvalError>;

    /// Whether loading was cancelled. Checked between passes.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// A node that cannot be computed ahead of a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The operator failed.
    #[error(transparent)]
    Op(#[from] OpError),
    /// A used output was not computed.
    #[error("output {index} was not computed")]
    NotMade {
        /// The position of the output.
        index: usize,
    },
    /// The provider failed.
    #[error(transparent)]
    Provider(#[from] Box<dyn Error + Send + Sync>),
}

impl From<TensorError> for EvalError {
    fn from(error: TensorError) -> Self {
        EvalError::Op(error.into())
    }
}

/// Computes by [`Operator::eval`](ort_graph::Operator::eval): always available, and the reference for correctness.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl ConstEval for Reference {
    fn eval(
        &self,
        _graph: &Graph,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<Vec<Tensor>, EvalError> {
        let views: Vec<_> =
            inputs.iter().map(|t| t.as_ref().map(|t| ValueView::Tensor(t.view()))).collect();
        let place = |wanted: bool| if wanted { Output::free() } else { Output::unwanted() };
        let mut outputs: Vec<_> = node.outputs.iter().map(|o| place(o.is_some())).collect();
        node.op.eval(Inputs::new(&views), &mut outputs)?;
        let made = outputs.into_iter().zip(&node.outputs).enumerate();
        let wanted = made.filter(|(_, (_, wanted))| wanted.is_some());
        let tensors = wanted.map(|(index, (output, _))| {
            let value = output.into_value().ok_or(EvalError::NotMade { index })?;
            Ok(value.as_tensor()?.clone())
        });
        tensors.collect()
    }
}
