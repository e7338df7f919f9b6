//! A custom execution provider, which claims one operator; the CPU provider runs the rest.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::sync::Arc;

use ort_session::provider::{
    Claim, CompileError, DType, ExecutionProvider, Graph, Io, Kernel, KernelError, NodeId,
    PackStore, Prepared,
};
use ort_session::{Session, Tensor};

/// Runs Softsign, of floats: `y = x / (1 + |x|)`.
#[derive(Debug)]
struct MyProvider;

impl ExecutionProvider for MyProvider {
    fn name(&self) -> &'static str {
        "MyExecutionProvider"
    }

    /// Called for each node while the session is built. Pure and cheap.
    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim> {
        let node = graph.get_node(root)?;
        let is_ours = node.domain.is_empty() && node.op_type == "Softsign";
        let input = (*node.inputs.first()?)?;
        if !is_ours || graph.fact(input).dtype() != Some(DType::F32) {
            return None;
        }
        let mut claim = Claim::one(root, node);
        claim.in_place.clear(); // our kernel does not overwrite its input
        Some(claim)
    }

    /// Called once for each claim: chooses a kernel, and packs constants if it has any.
    fn compile(
        &self,
        _graph: &Graph,
        _claim: &Claim,
        _packs: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError> {
        Ok(Box::new(Softsign))
    }
}

#[derive(Debug)]
struct Softsign;

impl Kernel for Softsign {
    /// Called by any number of runs at once, each with its own memory and threads.
    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        let y = io.outputs[0].tensor(DType::F32, x.shape())?.into_slice::<f32>()?;
        for (y, x) in y.iter_mut().zip(x.as_slice::<f32>()?) {
            *y = x / (1.0 + x.abs());
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = "graph(x: float[n]) -> (y) {
        h = Softsign-1 (x)
        y = Mul-14 (h, x)
    }";
    let model = ort_examples::model(text, &ort_ops::registry())?;
    let session = Session::builder().provider(Arc::new(MyProvider)).commit(model)?;
    for (provider, n_steps) in session.placement() {
        println!("{provider}: {n_steps}");
    }
    let x = Tensor::from_slice(&[3], &[-1.0_f32, 0.0, 3.0])?;
    let outputs = session.run([("x", &x)])?;
    println!("{:?}", outputs[0].as_tensor()?.as_slice::<f32>()?);
    Ok(())
}
