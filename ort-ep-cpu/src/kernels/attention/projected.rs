//! com.microsoft's Attention in f32: queries, keys and values are one product, of which each is some columns.
//! What does not fit together is for `eval` to tell.

// collects are bounded: by the rank

use ort_ep::{Extension, Io, Kernel, KernelError, Packed, Prepared, Threads};
use ort_graph::OpError;
use ort_kernels::Activation;
use ort_kernels::gemm::Start;
use ort_ops::ops::microsoft::attention::{Attention, Weights};
use ort_tensor::{DType, Inputs, Output, TensorViewMut};
use smallvec::{SmallVec, smallvec};

use super::cache::{Cache, past_of};
use super::floats::{Floats, Source, Strides};
use super::heads::{Heads, Operands};
use super::options::{Lens, Options, shapes_of};
use super::scores::Seen;
use crate::cpu::{Cpu, floats};
use crate::epilogue::Epilogue;
use crate::extended::eval_extended;
use crate::kernels::{Compiled, Compiler};
use crate::product::{self, Product, pack_right};

/// Where the inputs behind the projection's stand.
const MASK: usize = 3;
const PAST: usize = 4;
const BIASES: usize = 5;
const PAST_LEN: usize = 6;
/// Keys and values, which are one tensor.
const EXTENSION: Extension = Extension { input: PAST, output: 1, axis: 3 };
/// Scratch begins with the product, in whole cache lines.
const LINE_BYTES: usize = 64;

#[derive(Debug)]
struct ProjectedKernel {
    cpu: Cpu,
    op: Attention,
    /// The weights, if they are constant.
    w: Option<Packed>,
}

/// Prepared state for one shape signature.
struct Sizes {
    lens: Lens,
    product: Product,
}

pub(super) fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<Attention>() else { return Ok(None) };
    let is_taken =
        op.weights == Weights::Float && op.rotary_dim.is_none() && compiler.are_f32(0..3);
    if !is_taken {
        return Ok(None);
    }
    let w = pack_right::<f32>(compiler, 1, false);
    Ok(Some(Box::new(ProjectedKernel { cpu: compiler.cpu, op, w })))
}

impl ProjectedKernel {
    fn sizes(&self, shapes: &[&[usize]]) -> Option<Sizes> {
        let shape = |input: usize| shapes.get(input).copied().unwrap_or_default();
        let (&[batch, len, depth], &[w_depth, width]) = (shape(0), shape(1)) else { return None };
        let n = self.op.num_heads;
        let [q, k, v] = self.op.qkv_hidden_sizes.unwrap_or([width / 3; 3]);
        let is_whole = q == k && q + k + v == width && q % n == 0 && v % n == 0;
        let (bias, past) = (shape(2), shape(PAST));
        let (size, v_size) = (q / n, v / n);
        let capacity = past.get(3).copied().unwrap_or(0);
        let is_past = match past {
            [] => !self.op.shares_buffer,
            past => past == [2, batch, n, capacity, size] && size == v_size,
        };
        let is_fine = depth == w_depth && is_whole && (bias.is_empty() || bias == [width]);
        let product = Product {
            cpu: self.cpu,
            m: batch.checked_mul(len)?,
            n: width,
            k: depth,
            a: [depth, 1],
            b: [width, 1],
            batch: [(1, 0, 0)].into_iter().collect(),
            is_exchanged: false,
        };
        let lens = Lens { batch, q_len: len, len, size, v_size, capacity };
        (is_fine && is_past).then_some(Sizes { lens, product })
    }

    const fn options(&self) -> Options {
        let op = &self.op;
        Options {
            num_heads: op.num_heads,
            scale: op.scale,
            mask_filter_value: op.mask_filter_value,
            unidirectional: op.unidirectional,
            shares_buffer: op.shares_buffer,
        }
    }

    /// How much of the past counts, and all heads behind it; `None` if `eval` takes no such operands.
    fn call(&self, inputs: Inputs<'_>, lens: Lens) -> Result<Option<(usize, Heads)>, KernelError> {
        let options = self.options();
        let given = inputs.optional_tensor(PAST_LEN)?;
        let given = match given.map(|len| len.as_slice::<i32>()).transpose()? {
            Some(&[given]) => Some(given),
            _ => None,
        };
        let Some(used) = options.used(lens, given) else { return Ok(None) };
        let hiding = shapes_of(inputs, [MASK, BIASES])?;
        Ok(options.heads(self.cpu, lens, used, hiding).map(|heads| (used, heads)))
    }

    /// Queries, keys and values side by side.
    fn project(
        &self,
        product: &Product,
        inputs: Inputs<'_>,
        (y, scratch): (&mut [f32], &mut [u8]),
        threads: &dyn Threads,
    ) -> Result<(), KernelError> {
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
        product.run(&operands, y, (threads, scratch), |_| {});
        Ok(())
    }

    fn attend(
        &self,
        (sizes, used): (&Sizes, usize),
        heads: &Heads,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let (inputs, n) = (io.inputs, self.op.num_heads);
        let Sizes { lens, product } = sizes;
        let &Lens { batch, len, size, v_size, .. } = lens;
        let (projected, scratch) = io.scratch.split_at_mut(sizes.n_bytes());
        let projected = &mut floats(projected)[..product.m * product.n];
        self.project(product, inputs, (projected, &mut *scratch), io.threads)?;
        let source = |column: usize, size| {
            let strides = Strides::joined([len, product.n, size]);
            Source::new(Floats::F32(&*projected).from(column), strides)
        };
        let (q, width) = (source(0, size), n * size);
        let (mut k, mut v) = (source(width, size), source(2 * width, v_size));
        let (mut spare, mut unwanted) = (Output::free(), Output::unwanted());
        let Some((y, kept)) = io.outputs.split_first_mut() else {
            return Err(KernelError::ForeignState);
        };
        let past = inputs.optional_tensor(PAST)?;
        let mut present = kept.first_mut().unwrap_or(&mut unwanted);
        if past.is_some() && !present.is_wanted() {
            present = &mut spare;
        }
        if present.is_wanted() && size != v_size {
            let what = "a present of keys and values that differ";
            return Err(OpError::Unsupported { what }.into());
        }
        if present.is_wanted() {
            let rows = self.options().kept(*lens, heads);
            let past = past_of(past, present)?;
            let (present, _) = present.extended(DType::F32, &[2, batch, n, rows, size])?;
            // The rows may have room behind them.
            let room = present.shape()[3];
            let present = present.into_slice::<f32>()?;
            let (keys, values) = present.split_at_mut(batch * n * room * size);
            let (shape, halves) = ([batch, n, rows, size], [0, past.len() / 2]);
            for (operand, y, first) in [(&mut k, keys, halves[0]), (&mut v, values, halves[1])] {
                let past = past.part(first, halves[1]);
                let cache = Cache { past, used, new: *operand, n_new: len, shape };
                cache.fill(self.cpu.isa, y, io.threads);
                *operand = Source::new(Floats::F32(y), Strides::split([n, room, size]));
            }
        }
        let mut seen = Seen::default();
        if let Some(mask) = inputs.optional_tensor(MASK)? {
            seen.mask = mask.as_slice()?;
        }
        seen.bias = Floats::of_optional(inputs.optional_tensor(BIASES)?)?;
        let y = TensorViewMut::into_slice(y.tensor(DType::F32, &[batch, len, n * v_size])?)?;
        heads.run::<f32>(&Operands { q, k, v, seen }, y, (io.threads, scratch));
        Ok(())
    }
}

/// That inputs do not fit together.
fn misfit(inputs: Inputs<'_>) -> Result<KernelError, KernelError> {
    let shapes: [&[usize]; 6] = shapes_of(inputs, [0, 1, 2, MASK, PAST, BIASES])?;
    let (left, right) = (shapes[0].to_vec(), shapes[1..].concat());
    Ok(KernelError::Op(OpError::Shapes { what: "what Attention reads", left, right }))
}

impl Sizes {
    /// The bytes of the product.
    fn n_bytes(&self) -> usize {
        // With a dimension of 0, another may be of any size.
        let n = self.product.m.saturating_mul(self.product.n).min(usize::MAX >> 8);
        (n * size_of::<f32>()).next_multiple_of(LINE_BYTES)
    }
}

impl Kernel for ProjectedKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(sizes) = self.sizes(shapes) else { return Ok(Prepared::new(None::<Sizes>)) };
        let heads = self.options().scratch_bytes(self.cpu, sizes.lens);
        let product = self.cpu.scratch_bytes(sizes.product.scratch_len());
        let scratch_bytes = sizes.n_bytes().saturating_add(product.max(heads));
        Ok(Prepared::new(Some(sizes)).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let sizes: &Option<Sizes> = prepared.state()?;
        let call = match sizes {
            Some(sizes) => self.call(io.inputs, sizes.lens)?.map(|call| (sizes, call)),
            None => None,
        };
        match call {
            Some((sizes, (used, heads))) => self.attend((sizes, used), &heads, io),
            // Weights that are packed are read nowhere else.
            None if self.w.is_some() => Err(misfit(io.inputs)?),
            None => eval_extended(&self.op, &[EXTENSION], &[], io),
        }
    }

    fn extensions(&self) -> SmallVec<[Extension; 2]> {
        smallvec![EXTENSION]
    }

    fn reads(&self, input: usize) -> bool {
        input != 1 || self.w.is_none()
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "attention")
    }
}
