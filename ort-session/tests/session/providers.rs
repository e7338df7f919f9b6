//! A second provider, which takes nothing but `Add`: the CPU is nothing special to a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_ep::{
    Claim, CompileError, ExecutionProvider, Io, Kernel, KernelError, PackStore, Prepared,
};
use ort_graph::{Graph, NodeId};
use ort_session::{ModelBytes, Session, Tensor};
use ort_tensor::DType;

use crate::model::{gated, gated_value};

/// Adds with a kernel of its own, and counts.
#[derive(Debug, Default)]
struct AddProvider {
    runs: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct AddKernel {
    runs: Arc<AtomicUsize>,
}

impl ExecutionProvider for AddProvider {
    fn name(&self) -> &'static str {
        "AddExecutionProvider"
    }

    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim> {
        let node = graph.get_node(root).filter(|node| node.op_type == "Add")?;
        // The kernel writes no output over an input.
        Some(Claim { in_place: Default::default(), ..Claim::one(root, node) })
    }

    fn compile(
        &self,
        _graph: &Graph,
        _claim: &Claim,
        _packs: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError> {
        Ok(Box::new(AddKernel { runs: self.runs.clone() }))
    }
}

impl Kernel for AddKernel {
    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let (a, b) = (io.inputs.tensor(0)?, io.inputs.tensor(1)?);
        let sum = io.outputs[0].tensor(DType::F32, a.shape())?.into_slice::<f32>()?;
        let b = b.as_slice::<f32>()?.iter().cycle();
        for ((sum, a), b) in sum.iter_mut().zip(a.as_slice::<f32>()?).zip(b) {
            *sum = a + b;
        }
        Ok(())
    }
}

#[test]
fn a_provider_runs_what_it_claims_and_the_cpu_the_rest() {
    let provider = AddProvider::default();
    let runs = provider.runs.clone();
    let builder = Session::builder().provider(Arc::new(provider));
    let session = builder.commit(ModelBytes::from_vec(gated())).unwrap();
    assert_eq!(session.placement(), [("AddExecutionProvider", 1), ("CPUExecutionProvider", 2)]);
    let data = [0.5_f32, 4.0, -1.0];
    let x = Tensor::from_slice(&[1, 3], &data).unwrap();
    for run in 1..=3 {
        let outputs = session.run([("x", &x)]).unwrap();
        let y = outputs[0].as_tensor().unwrap();
        assert_eq!(y.as_slice::<f32>().unwrap(), gated_value(&data));
        assert_eq!(runs.load(Ordering::Relaxed), run);
    }
}
