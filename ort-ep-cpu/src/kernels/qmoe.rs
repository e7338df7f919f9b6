//! QMoE with constant weights, which stay compressed in memory. Weights are multiplied like by MatMulNBits, expert by
//! expert:
//!
//! ```text
//! for each expert e with tokens:  y[tokens] += weight[tokens] · (w₂[e] · f(w₁[e] · x[tokens] + b₁[e]) + b₂[e])
//! ```
//! In f32: an activation is computed in f64 and rounded once.

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::OpError;
use ort_kernels::gemm_nbits::{Floats, block_sums, float_variant};
use ort_ops::ops::microsoft::moe::{Gate, MoE, ROUTER_WEIGHTS, Route};
use ort_tensor::{DType, Number, Shape, collected, go_on};

use super::matmul_nbits::weights::{Operand, PackedWeights};
use super::matmul_nbits::{Left, Parts};
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, floats};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct Experts {
    cpu: Cpu,
    op: MoE,
    layers: [Layer; 2],
    n_experts: usize,
}

/// A layer of all experts.
#[derive(Debug)]
struct Layer {
    weights: PackedWeights,
    /// The columns of the result of one expert.
    n: usize,
    /// The position of the bias.
    bias: usize,
    /// The maximum number of rows for which weights are dequantized in registers.
    few_rows: usize,
}

/// Prepared state for one shape signature.
struct State {
    shape: Shape,
    n_tokens: usize,
}

/// The tokens of one expert.
#[derive(Clone, Copy)]
struct Own<'a> {
    expert: usize,
    m: usize,
    threads: &'a dyn Threads,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<MoE>() else { return Ok(None) };
    let [first, second, third] = op.layers();
    let is_taken = op.quantization.is_some()
        && compiler.are_f32(0..2)
        && [first.bias, second.bias, ROUTER_WEIGHTS]
            .into_iter()
            .all(|input| compiler.fact(input).is_none_or(|it| it.dtype() == Some(DType::F32)))
        && compiler.fact(third.weights).is_none();
    if !is_taken {
        return Ok(None);
    }
    let layer = |index| Layer::compile(compiler, &op, index);
    let (Some(first), Some(second)) = (layer(0), layer(1)) else { return Ok(None) };
    let inner = if op.gate == Gate::Apart { first.n } else { first.n / 2 };
    let [n_experts, n_second] = [&first, &second].map(|layer| layer.weights.format.n / layer.n);
    let do_fit = first.weights.format.k == second.n
        && second.weights.format.k == inner
        && n_experts == n_second;
    let kernel = Experts { cpu: compiler.cpu, op, layers: [first, second], n_experts };
    Ok(do_fit.then(|| Box::new(kernel) as Box<dyn Kernel>))
}

impl Layer {
    /// `None` if its weights are not constant, or those of an expert are not whole panels and blocks.
    fn compile(compiler: &Compiler<'_>, op: &MoE, index: usize) -> Option<Self> {
        let (at, quantization) = (op.layers()[index], op.quantization?);
        let bits = quantization.bits[index];
        let &[n_experts, n, row_bytes] = compiler.constant(at.weights)?.shape() else {
            return None;
        };
        let k = row_bytes * 8 / bits;
        // A row with one scale may have blocks of any size.
        let block = match quantization.block_size {
            Some(block) => block,
            None => [128, 64, 32, 16].into_iter().find(|&block| k.is_multiple_of(block))?,
        };
        let isa = compiler.cpu.isa;
        let nr = float_variant(isa).nr;
        if n == 0 || !n.is_multiple_of(nr) || !k.is_multiple_of(block) {
            return None;
        }
        let operand = Operand {
            bits,
            block,
            k,
            n: n_experts * n,
            table: None,
            inputs: [at.weights, at.scales, at.zero_points, usize::MAX],
            n_matrices: quantization.block_size.is_none().then_some(n_experts),
        };
        let weights = PackedWeights::compile(compiler, operand, nr)?;
        let few_rows = weights.format.few_rows(isa, false);
        Some(Self { weights, n, bias: at.bias, few_rows })
    }

    /// The numbers of scratch for the results of `m` rows, and for the sums of their blocks.
    fn room(&self, m: usize) -> [usize; 2] {
        let n_sums = if self.weights.has_zeros() { m * self.weights.format.n_blocks() } else { 0 };
        [m * self.n, n_sums].map(|len| len.next_multiple_of(16))
    }

    /// Elements of scratch per thread for up to `m` rows.
    fn scratch_len(&self, cpu: Cpu, m: usize) -> usize {
        let left = Left::Floats(Floats { a: &[], stride: 0, sums: &[] });
        let weights = self.weights.matrix([0, self.n], None);
        Parts { isa: cpu.isa, m, is_few: m <= self.few_rows, weights, left }.scratch_len()
    }

    /// The layer of an expert on rows of `a`.
    fn apply(
        &self,
        (cpu, own): (Cpu, Own<'_>),
        (a, bias): (&[f32], Option<&[f32]>),
        y: &mut [f32],
        (sums, scratch): (&mut [f32], &mut [u8]),
    ) {
        let (isa, Own { expert, m, threads }) = (cpu.isa, own);
        let format = &self.weights.format;
        let (k, is_few) = (format.k, m <= self.few_rows);
        if is_few && self.weights.has_zeros() {
            let rows = a.chunks_exact(k).zip(sums.chunks_exact_mut(format.n_blocks()));
            rows.take(m).for_each(|(a, sums)| block_sums(isa, a, format.block, sums));
        }
        let bias = bias.map(|bias| &bias[expert * self.n..][..self.n]);
        let weights = self.weights.matrix([expert, self.n], bias);
        let left = Left::Floats(Floats { a: &a[..m * k], stride: k, sums });
        let cost = self.n.saturating_mul(k).saturating_mul(m + 3);
        let parts = Parts { isa, m, is_few, weights, left };
        parts.compute(cost, &mut y[..m * self.n], (threads, scratch));
    }
}

impl Experts {
    /// The inputs of the second layer from the outputs of the first.
    fn between(&self, first: &[f32], to: &mut [f32]) {
        let [n, inner] = [self.layers[0].n, self.layers[1].weights.format.k];
        for (row, to) in first.chunks_exact(n).zip(to.chunks_exact_mut(inner)) {
            let element = |i| f32::from_f64(self.op.activation.element(self.op.gate, row, i));
            to.iter_mut().enumerate().for_each(|(i, to)| *to = element(i));
        }
    }

    /// The numbers of scratch for `m` tokens: themselves, both layers, and what is between them.
    fn room(&self, m: usize) -> [usize; 6] {
        let [hidden, inner] = [0, 1].map(|layer: usize| self.layers[layer].weights.format.k);
        let [first, first_sums] = self.layers[0].room(m);
        let [second, second_sums] = self.layers[1].room(m);
        let [hidden, inner] = [hidden, inner].map(|width| (m * width).next_multiple_of(16));
        [hidden, first_sums, first, inner, second_sums, second]
    }

    /// The routes to each expert.
    fn routes(&self, io: &Io<'_, '_>) -> Result<Vec<ort_tensor::Room<Route>>, KernelError> {
        let wide = |x: &[f32]| collected(x.iter().map(|&x| f64::from(x)));
        let logits = wide(io.inputs.tensor(1)?.as_slice()?)?;
        let weights = match io.inputs.optional_tensor(ROUTER_WEIGHTS)? {
            Some(weights) => Some(wide(weights.as_slice()?)?),
            None => None,
        };
        Ok(self.op.routing.routes(&logits, weights.as_deref(), self.n_experts)?)
    }
}

impl Kernel for Experts {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, logits, ..] = shapes else { return Err(KernelError::ForeignState) };
        let n_tokens = x.split_last().map_or(0, |(_, tokens)| tokens.iter().product());
        let router = [n_tokens, self.n_experts];
        // An absent input has no dimensions.
        let has = |input: usize, expected: &[usize]| {
            shapes.get(input).is_none_or(|found| found.is_empty() || *found == expected)
        };
        let have_biases =
            self.layers.iter().all(|layer| has(layer.bias, &[self.n_experts, layer.n]));
        let is_routed = logits == router && has(ROUTER_WEIGHTS, &router);
        if x.last() != Some(&self.layers[1].n) || !is_routed || !have_biases {
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
        let hidden = self.layers[1].n;
        let routes = self.routes(io)?;
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let bias = |layer: usize| match io.inputs.optional_tensor(self.layers[layer].bias)? {
            Some(bias) => Ok::<_, KernelError>(Some(bias.as_slice::<f32>()?)),
            None => Ok(None),
        };
        let biases = [bias(0)?, bias(1)?];
        let y = io.outputs[0].tensor(DType::F32, shape)?.into_slice::<f32>()?;
        y.fill(0.0);
        let room = self.room(*n_tokens);
        let n_bytes = room.iter().sum::<usize>() * size_of::<f32>();
        let (own, scratch) = io.scratch.split_at_mut(n_bytes);
        let mut rest = floats(own);
        let [a, first_sums, first, inner, second_sums, second] = room.map(|len| {
            let (now, later) = std::mem::take(&mut rest).split_at_mut(len);
            rest = later;
            now
        });
        for (expert, routes) in routes.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            go_on()?;
            let m = routes.len();
            let own = (self.cpu, Own { expert, m, threads: io.threads });
            for (&(token, _), a) in routes.iter().zip(a.chunks_exact_mut(hidden)) {
                a.copy_from_slice(&x[token * hidden..][..hidden]);
            }
            let [layer, last] = &self.layers;
            layer.apply(own, (a, biases[0]), first, (first_sums, scratch));
            self.between(&first[..m * layer.n], inner);
            last.apply(own, (inner, biases[1]), second, (second_sums, scratch));
            for (&(token, weight), result) in routes.iter().zip(second.chunks_exact(hidden)) {
                let (weight, y) = (f32::from_f64(weight), &mut y[token * hidden..][..hidden]);
                y.iter_mut().zip(result).for_each(|(y, result)| *y += weight * result);
            }
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        match float_variant(self.cpu.isa).nr {
            32 => "nbits_f32/avx512_4x32",
            16 => "nbits_f32/avx2_2x16",
            _ => "nbits_f32/generic",
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, bytes, floats};

    const N_EXPERTS: usize = 5;

    /// A mixture with one scale per row, or per block; optional inputs are there, or absent.
    fn case([m, hidden, inner]: [usize; 3], bits: usize, block: usize, is_full: bool) -> Case {
        let int = |size: usize| Attr::Int(i64::try_from(size).unwrap());
        let first = 2 * inner;
        // Weights are at most a quarter.
        let scale: fn(u8) -> f32 = match bits {
            2 => |bits| f32::from(bits) / (4 * 2 * 255) as f32,
            4 => |bits| f32::from(bits) / (4 * 8 * 255) as f32,
            _ => |bits| f32::from(bits) / (4 * 128 * 255) as f32,
        };
        let by_row = |n: usize, k: usize| match block {
            0 => vec![N_EXPERTS, n],
            _ => vec![N_EXPERTS, n, k / block],
        };
        let packed = |mut shape: Vec<usize>| {
            let last = shape.last_mut().unwrap();
            *last = (*last * bits).div_ceil(8);
            bytes(&shape, |bits| bits)
        };
        let layer = |case: Case, n: usize, k: usize| {
            let case = case.constant(packed(vec![N_EXPERTS, n, k]));
            let case = case.constant(bytes(&by_row(n, k), scale));
            if is_full { case.input(floats(&[N_EXPERTS, n])) } else { case.absent() }
        };
        let case = Case::new("QMoE", 1)
            .domain("com.microsoft")
            .attr("k", int(2))
            .attr("expert_weight_bits", int(bits))
            .attr("block_size", int(block))
            .attr("activation_type", Attr::String("swiglu".into()))
            .attr("swiglu_fusion", int(1))
            .input(floats(&[m, hidden]))
            .input(floats(&[m, N_EXPERTS]));
        let case = layer(layer(case, first, hidden), hidden, inner);
        if !is_full {
            return case;
        }
        let case = case.absent().absent().absent();
        let case = case.constant(packed(by_row(first, hidden)));
        let case = case.constant(packed(by_row(hidden, inner))).absent();
        case.input(bytes(&[m, N_EXPERTS], |bits| f32::from(bits) / 256.0))
    }

    #[test]
    fn results_equal_eval() {
        // Between the layers are numbers of about 25: 192 products of them and weights are below 1200.
        let is_close = |found: f64, expected: f64| {
            (found - expected).abs() <= 1200.0 * f64::from(f32::EPSILON) * (1.0 + expected.abs())
        };
        for [m, hidden, inner] in [[1, 64, 96], [7, 96, 64], [150, 64, 192], [0, 64, 64]] {
            for bits in [2, 4, 8] {
                for block in [0, 16, 32] {
                    for is_full in [false, true] {
                        case([m, hidden, inner], bits, block, is_full).check(is_close);
                    }
                }
            }
        }
    }

    #[test]
    fn rows_of_partial_panels_have_no_kernel() {
        assert_eq!(case([1, 64, 96], 4, 32, true).variant().split('/').next(), Some("nbits_f32"));
        assert_eq!(case([1, 48, 33], 8, 0, true).variant(), "eval");
    }
}
