//! (being written)
#![allow(missing_docs, missing_debug_implementations)]
use ort_graph::*; use ort_tensor::Tensor;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)] pub enum Level { Disable, Basic, Extended, Layout, #[default] All }
#[derive(Clone, Debug, Default)] pub struct Options { pub level: Level }
#[derive(Clone, Debug, Default)] pub struct Report {}
#[derive(Clone, Debug, thiserror::Error)] #[error("x")] pub struct OptimizeError;
#[derive(Clone, Debug, thiserror::Error)] #[error("x")] pub struct EvalError;
pub trait ConstEval { fn eval(&self, graph: &Graph, node: &Node, inputs: &[Option<Tensor>]) -> Result<Vec<Tensor>, EvalError>; }
pub fn optimize(graph: Graph, _r: &Registry, _o: &Options, _e: &dyn ConstEval) -> Result<(Graph, Report), OptimizeError> { Ok((graph, Report{})) }
