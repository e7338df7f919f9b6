//! com.microsoft's Attention and QAttention in f32: queries, keys and values are one product, of floats or of bytes, of
//! which each is some columns. What does not fit together is for `eval` to tell.

// collects are bounded: by the rank

use ort_ep::{Extension, Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Dim, Fact, OpError};
use ort_kernels::Activation;
use ort_kernels::gemm::Start;
use ort_kernels::quantize::scale_sums;
use ort_ops::ops::microsoft::attention::{Attention, Weights};
use ort_tensor::{DType, Inputs, Output, TensorViewMut};
use smallvec::{SmallVec, smallvec};

use super::cache::{Cache, past_of};
use super::floats::{Floats, Source, Strides};
use super::heads::{Heads, Operands};
use super::options::{Lens, Options, shapes_of};
use super::scores::Seen;
use crate::bytes::{ByteProduct, Left, Right, split_floats};
use crate::cpu::{Cpu, floats};
use crate::epilogue::Epilogue;
use crate::extended::eval_extended;
use crate::kernels::{Compiled, Compiler};
use crate::product::{self, PackedRight, Product, RightOperand, pack_right};
use crate::scheme::{scale_at, scaled_factors};

/// Where the inputs behind the projection's stand.
#[derive(Clone, Copy, Debug)]
struct Places {
    mask: usize,
    past: usize,
    biases: usize,
    past_len: usize,
}

/// No operator has so many inputs.
const NOWHERE: usize = usize::MAX;
const OF_FLOATS: Places = Places { mask: 3, past: 4, biases: 5, past_len: 6 };
const OF_BYTES: Places = Places { mask: 5, past: 8, biases: NOWHERE, past_len: NOWHERE };
/// Where scales and zero points of a projection of bytes stand.
const SCALES: [usize; 2] = [3, 4];
const ZEROS: [usize; 2] = [6, 7];
/// Scratch begins with the product, in whole cache lines.
const LINE_BYTES: usize = 64;

#[derive(Debug)]
struct ProjectedKernel {
    cpu: Cpu,
    op: Attention,
    places: Places,
    projection: Projection,
}

/// The product that queries, keys and values are columns of.
#[derive(Debug)]
enum Projection {
    /// The weights, if they are constant.
    Floats(Option<PackedRight>),
    Bytes(Right),
}

/// Prepared state for one shape signature.
struct Sizes {
    lens: Lens,
    product: Product,
}

pub(super) fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<Attention>() else { return Ok(None) };
    if op.rotary_dim.is_some() {
        return Ok(None);
    }
    let (places, projection) = match op.weights {
        Weights::Float if compiler.are_f32(0..3) => {
            (OF_FLOATS, Projection::Floats(pack_right::<f32>(compiler, 1, false)))
        }
        Weights::Quantized if compiler.are_f32(2..5) => {
            let Some(right) = quantized(compiler) else { return Ok(None) };
            (OF_BYTES, Projection::Bytes(right))
        }
        _ => return Ok(None),
    };
    Ok(Some(Box::new(ProjectedKernel { cpu: compiler.cpu, op, places, projection })))
}

/// Constant weights of bytes, if input and scales fit them.
fn quantized(compiler: &Compiler<'_>) -> Option<Right> {
    let is_byte = compiler.fact(0).and_then(Fact::dtype).is_some_and(DType::is_byte);
    let are_single = compiler.is_one_or_none(SCALES[0]) && compiler.is_one_or_none(ZEROS[0]);
    let right = Right::compile(compiler, 1, ZEROS[1], false)?;
    let row = [Dim::Known(right.n)];
    let is_row = compiler.fact(SCALES[1]).and_then(Fact::dims).is_some_and(|dims| *dims == row);
    (is_byte && are_single && (is_row || compiler.is_one_or_none(SCALES[1]))).then_some(right)
}

impl ProjectedKernel {
    fn sizes(&self, shapes: &[&[usize]]) -> Option<Sizes> {
        let shape = |input: usize| shapes.get(input).copied().unwrap_or_default();
        let (&[batch, len, depth], &[w_depth, width]) = (shape(0), shape(1)) else { return None };
        let n = self.op.num_heads;
        let [q, k, v] = self.op.qkv_hidden_sizes.unwrap_or([width / 3; 3]);
        let is_whole = q == k && q + k + v == width && q % n == 0 && v % n == 0;
        let (bias, past) = (shape(2), shape(self.places.past));
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

    /// Bytes of scratch for the product.
    fn product_scratch_bytes(&self, product: &Product) -> usize {
        match &self.projection {
            Projection::Floats(_) => self.cpu.scratch_bytes(product.scratch_len()),
            Projection::Bytes(right) => {
                let bytes = ByteProduct { cpu: self.cpu, m: product.m, right: right.view() };
                let factors = (right.n * size_of::<f32>()).next_multiple_of(LINE_BYTES);
                factors.saturating_add(bytes.scratch_bytes())
            }
        }
    }

    /// Keys and values, which are one tensor.
    const fn extension(&self) -> Extension {
        Extension { input: self.places.past, output: 1, axis: 3 }
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
        let given = inputs.optional_tensor(self.places.past_len)?;
        let given = match given.map(|len| len.as_slice::<i32>()).transpose()? {
            Some(&[given]) => Some(given),
            _ => None,
        };
        let Some(used) = options.used(lens, given) else { return Ok(None) };
        let hiding = shapes_of(inputs, [self.places.mask, self.places.biases])?;
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
        let packed = match &self.projection {
            Projection::Floats(packed) => packed,
            Projection::Bytes(right) => {
                let product = ByteProduct { cpu: self.cpu, m: product.m, right: right.view() };
                return project_bytes(&product, (inputs, bias), (y, scratch), threads);
            }
        };
        let operands = product::Operands {
            a: inputs.tensor(0)?.as_slice()?,
            alpha: 1.0,
            b: match packed {
                Some(packed) => packed.operand(),
                None => RightOperand::Plain(inputs.tensor(1)?.as_slice()?),
            },
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
        let past = inputs.optional_tensor(self.places.past)?;
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
        if let Some(mask) = inputs.optional_tensor(self.places.mask)? {
            seen.mask = mask.as_slice()?;
        }
        seen.bias = Floats::of_optional(inputs.optional_tensor(self.places.biases)?)?;
        let y = TensorViewMut::into_slice(y.tensor(DType::F32, &[batch, len, n * v_size])?)?;
        heads.run::<f32>(&Operands { q, k, v, seen }, y, (io.threads, scratch));
        Ok(())
    }
}

/// [`ProjectedKernel::project`] of bytes.
fn project_bytes(
    product: &ByteProduct<'_>,
    (inputs, bias): (Inputs<'_>, Option<&[f32]>),
    (y, scratch): (&mut [f32], &mut [u8]),
    threads: &dyn Threads,
) -> Result<(), KernelError> {
    let (factors, scratch) = split_floats(scratch, product.right.n);
    let (room, scratch) = product.room(scratch);
    let left = Left::of(inputs.tensor(0)?, inputs.optional_tensor(ZEROS[0])?, room);
    let (x_scale, scales) = (inputs.tensor(SCALES[0])?, inputs.tensor(SCALES[1])?);
    let x_scale = scale_at(x_scale, 0)?;
    scaled_factors(scales, x_scale, factors)?;
    let (isa, factors) = (product.cpu.isa, &*factors);
    product.run((left, None), y, (threads, scratch), |columns, sums, y| {
        let bias = bias.map(|bias| &bias[columns.clone()]);
        scale_sums(isa, sums, &factors[columns], bias, y);
    });
    Ok(())
}

/// That inputs do not fit together.
fn misfit(inputs: Inputs<'_>, places: Places) -> Result<KernelError, KernelError> {
    let Places { mask, past, biases, .. } = places;
    let shapes: [&[usize]; 6] = shapes_of(inputs, [0, 1, 2, mask, past, biases])?;
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
        let product = self.product_scratch_bytes(&sizes.product);
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
            None if !self.reads(1) => Err(misfit(io.inputs, self.places)?),
            None => eval_extended(&self.op, &[self.extension()], &[], io),
        }
    }

    fn extensions(&self) -> SmallVec<[Extension; 2]> {
        smallvec![self.extension()]
    }

    fn reads(&self, input: usize) -> bool {
        input != 1 || matches!(self.projection, Projection::Floats(None))
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "attention")
    }
}
