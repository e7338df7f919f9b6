//! Attention in f32: queries, keys and values are one product, of which each is some columns.

// collects are bounded: by the rank

use ort_ep::{Io, Kernel, KernelError, Packed, Prepared};
use ort_graph::OpError;
use ort_kernels::Activation;
use ort_kernels::gemm::Start;
use ort_ops::ops::microsoft::attention::{Attention, Weights};
use ort_tensor::{DType, TensorViewMut};

use super::heads::{Heads, Operands, Strides};
use super::scores::Rule;
use super::{Places, masks, seen};
use crate::cpu::floats;
use crate::epilogue::Epilogue;
use crate::kernels::{Compiled, Compiler};
use crate::product::{self, Product, pack_right};

const PLACES: Places = Places { mask: 3, bias: 5 };
/// Scratch begins with the product, in whole cache lines.
const LINE_BYTES: usize = 64;

#[derive(Debug)]
struct ProjectedKernel {
    cpu: crate::cpu::Cpu,
    op: Attention,
    /// The weights, if they are constant.
    w: Option<Packed>,
}

/// What a shape signature makes of it.
struct State {
    heads: Heads,
    product: Product,
}

pub(super) fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<Attention>() else { return Ok(None) };
    let is_there = |input| compiler.fact(input).is_some();
    let is_taken = op.weights == Weights::Float
        && op.rotary_dim.is_none()
        && !op.shares_buffer
        && compiler.are_f32(0..3)
        && ![4, 6].into_iter().any(is_there)
        && masks(compiler, PLACES);
    if !is_taken {
        return Ok(None);
    }
    let w = pack_right::<f32>(compiler, 1, false);
    Ok(Some(Box::new(ProjectedKernel { cpu: compiler.cpu, op, w })))
}

impl ProjectedKernel {
    fn state(&self, shapes: &[&[usize]]) -> Result<State, KernelError> {
        let misfit = |left: &[usize], right: &[usize]| {
            let (left, right) = (left.to_vec(), right.to_vec());
            KernelError::Op(OpError::Shapes { what: "input and weights of Attention", left, right })
        };
        let &[x, w, ..] = shapes else { return Err(KernelError::ForeignState) };
        let (&[batch, len, depth], &[w_depth, width]) = (x, w) else { return Err(misfit(x, w)) };
        let n = self.op.num_heads;
        let [q, k, v] = self.op.qkv_hidden_sizes.unwrap_or([width / 3; 3]);
        let is_whole = q == k && q + k + v == width && q % n == 0 && v % n == 0;
        let bias = shapes.get(2).copied().unwrap_or_default();
        if depth != w_depth || !is_whole || !(bias.is_empty() || bias == [width]) {
            return Err(misfit(x, w));
        }
        let &Attention { scale, mask_filter_value: filter, unidirectional: is_causal, .. } =
            &self.op;
        let heads = Heads {
            cpu: self.cpu,
            batch,
            heads: n,
            shared: 1,
            q_len: len,
            kv_len: len,
            size: q / n,
            v_size: v / n,
            q: Strides::joined([len, width, q / n]),
            k: Strides::joined([len, width, q / n]),
            v: Strides::joined([len, width, v / n]),
            is_joined: true,
            bias: None,
            has_mask: false,
            rule: Rule { filter, ..Rule::of_rows(scale, q / n, is_causal) },
        };
        let product = Product {
            cpu: self.cpu,
            m: batch * len,
            n: width,
            k: depth,
            a: [depth, 1],
            b: [width, 1],
            batch: [(1, 0, 0)].into_iter().collect(),
            is_exchanged: false,
        };
        Ok(State { heads: seen(heads, shapes, PLACES)?, product })
    }
}

impl State {
    /// The bytes of the product.
    fn n_bytes(&self) -> usize {
        (self.product.m * self.product.n * size_of::<f32>()).next_multiple_of(LINE_BYTES)
    }
}

impl Kernel for ProjectedKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let state = self.state(shapes)?;
        let len = state.product.scratch_len().max(state.heads.scratch_len());
        let scratch_bytes = state.n_bytes() + self.cpu.scratch_bytes(len);
        Ok(Prepared::new(state).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let State { heads, product } = state;
        let inputs = io.inputs;
        let shape = [heads.batch, heads.q_len, heads.heads * heads.v_size];
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, &shape)?)?;
        let (projected, scratch) = io.scratch.split_at_mut(state.n_bytes());
        let projected = &mut floats(projected)[..product.m * product.n];
        let bias = inputs.optional_tensor(2)?.map(|bias| bias.as_slice()).transpose()?;
        let operands = product::Operands {
            a: inputs.tensor(0)?.as_slice()?,
            alpha: 1.0,
            b: match &self.w {
                Some(packed) => bytemuck::cast_slice(packed.bytes()),
                None => inputs.tensor(1)?.as_slice()?,
            },
            is_packed: self.w.is_some(),
            start: bias.map_or(Start::Zero, Start::ByColumn),
            epilogue: Epilogue::Fused(Activation::None),
        };
        product.run(&operands, projected, (io.threads, &mut *scratch), |_| {});
        let at = |column: usize| projected.get(column..).unwrap_or_default();
        let width = heads.heads * heads.size;
        let mut operands =
            Operands { q: at(0), k: at(width), v: at(2 * width), ..Operands::default() };
        operands.read_masks(inputs, PLACES)?;
        heads.run(&operands, y, (io.threads, scratch));
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != 1 || self.w.is_none()
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "attention_f32")
    }
}
