//! How kernel tests run a node: compiled for every instruction set, on one to three threads, with
//! constant and non-constant weights, in place where the claim allows it, and outputs in memory that holds the input
//! they extend; compared with the operator's own `eval`.

mod closeness;
mod growing;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use ort_ep::{Claim, ExecutionProvider, Io, Kernel, PackStore, Packed, Reader, Recipe, Threads};
use ort_graph::{Attr, Attrs, Fact, Graph, NewNode, NodeId, Registry, ValueInfo};
use ort_kernels::Isa;
use ort_tensor::{AlignedBuf, Element, Inputs, Output, Tensor, Value, ValueView, n_elements};

use self::closeness::{Tolerance, compare};
pub(crate) use self::closeness::{bound_of_tiles, exact, relative, ulps, within};
use crate::{CpuOptions, CpuProvider, IsaChoice};

/// One node to run.
#[derive(Clone, Default)]
pub(crate) struct Case {
    domain: &'static str,
    op_type: &'static str,
    since_version: i32,
    attrs: Attrs,
    inputs: Vec<Option<(Tensor, Kind)>>,
    n_outputs: usize,
    /// Optional outputs that the node omits.
    unwanted: &'static [usize],
    options: CpuOptions,
}

/// The role of an input in the graph.
#[derive(Clone, Copy)]
enum Kind {
    Given,
    /// Constant in one run, a graph input in another.
    Weight,
    Constant,
}

impl Case {
    /// A node of ai.onnx with one output.
    pub(crate) fn new(op_type: &'static str, since_version: i32) -> Self {
        Self { op_type, since_version, n_outputs: 1, ..Self::default() }
    }

    pub(crate) fn domain(self, domain: &'static str) -> Self {
        Self { domain, ..self }
    }

    pub(crate) fn version(self, since_version: i32) -> Self {
        Self { since_version, ..self }
    }

    pub(crate) fn attr(self, name: &str, attr: Attr) -> Self {
        Self { attrs: self.attrs.with(name, attr), ..self }
    }

    /// Adds an input that every run supplies.
    pub(crate) fn input(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some((tensor, Kind::Given)));
        self
    }

    /// Adds an input that may be constant.
    pub(crate) fn weight(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some((tensor, Kind::Weight)));
        self
    }

    /// Adds an input that is constant in every run.
    pub(crate) fn constant(mut self, tensor: Tensor) -> Self {
        self.inputs.push(Some((tensor, Kind::Constant)));
        self
    }

    pub(crate) fn absent(mut self) -> Self {
        self.inputs.push(None);
        self
    }

    pub(crate) fn outputs(self, n_outputs: usize) -> Self {
        Self { n_outputs, ..self }
    }

    /// Omits these outputs.
    pub(crate) fn unwanted(self, unwanted: &'static [usize]) -> Self {
        Self { unwanted, ..self }
    }

    /// Runs it with these options, still for every instruction set.
    pub(crate) fn options(self, options: CpuOptions) -> Self {
        Self { options, ..self }
    }

    /// Runs the node in every configuration; each must match `eval` according to `is_close`, and
    /// any number of threads must give the same bits.
    pub(crate) fn check(self, is_close: impl Fn(f64, f64) -> bool) {
        let registry = ort_ops::registry();
        let ways = [(true, Packs::Made), (true, Packs::Declined), (false, Packs::Made)];
        for (has_constants, packs) in ways {
            let (graph, id) = self.graph(&registry, has_constants);
            let expected = self.expected(&graph, id);
            for isa in Isa::all() {
                let isa: IsaChoice = isa.name().parse().unwrap();
                let options = CpuOptions { isa, max_threads: Some(3), ..self.options };
                let provider = CpuProvider::new(options).unwrap();
                let claim = provider.claim(&graph, id).unwrap();
                let kernel = packs.compile(&provider, &graph, &claim);
                let has_kernel = packs == Packs::Declined || kernel.variant() != "eval";
                assert!(has_kernel, "{} has no kernel", self.op_type);
                self.check_kernel(&*kernel, &claim, &expected, &is_close);
            }
        }
    }

    /// The error of a run of the node.
    pub(crate) fn error(&self) -> ort_ep::KernelError {
        let (graph, id) = self.graph(&ort_ops::registry(), true);
        let provider = CpuProvider::new(self.options).unwrap();
        let claim = provider.claim(&graph, id).unwrap();
        let kernel = Packs::Made.compile(&provider, &graph, &claim);
        let shapes = self.shapes();
        let shapes: Vec<_> = shapes.iter().map(Vec::as_slice).collect();
        let prepared = kernel.prepare(&shapes).unwrap();
        let mut scratch = AlignedBuf::zeroed(prepared.scratch_bytes);
        let views: Vec<_> = self.views().collect();
        let outputs = &mut (0..self.n_outputs).map(|_| Output::free()).collect::<Vec<_>>()[..];
        let (inputs, scratch, threads) = (Inputs::new(&views), scratch.as_mut(), &StdThreads(1));
        kernel.run(&prepared, &mut Io { inputs, outputs, scratch, threads }).unwrap_err()
    }

    /// The variant selected with these options and constant weights.
    pub(crate) fn variant(&self) -> &'static str {
        let (graph, id) = self.graph(&ort_ops::registry(), true);
        let provider = CpuProvider::new(self.options).unwrap();
        let claim = provider.claim(&graph, id).unwrap();
        Packs::Made.compile(&provider, &graph, &claim).variant()
    }

    fn check_kernel(
        &self,
        kernel: &dyn Kernel,
        claim: &Claim,
        expected: &[Tensor],
        is_close: &Tolerance<'_>,
    ) {
        let what = format!("{} by {} of {:?}", self.op_type, kernel.variant(), self.shapes());
        let first = self.run(kernel, expected, None, 1);
        let pairs = first.iter().zip(expected).enumerate();
        for (i, (found, expected)) in pairs.filter(|(i, _)| !self.unwanted.contains(i)) {
            assert_eq!(found.shape(), expected.shape(), "output {i}: {what}");
            compare(found, expected, is_close, &format!("output {i}: {what}"));
        }
        for n_threads in [2, 3] {
            let found = self.run(kernel, expected, None, n_threads);
            assert_eq!(bits(&found), bits(&first), "{n_threads} threads: {what}");
        }
        self.check_growing(kernel, &first, &what);
        for &(input, output) in &claim.in_place {
            let fits = |tensor: &Tensor| {
                tensor.shape() == expected[output].shape()
                    && tensor.dtype() == expected[output].dtype()
            };
            let given = self.inputs.get(input).and_then(Option::as_ref);
            if given.is_some_and(|(tensor, _)| fits(tensor)) {
                let found = self.run(kernel, expected, Some((input, output)), 2);
                assert_eq!(bits(&found), bits(&first), "in place of {input}: {what}");
            }
        }
    }

    /// A graph that contains only the node.
    fn graph(&self, registry: &Registry, has_constants: bool) -> (Graph, NodeId) {
        let mut graph = Graph::new();
        let inputs = self.inputs.iter().enumerate().map(|(i, input)| {
            let (tensor, kind) = input.as_ref()?;
            let name = format!("input{i}");
            let is_constant = match kind {
                Kind::Given => false,
                Kind::Weight => has_constants,
                Kind::Constant => true,
            };
            Some(match is_constant {
                true => graph.add_constant(name, tensor.clone()).unwrap(),
                false => {
                    let fact = Fact::shaped(tensor.dtype(), tensor.shape());
                    graph.add_value(name, fact).unwrap()
                }
            })
        });
        let inputs = inputs.collect();
        let outputs = (0..self.n_outputs)
            .map(|i| match self.unwanted.contains(&i) {
                true => None,
                false => Some(graph.add_value(format!("output{i}"), Fact::UNKNOWN).unwrap()),
            })
            .collect();
        let node = NewNode {
            domain: self.domain.to_owned(),
            op_type: self.op_type.to_owned(),
            since_version: self.since_version,
            inputs,
            outputs,
            attrs: self.attrs.clone(),
            ..NewNode::default()
        };
        let id = graph.add_node(node, registry).unwrap();
        (graph, id)
    }

    fn expected(&self, graph: &Graph, id: NodeId) -> Vec<Tensor> {
        let mut outputs: Vec<_> = (0..self.n_outputs).map(|_| Output::free()).collect();
        let views: Vec<_> = self.views().collect();
        graph.node(id).op.eval(Inputs::new(&views), &mut outputs).unwrap();
        let tensor = |output: Output<'_>| match output.into_value() {
            Some(Value::Tensor(tensor)) => tensor,
            _ => panic!("an output was not computed"),
        };
        outputs.into_iter().map(tensor).collect()
    }

    /// Runs the kernel with scratch and outputs full of NaN, without the constants that it does not read.
    fn run(
        &self,
        kernel: &dyn Kernel,
        expected: &[Tensor],
        in_place: Option<(usize, usize)>,
        n_threads: usize,
    ) -> Vec<Tensor> {
        let shapes = self.shapes();
        let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let prepared = kernel.prepare(&shapes).unwrap();
        let mut scratch = AlignedBuf::zeroed(prepared.scratch_bytes);
        scratch.as_mut().fill(0xff);
        let released = self.released();
        let mut views: Vec<_> = self.views().collect();
        for (i, view) in views.iter_mut().enumerate().filter(|&(i, _)| !kernel.reads(i)) {
            *view = released[i].as_ref().map(|tensor| ValueView::Tensor(tensor.view()));
        }
        let mut made: Vec<Tensor> = expected.iter().map(garbage).collect();
        let mut outputs: Vec<_> = made.iter_mut().map(|y| Output::planned(y.view_mut())).collect();
        self.unwanted.iter().for_each(|&i| outputs[i] = Output::unwanted());
        let mut data = in_place.and_then(|(input, _)| self.inputs[input].clone());
        if let (Some((input, output)), Some((data, _))) = (in_place, &mut data) {
            views[input] = None;
            outputs[output] = Output::in_place(data.view_mut(), input);
        }
        let (inputs, threads) = (Inputs::new(&views), &StdThreads(n_threads));
        // As in a session, empty scratch may be unaligned.
        let scratch = if prepared.scratch_bytes == 0 { &mut [] } else { scratch.as_mut() };
        let mut io = Io { inputs, outputs: &mut outputs, scratch, threads };
        kernel.run(&prepared, &mut io).unwrap();
        drop(outputs);
        in_place.zip(data).into_iter().for_each(|((_, output), (data, _))| made[output] = data);
        made
    }

    fn views(&self) -> impl Iterator<Item = Option<ValueView<'_>>> {
        self.inputs.iter().map(|input| input.as_ref().map(|(t, _)| ValueView::Tensor(t.view())))
    }

    /// The inputs with released constants.
    fn released(&self) -> Vec<Option<Tensor>> {
        let released = |(t, _): &(Tensor, Kind)| Tensor::released(t.dtype(), t.shape()).unwrap();
        self.inputs.iter().map(|input| input.as_ref().map(released)).collect()
    }

    fn shapes(&self) -> Vec<Vec<usize>> {
        let shape = |(tensor, _): &(Tensor, Kind)| tensor.shape().to_vec();
        self.inputs.iter().map(|input| input.as_ref().map(shape).unwrap_or_default()).collect()
    }
}

/// Pseudo-random integers from −3 to 3: sums of their products are exact in f32.
pub(crate) fn integers(shape: &[usize]) -> Tensor {
    values(shape, |i| (i % 7) as f32 - 3.0)
}

/// Indices into axes of these dimensions in turn, from either end, with repetitions.
pub(crate) fn indices<I: Element + TryFrom<i64>>(shape: &[usize], dims: &[usize]) -> Tensor {
    let index = |i: usize| {
        let dim = i64::try_from(dims[i % dims.len()]).unwrap();
        let number = i64::try_from(i * 7919 + i * i * 31).unwrap();
        I::try_from(number % (2 * dim) - dim).ok().unwrap()
    };
    let n = n_elements(shape).unwrap();
    Tensor::from_slice(shape, &(0..n).map(index).collect::<Vec<_>>()).unwrap()
}

/// Pseudo-random bytes.
pub(crate) fn bytes<T: Element>(shape: &[usize], from_bits: fn(u8) -> T) -> Tensor {
    values(shape, |i| from_bits(i.to_le_bytes()[0]))
}

/// Pseudo-random numbers from −4 to 4.
pub(crate) fn floats(shape: &[usize]) -> Tensor {
    values(shape, |i| (i % 8192) as f32 / 1024.0 - 4.0)
}

/// `f` of pseudo-random numbers.
fn values<T: Element>(shape: &[usize], f: impl Fn(usize) -> T) -> Tensor {
    let n = n_elements(shape).unwrap();
    // The high bits of a linear congruence (Knuth's multiplier).
    let scramble = |i: usize| (i + n).wrapping_mul(6_364_136_223_846_793_005) >> 33;
    Tensor::from_slice(shape, &(0..n).map(|i| f(scramble(i))).collect::<Vec<_>>()).unwrap()
}

/// Threads of the standard library.
#[derive(Debug)]
pub(crate) struct StdThreads(pub(crate) usize);

impl Threads for StdThreads {
    fn count(&self) -> usize {
        self.0
    }

    fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                match next.fetch_add(1, Ordering::Relaxed) {
                    i if i < n => part(i),
                    _ => return,
                }
            }
        };
        std::thread::scope(|scope| {
            (1..self.0).for_each(|_| drop(scope.spawn(work)));
            work();
        });
    }
}

/// Whether constants are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packs {
    Made,
    Declined,
}

impl Packs {
    /// The kernel of a claim. What only runs read, it cannot read when it is compiled.
    pub(crate) fn compile(
        self,
        provider: &CpuProvider,
        graph: &Graph,
        claim: &Claim,
    ) -> Box<dyn Kernel> {
        let store = Store { packs: self, later: Mutex::default() };
        let kernel = provider.compile(graph, claim, &store).unwrap();
        for (packed, bytes) in store.later.into_inner().unwrap() {
            packed.set(bytes);
        }
        kernel
    }
}

/// Packed constants, and the bytes of those that runs read.
struct Store {
    packs: Packs,
    later: Mutex<Vec<(Packed, Bytes)>>,
}

impl PackStore for Store {
    fn pack(
        &self,
        constant: &ValueInfo,
        recipe: &Recipe,
        reader: Reader,
        pack: &mut dyn FnMut(&Tensor, &mut [u8]),
    ) -> Option<Packed> {
        if self.packs == Packs::Declined {
            return None;
        }
        let mut buf = AlignedBuf::zeroed(recipe.n_bytes);
        pack(constant.fact.constant.as_ref()?, buf.as_mut());
        let bytes = Bytes::from_owner(buf);
        if reader == Reader::Kernel {
            return Some(Packed::new(bytes));
        }
        let packed = Packed::default();
        self.later.lock().unwrap().push((packed.clone(), bytes));
        Some(packed)
    }
}

fn garbage(like: &Tensor) -> Tensor {
    let mut tensor = Tensor::zeros(like.dtype(), like.shape()).unwrap();
    tensor.view_mut().into_bytes().unwrap().fill(0xff);
    tensor
}

fn bits(tensors: &[Tensor]) -> Vec<&[u8]> {
    tensors.iter().map(|tensor| tensor.view().as_bytes().unwrap()).collect()
}
