//! The provider: it tries each kernel file, and falls back to the operator's `eval`.

use ort_ep::{
    Claim, CompileError, DenormalsMet, EvalKernel, ExecutionProvider, Kernel, Layout, PackStore,
};
use ort_graph::{Graph, NodeId};
use ort_kernels::{FlushDenormals, Isa, WatchDenormals};

use crate::cpu::Cpu;
use crate::kernels;
use crate::options::{CpuOptions, Denormals, UnavailableIsa};

/// The version of all recipes: increment it when the layout of packed constants or their use by nodes
/// changes. Files packed for another version are ignored.
const RECIPES: u32 = 5;

/// Runs every operator on the CPU.
#[derive(Clone, Copy, Debug)]
pub struct CpuProvider {
    cpu: Cpu,
    denormals: Denormals,
    /// Whether several nodes may be fused to one step.
    fuses: bool,
}

impl CpuProvider {
    /// The name of ONNX Runtime's CPU provider.
    pub const NAME: &'static str = "CPUExecutionProvider";

    /// A provider with these settings.
    ///
    /// # Errors
    /// If the machine does not support the requested instruction set.
    pub fn new(options: CpuOptions) -> Result<Self, UnavailableIsa> {
        // Matrix tiles always flush denormals.
        let isa = match (options.isa.resolve()?, options.denormals) {
            (Isa::Amx(token), Denormals::Preserve) => Isa::Avx512(token.into()),
            (isa, _) => isa,
        };
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        let max_threads = options.max_threads.unwrap_or_else(available).max(1);
        Ok(Self {
            cpu: Cpu {
                isa,
                max_threads,
                winograd: options.winograd,
                int8_blocks: options.int8_blocks,
            },
            denormals: options.denormals,
            fuses: options.fuses,
        })
    }

    /// The instruction set in use.
    pub const fn isa(&self) -> Isa {
        self.cpu.isa
    }

    /// The names of all kernels.
    pub fn kernels() -> impl Iterator<Item = &'static str> {
        kernels::ALL.iter().map(|&(name, _)| name)
    }

    /// The kernel of [`ExecutionProvider::compile`], and its name in [`CpuProvider::kernels`]; `eval`
    /// if none supports the claim.
    ///
    /// # Errors
    /// If the nodes do not match the claim.
    pub fn compile_named(
        &self,
        graph: &Graph,
        claim: &Claim,
        packs: &dyn PackStore,
    ) -> Result<(&'static str, Box<dyn Kernel>), CompileError> {
        let compiler = kernels::Compiler { cpu: self.cpu, graph, claim, packs };
        for (name, def) in kernels::ALL {
            if let Some(kernel) = (def.compile)(&compiler)? {
                return Ok((name, kernel));
            }
        }
        EvalKernel::compile(Self::NAME, graph, claim).map(|kernel| ("eval", kernel))
    }
}

impl ExecutionProvider for CpuProvider {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// Blocks of the vector width; 8 without vectors, as in files for such machines.
    fn preferred_layout(&self) -> Layout {
        Layout::Nchwc { block: self.cpu.block() }
    }

    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim> {
        let node = graph.get_node(root)?;
        let claims = kernels::ALL.iter().filter_map(|(_, def)| (def.claim)(graph, root));
        let mut claims = claims.filter(|claim| self.fuses || claim.nodes.len() == 1);
        claims.next().or_else(|| Some(Claim::one(root, node)))
    }

    fn compile(
        &self,
        graph: &Graph,
        claim: &Claim,
        packs: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError> {
        self.compile_named(graph, claim, packs).map(|(_, kernel)| kernel)
    }

    /// In addition to recipes, NCHWc and folded constants depend on it.
    fn packing(&self) -> Option<String> {
        let Cpu { isa, winograd, int8_blocks, .. } = self.cpu;
        let option = |is_on, text| if is_on { text } else { "" };
        Some(format!(
            "{} recipes {RECIPES} for {}{}{}{}{}",
            Self::NAME,
            isa.name(),
            option(winograd, ", winograd"),
            option(int8_blocks, ", int8 blocks"),
            option(self.fuses, ", fused steps"),
            option(self.denormals == Denormals::Preserve, ", denormals"),
        ))
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        match self.denormals {
            Denormals::Flush => {
                let _flushed = FlushDenormals::new();
                body();
            }
            Denormals::Preserve => body(),
        }
    }

    fn watch(&self, body: &mut dyn FnMut()) -> Option<DenormalsMet> {
        let watch = WatchDenormals::new();
        body();
        let met = DenormalsMet { operands: watch.met_operand(), results: watch.met_result() };
        WatchDenormals::IS_SUPPORTED.then_some(met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denormals_are_preserved_without_matrix_tiles() {
        let isa = |denormals| {
            let options = CpuOptions { denormals, ..CpuOptions::default() };
            CpuProvider::new(options).map(|provider| provider.isa())
        };
        assert_eq!(isa(Denormals::Flush), Ok(Isa::best()));
        let without = Isa::all().find(|isa| isa.amx().is_none()).unwrap();
        assert_eq!(isa(Denormals::Preserve), Ok(without));
    }
}
