//! MoE in f32, and what it shares with QMoE: expert by expert, the tokens of an expert are gathered and multiplied at once.
//!
//! ```text
//! for each expert e with tokens:  y[tokens] += weight[tokens] · (w₂[e] · f(w₁[e] · x[tokens] + b₁[e]) + b₂[e])
//! ```

mod activation;
mod float_layer;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::OpError;
use ort_kernels::Isa;
use ort_ops::ops::microsoft::moe::{Gate, MoE, ROUTER_WEIGHTS, Route};
use ort_tensor::{DType, Inputs, Number, Room, Shape, collected, go_on};

use self::activation::TILE;
use self::float_layer::FloatLayer;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, floats};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// A mixture of experts.
#[derive(Debug)]
pub(super) struct Experts<L> {
    pub(super) cpu: Cpu,
    pub(super) op: MoE,
    pub(super) layers: [L; 2],
    pub(super) n_experts: usize,
}

/// A layer of all experts: `y = x·wᵀ + bias`.
pub(super) trait Layer: Debug + Send + Sync {
    /// The name of its kernel for an instruction set.
    fn variant(isa: Isa) -> &'static str;

    /// The rows and columns of the weights of one expert.
    fn size(&self) -> [usize; 2];

    /// The position of the bias.
    fn bias(&self) -> usize;

    /// Whether runs read an input: weights may be packed.
    fn reads(&self, input: usize) -> bool;

    /// The numbers of scratch that all threads share, for `m` tokens.
    fn shared_len(&self, _m: usize) -> usize {
        0
    }

    /// Elements of scratch per thread for up to `m` tokens.
    fn scratch_len(&self, cpu: Cpu, m: usize) -> usize;

    /// The layer of an expert on the rows of an operand, with a bias.
    fn apply(
        &self,
        own: Own<'_>,
        operands: (&[f32], Option<&[f32]>),
        y: &mut [f32],
        scratch: (&mut [f32], &mut [u8]),
    ) -> Result<(), KernelError>;
}

/// The tokens of one expert.
#[derive(Clone, Copy)]
pub(super) struct Own<'a> {
    pub(super) cpu: Cpu,
    pub(super) expert: usize,
    pub(super) m: usize,
    pub(super) inputs: Inputs<'a>,
    pub(super) threads: &'a dyn Threads,
}

/// Prepared state for one shape signature.
struct State {
    shape: Shape,
    n_tokens: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<MoE>().filter(|op| op.quantization.is_none()) else {
        return Ok(None);
    };
    if !is_f32(compiler, &op) {
        return Ok(None);
    }
    let layer = |index| FloatLayer::compile(compiler, &op, index);
    let (Some(first), Some(second)) = (layer(0), layer(1)) else { return Ok(None) };
    let n_experts = [first.n_experts, second.n_experts];
    Ok(Experts::kernel(compiler.cpu, op, [first, second], n_experts))
}

/// Whether tokens, their routes and biases are f32, and there are two layers.
pub(super) fn is_f32(compiler: &Compiler<'_>, op: &MoE) -> bool {
    let [first, second, third] = op.layers();
    let is_f32 = |input| compiler.fact(input).is_none_or(|it| it.dtype() == Some(DType::F32));
    let has_weights = op.quantization.is_some() && !is_f32(ROUTER_WEIGHTS);
    compiler.are_f32(0..2)
        && is_f32(first.bias)
        && is_f32(second.bias)
        && !has_weights
        && compiler.fact(third.weights).is_none()
}

impl<L: Layer + 'static> Experts<L> {
    /// The kernel for layers of these numbers of experts, if they fit each other.
    pub(super) fn kernel(
        cpu: Cpu,
        op: MoE,
        layers: [L; 2],
        n_experts: [usize; 2],
    ) -> Option<Box<dyn Kernel>> {
        let [[n_first, hidden], [n_second, k_second]] = [layers[0].size(), layers[1].size()];
        let inner = if op.gate == Gate::Apart { n_first } else { n_first / 2 };
        let do_fit = hidden == n_second && k_second == inner && n_experts[0] == n_experts[1];
        let kernel = Self { cpu, op, layers, n_experts: n_experts[0] };
        do_fit.then(|| Box::new(kernel) as Box<dyn Kernel>)
    }

    /// The numbers of scratch for `m` tokens: themselves, both layers, and what is between them.
    fn room(&self, m: usize) -> [usize; 6] {
        let [[first, hidden], [second, inner]] = [self.layers[0].size(), self.layers[1].size()];
        // Such a size is not allocated.
        let len = |n: usize| m.saturating_mul(n).min(usize::MAX >> 8);
        let [hidden, first, inner, second] = [hidden, first, inner, second].map(len);
        let [first_own, second_own] = [0, 1].map(|layer: usize| self.layers[layer].shared_len(m));
        [hidden, first_own, first, inner, second_own, second].map(|n| n.next_multiple_of(16))
    }

    /// The routes to each expert.
    fn routes(&self, io: &Io<'_, '_>) -> Result<Vec<Room<Route>>, KernelError> {
        let wide = |x: &[f32]| collected(x.iter().map(|&x| f64::from(x)));
        let logits = wide(io.inputs.tensor(1)?.as_slice()?)?;
        let weights = match self.op.quantization {
            Some(_) => io.inputs.optional_tensor(ROUTER_WEIGHTS)?,
            None => None,
        };
        let weights = match weights {
            Some(weights) => Some(wide(weights.as_slice()?)?),
            None => None,
        };
        Ok(self.op.routing.routes(&logits, weights.as_deref(), self.n_experts)?)
    }

    /// The inputs of the second layer from the outputs of the first.
    fn between(&self, first: &[f32], to: &mut [f32]) {
        let ([n, _], [_, inner]) = (self.layers[0].size(), self.layers[1].size());
        for (row, to) in first.chunks_exact(n).zip(to.chunks_exact_mut(inner)) {
            for (i, to) in to.chunks_mut(TILE).enumerate() {
                activation::piece(
                    self.cpu.isa,
                    (self.op.activation, self.op.gate),
                    (row, i * TILE),
                    to,
                );
            }
        }
    }
}

impl<L: Layer + 'static> Kernel for Experts<L> {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, logits, ..] = shapes else { return Err(KernelError::ForeignState) };
        let n_tokens = x.split_last().map_or(0, |(_, tokens)| tokens.iter().product());
        let router = [n_tokens, self.n_experts];
        // An absent input has no dimensions.
        let has = |input: usize, expected: &[usize]| {
            shapes.get(input).is_none_or(|found| found.is_empty() || *found == expected)
        };
        let has_bias = |layer: &L| has(layer.bias(), &[self.n_experts, layer.size()[0]]);
        let is_routed = self.op.quantization.is_none() || has(ROUTER_WEIGHTS, &router);
        let is_routed = is_routed && logits == router && self.op.routing.k <= self.n_experts;
        let hidden = self.layers[1].size()[0];
        if x.last() != Some(&hidden) || !is_routed || !self.layers.iter().all(has_bias) {
            let (left, right) = (x.to_vec(), logits.to_vec());
            let what = "tokens, their router logits and weights, and biases";
            return Err(KernelError::Op(OpError::Shapes { what, left, right }));
        }
        let own: usize = self.room(n_tokens).iter().sum();
        let per_thread = self.layers.iter().map(|layer| layer.scratch_len(self.cpu, n_tokens));
        let scratch = self.cpu.scratch_bytes(per_thread.max().unwrap_or(0));
        let scratch = own.saturating_mul(size_of::<f32>()).saturating_add(scratch);
        Ok(Prepared::new(State { shape: x.into(), n_tokens }).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, n_tokens } = prepared.state()?;
        let [layer, last] = &self.layers;
        let [n, hidden] = layer.size();
        let routes = self.routes(io)?;
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let bias = |layer: &L| match io.inputs.optional_tensor(layer.bias())? {
            Some(bias) => Ok::<_, KernelError>(Some(bias.as_slice::<f32>()?)),
            None => Ok(None),
        };
        let biases = [bias(layer)?, bias(last)?];
        let y = io.outputs[0].tensor(DType::F32, shape)?.into_slice::<f32>()?;
        y.fill(0.0);
        let room = self.room(*n_tokens);
        let n_bytes = room.iter().sum::<usize>() * size_of::<f32>();
        let (own, scratch) = io.scratch.split_at_mut(n_bytes);
        let mut rest = floats(own);
        let [a, first_own, first, inner, second_own, second] = room.map(|len| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(len);
            rest = later;
            now
        });
        for (expert, routes) in routes.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            go_on()?;
            let m = routes.len();
            let own = Own { cpu: self.cpu, expert, m, inputs: io.inputs, threads: io.threads };
            for (&(token, _), a) in routes.iter().zip(a.chunks_exact_mut(hidden)) {
                a.copy_from_slice(&x[token * hidden..][..hidden]);
            }
            layer.apply(own, (a, biases[0]), first, (first_own, scratch))?;
            self.between(&first[..m * n], inner);
            last.apply(own, (inner, biases[1]), second, (second_own, scratch))?;
            for (&(token, weight), result) in routes.iter().zip(second.chunks_exact(hidden)) {
                let (weight, y) = (f32::from_f64(weight), &mut y[token * hidden..][..hidden]);
                y.iter_mut().zip(result).for_each(|(y, result)| *y += weight * result);
            }
        }
        Ok(())
    }

    /// Constant weights are held packed.
    fn reads(&self, input: usize) -> bool {
        self.layers.iter().all(|layer| layer.reads(input))
    }

    fn variant(&self) -> &'static str {
        L::variant(self.cpu.isa)
    }
}
