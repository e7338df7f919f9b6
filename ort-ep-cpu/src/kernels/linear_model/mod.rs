//! LinearRegressor, LinearClassifier, SVMRegressor and SVMClassifier:
//! ```text
//! products = k(x, support vectors)              of support vector machines that are not linear, for a block of samples
//! sums = offsets + (x or products) · weightsᵀ   one for each target, or for each pair of classes
//! scores and class of each sample
//! ```
//! In f32 for features of f32, f16 and bf16, else in f64.

mod model;
mod support;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Fact, OpError, Operator};
use ort_kernels::gemm::Start;
use ort_ops::features::{expect_features, n_samples_and_features};
use ort_ops::ops::ml::svm::{KernelKind, SupportVectors};
use ort_tensor::{DType, Number, TensorView, bf16, f16, with_dtype};

use self::model::{Model, Weights};
use self::support::{Real, Support};
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts, numbers, per_part};
use crate::pieces::Rows;
use crate::product::{Operands, Product, RightOperand};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The products of a block, at most, if there are more samples than [`LEAST`]: 1 MiB of f32.
const BLOCK: usize = 1 << 18;
/// The least samples of a block.
const LEAST: usize = 16;
/// What the decision about a sample costs, in multiply-adds for each of its scores.
const DECISION: usize = 32;
/// Bytes to a cache line.
const LINE: usize = 64;

#[derive(Debug)]
struct LinearModelKernel<T: Real> {
    cpu: Cpu,
    op: Arc<dyn Operator>,
    dtype: DType,
    support: Option<Support<T>>,
    weights: Weights<T>,
}

/// Prepared state for one shape signature: samples, those of a block, and bytes of parts of the scratch.
struct State {
    n: usize,
    block: usize,
    feature_bytes: usize,
    product_bytes: usize,
    sum_bytes: usize,
    class_bytes: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    match compiler.fact(0).and_then(Fact::dtype) {
        Some(DType::F32 | DType::F16 | DType::Bf16) => compile_as::<f32>(compiler),
        Some(DType::F64 | DType::I32 | DType::I64) => compile_as::<f64>(compiler),
        _ => Ok(None),
    }
}

fn compile_as<T: Real>(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let op = &compiler.graph.node(id).op;
    let (Some(model), Some(dtype)) = (Model::of(&**op), compiler.fact(0).and_then(Fact::dtype))
    else {
        return Ok(None);
    };
    let Some(weights) = model.weights::<T>() else { return Ok(None) };
    // The sum of products is the product with the sum, which must not be larger than the vectors.
    let is_sum = |vectors: &SupportVectors| {
        vectors.kernel().kind == KernelKind::Linear && weights.n_targets() <= weights.len()
    };
    let (weights, support) = match model.support() {
        Some(vectors) if is_sum(vectors) => (weights.times(vectors), None),
        Some(vectors) => match Support::new(vectors) {
            Some(support) => (weights, Some(support)),
            None => return Ok(None),
        },
        None => (weights, None),
    };
    let (cpu, op) = (compiler.cpu, op.clone());
    Ok(Some(Box::new(LinearModelKernel { cpu, op, dtype, support, weights })))
}

/// The bytes of `n` times `len` elements, in whole cache lines.
fn bytes_of<T>(n: usize, len: usize) -> Result<usize, KernelError> {
    let bytes = n.checked_mul(len).and_then(|n| n.checked_mul(size_of::<T>()));
    let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(LINE));
    Ok(bytes.ok_or(OpError::TooLarge)?)
}

impl<T: Real> Kernel for LinearModelKernel<T> {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let [n, n_features] = n_samples_and_features(x)?;
        expect_features(n_features, self.model()?.n_features())?;
        let k = self.weights.len();
        let block = if self.support.is_some() { (BLOCK / k.max(1)).max(LEAST).min(n) } else { n };
        let n_converted = if self.dtype == T::DTYPE { 0 } else { n };
        let state = State {
            n,
            block,
            feature_bytes: bytes_of::<T>(n_converted, n_features)?,
            product_bytes: bytes_of::<T>(if self.support.is_some() { block } else { 0 }, k)?,
            sum_bytes: bytes_of::<T>(n, self.weights.n_targets())?,
            class_bytes: bytes_of::<usize>(n, 1)?,
        };
        let rest = if block == 0 { 0 } else { n % block };
        let scratch_len = |m| self.product(m).scratch_len_of::<T>();
        let scratch_bytes = self.cpu.scratch_bytes(scratch_len(block).max(scratch_len(rest)));
        let parts = [state.feature_bytes, state.product_bytes, state.sum_bytes, state.class_bytes];
        let bytes = parts.iter().try_fold(scratch_bytes, |sum, &bytes| sum.checked_add(bytes));
        Ok(Prepared::new(state).with_scratch(bytes.ok_or(OpError::TooLarge)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        let model = self.model()?;
        let scratch = &mut *io.scratch;
        let (features, scratch) = scratch.split_at_mut(state.feature_bytes);
        let (products, scratch) = scratch.split_at_mut(state.product_bytes);
        let (sums, scratch) = scratch.split_at_mut(state.sum_bytes);
        let (classes, scratch) = scratch.split_at_mut(state.class_bytes);
        let n_sums = state.n * self.weights.n_targets();
        let (sums, classes) = (&mut numbers::<T>(sums)[..n_sums], &mut numbers(classes)[..state.n]);
        let x = features_as::<T>(io.inputs.tensor(0)?, numbers(features), io.threads)?;
        self.sum(state, (x, numbers(products)), sums, (io.threads, scratch));
        let n_columns = model.n_columns();
        let output = io.outputs.get_mut(model.scores_at()).filter(|output| output.is_wanted());
        let y: &mut [f32] = match output {
            Some(output) => output.tensor(DType::F32, &[state.n, n_columns])?.into_slice()?,
            None => &mut [],
        };
        self.decide(model, sums, (y, classes), io.threads)?;
        if let Some(labels) = model.labels() {
            labels.write(io.outputs, classes)?;
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "linear_model")
    }
}

/// The features as `T`, converted in `room` if they are of another type.
fn features_as<'a, T: Real>(
    x: TensorView<'a>,
    room: &'a mut [T],
    threads: &dyn Threads,
) -> Result<&'a [T], KernelError> {
    if x.dtype() == T::DTYPE {
        return Ok(x.as_slice()?);
    }
    let y = &mut room[..x.len()];
    with_dtype!(x.dtype(), [f16, bf16, i32, i64], X => {
        let x = x.as_slice::<X>()?;
        Rows::ELEMENTS.for_each(threads, y, |start, y| {
            for (y, &x) in y.iter_mut().zip(&x[start..]) {
                *y = T::from_f64(Number::to_f64(x));
            }
        });
    }, else => return Err(KernelError::ForeignState));
    Ok(y)
}

impl<T: Real> LinearModelKernel<T> {
    fn model(&self) -> Result<Model<'_>, KernelError> {
        Model::of(&*self.op).ok_or(KernelError::ForeignState)
    }

    /// The product of `m` samples with the weights.
    fn product(&self, m: usize) -> Product {
        let (n, k) = (self.weights.n_targets(), self.weights.len());
        // bounded: a constant
        let batch = [(1, 0, 0)].into_iter().collect();
        let (a, b) = ([k, 1], [1, k]);
        let mut product = Product { cpu: self.cpu, m, n, k, a, b, batch, is_exchanged: false };
        product.exchange_column();
        product
    }

    /// The sums of all samples. `products` has room for those of a block.
    fn sum(
        &self,
        state: &State,
        (x, products): (&[T], &mut [T]),
        sums: &mut [T],
        (threads, scratch): (&dyn Threads, &mut [u8]),
    ) {
        let (k, n_targets) = (self.weights.len(), self.weights.n_targets());
        for first in (0..state.n).step_by(state.block.max(1)) {
            let m = state.block.min(state.n - first);
            let a = match &self.support {
                None => x,
                Some(support) => {
                    let len = support.n_features();
                    let (x, products) = (&x[first * len..][..m * len], &mut products[..m * k]);
                    let rows = Rows { len: k, cost: k.saturating_mul(len + support.cost()) };
                    rows.for_each(threads, products, |start, products| {
                        let x = &x[start / k * len..][..products.len() / k * len];
                        support.products(self.cpu.isa, x, products);
                    });
                    products
                }
            };
            let operands = Operands {
                a,
                alpha: T::ONE,
                b: RightOperand::Plain(&self.weights.weights),
                start: Start::ByColumn(&self.weights.offsets),
                epilogue: T::no_epilogue(),
            };
            let sums = &mut sums[first * n_targets..][..m * n_targets];
            self.product(m).run(&operands, sums, (threads, scratch), |_| ());
        }
    }

    /// The scores and classes of all samples from their sums. Scores may be unwanted.
    fn decide(
        &self,
        model: Model<'_>,
        sums: &[T],
        (mut y, classes): (&mut [f32], &mut [usize]),
        threads: &dyn Threads,
    ) -> Result<(), KernelError> {
        let (n_targets, n_columns) = (self.weights.n_targets(), model.n_columns());
        let n = classes.len();
        let n_parts = n_parts(threads, n.saturating_mul(n_columns * DECISION));
        let per_part = per_part(threads, n, n_parts);
        // bounded: by the parts of the work
        let mut parts = Vec::with_capacity(n.div_ceil(per_part));
        for (sums, classes) in sums.chunks(per_part * n_targets).zip(classes.chunks_mut(per_part)) {
            let n_scores = (classes.len() * n_columns).min(y.len());
            let (scores, rest) = y.split_at_mut(n_scores);
            y = rest;
            parts.push((sums, scores, classes, model.decision()?));
        }
        let team = Team::new(threads, parts.len());
        team.run(parts.into_iter(), |(sums, y, classes, mut decision), _| {
            model.decide(self.cpu.isa, (sums, n_targets), &mut decision, (y, classes));
        });
        Ok(())
    }
}
