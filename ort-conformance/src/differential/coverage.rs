//! Which kernels ran: a provider that delegates to the CPU provider, and counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ort_ep::{
    Claim, CompileError, DenormalsMet, ExecutionProvider, Io, Kernel, KernelError, Layout,
    PackStore, Prepared,
};
use ort_ep_cpu::CpuProvider;
use ort_graph::{Graph, NodeId};

/// How often each variant of each kernel ran.
#[derive(Clone, Debug, Default)]
pub struct Coverage(Arc<Mutex<BTreeMap<(&'static str, &'static str), u64>>>);

/// The CPU provider, with a count of runs.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) cpu: CpuProvider,
    pub(crate) coverage: Coverage,
}

/// A kernel, with a count of runs.
#[derive(Debug)]
struct CountedKernel {
    kernel: Box<dyn Kernel>,
    name: &'static str,
    coverage: Coverage,
}

impl Coverage {
    /// How often each ran: kernel, variant, number.
    pub fn counts(&self) -> Vec<(&'static str, &'static str, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(&(kernel, variant), &n)| (kernel, variant, n)).collect()
    }

    /// The kernels of the CPU provider that never ran.
    pub fn missing(&self) -> Vec<&'static str> {
        let counts = self.counts();
        let has_run = |name: &&str| counts.iter().any(|(kernel, ..)| kernel == name);
        CpuProvider::kernels().filter(|name| !has_run(name)).collect()
    }

    fn add(&self, kernel: &'static str, variant: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((kernel, variant)).or_default() += 1;
    }
}

impl ExecutionProvider for Counted {
    fn name(&self) -> &'static str {
        self.cpu.name()
    }

    fn preferred_layout(&self) -> Layout {
        self.cpu.preferred_layout()
    }

    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim> {
        self.cpu.claim(graph, root)
    }

    fn compile(
        &self,
        graph: &Graph,
        claim: &Claim,
        packs: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError> {
        let (name, kernel) = self.cpu.compile_named(graph, claim, packs)?;
        Ok(Box::new(CountedKernel { kernel, name, coverage: self.coverage.clone() }))
    }

    fn packing(&self) -> Option<String> {
        self.cpu.packing()
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        self.cpu.scope(body);
    }

    fn watch(&self, body: &mut dyn FnMut()) -> Option<DenormalsMet> {
        self.cpu.watch(body)
    }
}

impl Kernel for CountedKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        self.kernel.prepare(shapes)
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        self.coverage.add(self.name, self.kernel.variant());
        self.kernel.run(prepared, io)
    }

    fn variant(&self) -> &'static str {
        self.kernel.variant()
    }

    fn takes(&self) -> &'static [(usize, usize)] {
        self.kernel.takes()
    }

    fn reads(&self, input: usize) -> bool {
        self.kernel.reads(input)
    }
}
