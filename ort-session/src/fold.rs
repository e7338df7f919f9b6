//! Constant folding by the providers' own kernels, on all threads: a folded constant has the same bits as in a
//! run, for any number of threads.

// collects are bounded: as long as the graph's lists

use std::sync::Arc;

use ort_ep::{Claim, Io, Kernel, KernelError, Threads};
use ort_graph::{Graph, Node};
use ort_optimizer::{ConstEval, EvalError};
use ort_tensor::{
    AlignedBuf, Ending, Inputs, Output, Tensor, TensorError, Value, ValueView, ended_by, within,
};

use crate::cancel::Cancel;
use crate::packs::Packs;
use crate::run::EndingThreads;
use crate::threads::{ScopedThreads, scoped};

/// Evaluates a node with the first provider that claims it.
#[derive(Debug)]
pub(crate) struct FoldWith<'a> {
    pub(crate) threads: ScopedThreads<'a>,
    pub(crate) cancel: Option<&'a Cancel>,
    /// The memory limit for evaluating a node.
    pub(crate) max_bytes: Option<usize>,
}

impl ConstEval for FoldWith<'_> {
    fn eval(
        &self,
        graph: &Graph,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<Vec<Tensor>, EvalError> {
        let kernel = self.kernel(graph, node)?;
        let mut result = Ok(Vec::new());
        let ending = self.cancel.map(|cancel| Arc::new(cancel.clone()) as Arc<dyn Ending>);
        let ending_threads = ending.as_ref();
        let ending_threads =
            ending_threads.map(|ending| EndingThreads { threads: &self.threads, ending });
        let threads = ending_threads.as_ref().map_or(&self.threads as &dyn Threads, |it| it);
        let most = self.max_bytes.unwrap_or(usize::MAX);
        let run = || within(most, most, || run(&*kernel, node, inputs, threads));
        scoped(self.threads.providers, &mut || {
            result = match &ending {
                Some(ending) => ended_by(ending, run),
                None => run(),
            };
        });
        if self.is_cancelled() {
            return Err(boxed(TensorError::Ended.into()));
        }
        let wanted = node.outputs.iter().enumerate().zip(result.map_err(boxed)?);
        let wanted = wanted.filter(|((_, id), _)| id.is_some());
        let tensors = wanted.map(|((index, _), value)| match value {
            Some(Value::Tensor(tensor)) => Ok(tensor),
            _ => Err(EvalError::NotMade { index }),
        });
        tensors.collect()
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(Cancel::is_cancelled)
    }
}

impl FoldWith<'_> {
    fn kernel(&self, graph: &Graph, node: &Node) -> Result<Box<dyn Kernel>, EvalError> {
        let computed = node.outputs.iter().flatten().next();
        let id = computed.and_then(|&id| graph.producer(id)).map(|(id, _)| id);
        let id = id.ok_or(EvalError::NotMade { index: 0 })?;
        let taker =
            self.threads.providers.iter().find(|provider| provider.claim(graph, id).is_some());
        let taker = taker.ok_or(EvalError::NotMade { index: 0 })?;
        let kernel = taker.compile(graph, &Claim::one(id, node), &Packs::declining());
        kernel.map_err(|error| EvalError::Provider(Box::new(error)))
    }
}

/// The outputs of one run, `None` for unused ones.
fn run(
    kernel: &dyn Kernel,
    node: &Node,
    inputs: &[Option<Tensor>],
    threads: &dyn Threads,
) -> Result<Vec<Option<Value>>, KernelError> {
    let shapes: Vec<&[usize]> =
        inputs.iter().map(|t| t.as_ref().map_or(&[][..], Tensor::shape)).collect();
    let prepared = kernel.prepare(&shapes)?;
    let n_bytes = prepared.scratch_bytes;
    let scratch = AlignedBuf::try_zeroed(n_bytes);
    let mut scratch = scratch.ok_or(TensorError::NoMemory { n_bytes, limit: None })?;
    let views: Vec<_> =
        inputs.iter().map(|t| t.as_ref().map(|t| ValueView::Tensor(t.view()))).collect();
    let place = |id: &Option<_>| if id.is_some() { Output::lasting() } else { Output::unwanted() };
    let mut outputs: Vec<Output<'_>> = node.outputs.iter().map(place).collect();
    let (inputs, scratch) = (Inputs::new(&views), scratch.as_mut());
    kernel.run(&prepared, &mut Io { inputs, outputs: &mut outputs, scratch, threads })?;
    Ok(outputs.into_iter().map(Output::into_value).collect())
}

fn boxed(error: KernelError) -> EvalError {
    EvalError::Provider(Box::new(error))
}
