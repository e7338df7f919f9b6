//! SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss of every float type. Threads share the logarithms of the sums of
//! exponentials, one for each sample, which are computed in f64, of f32 in f32; the losses are few, and added in order
//! in f64.

use half::slice::HalfFloatSliceExt;
use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Fact, OpError};
use ort_kernels::vec::{self, Block, Lane, MAX_COLUMNS, log_sum_exp, log_sum_exp_of_columns};
use ort_kernels::{Isa, Task};
use ort_ops::ops::class_loss::{ClassLoss, Reduction};
use ort_tensor::{DType, Number, Pace, Shape, TensorView, f16, with_dtype};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::numbers;
use crate::lanes::Lanes;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an element, and of a sample, in multiply-adds.
const COST: usize = 128;
const SAMPLE: usize = 2048;
/// Elements of f32 whose exponentials are added up at once.
const TILE: usize = 1024;

#[derive(Debug)]
struct ClassLossKernel {
    isa: Isa,
    op: ClassLoss,
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    /// The shapes of the scores and of the samples.
    x: Shape,
    samples: Shape,
    /// The classes of a sample.
    lanes: Lanes,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtype = compiler.fact(0).and_then(Fact::dtype).filter(|dtype| dtype.is_float());
    let (Some(&op), Some(dtype)) = (compiler.op::<ClassLoss>(), dtype) else { return Ok(None) };
    Ok(Some(Box::new(ClassLossKernel { isa: compiler.cpu.isa, op, dtype })))
}

impl Kernel for ClassLossKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, target, ref weights @ ..] = shapes else { return Err(KernelError::ForeignState) };
        let &[batch, classes, ref rest @ ..] = x else {
            let found = x.len();
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found }.into());
        };
        let mut samples = Shape::from_slice(&[batch]);
        // bounded: by the rank
        samples.extend_from_slice(rest);
        let wrong = |what, left: &[usize], right: &[usize]| {
            Err(OpError::Shapes { what, left: left.to_vec(), right: right.to_vec() }.into())
        };
        if target != samples.as_slice() {
            return wrong("samples and their classes", &samples, target);
        }
        // An absent input has no dimensions.
        if let Some(weights) = weights.first().filter(|it| !it.is_empty() && **it != [classes]) {
            return wrong("a parameter and its axis", weights, &[classes]);
        }
        let n_sums = if self.op.is_softmax { target.iter().product() } else { 0_usize };
        let lanes = Lanes::along(x, 1);
        let state = State { x: x.into(), samples, lanes };
        Ok(Prepared::new(state).with_scratch(n_sums.saturating_mul(size_of::<f64>())))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state = prepared.state()?;
        with_dtype!(self.dtype, float,
            T => self.compute::<T>(state, io), else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "class_loss")
    }
}

impl ClassLossKernel {
    fn compute<T: Number>(&self, state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?.as_slice::<T>()?;
        let sums = numbers::<f64>(io.scratch);
        let mut outputs = io.outputs.iter_mut();
        let loss = outputs.next().ok_or(KernelError::ForeignState)?;
        if self.op.is_softmax {
            self.all_sums::<T>(state.lanes, io.inputs.tensor(0)?, (sums, io.threads))?;
            if let Some(output) = outputs.next().filter(|output| output.is_wanted()) {
                let y = output.tensor(T::DTYPE, &state.x)?.into_slice::<T>()?;
                log_probabilities(self.isa, state.lanes, (x, sums), y, io.threads);
            }
        }
        let weights = match io.inputs.optional_tensor(2)? {
            Some(weights) => Some(weights.as_slice::<T>()?),
            None => None,
        };
        let target = io.inputs.tensor(1)?;
        let samples = Samples { op: self.op, lanes: state.lanes, x, sums, weights };
        let is_each = self.op.reduction == Reduction::None;
        let shape = if is_each { &*state.samples } else { &[] };
        let y = loss.tensor(T::DTYPE, shape)?.into_slice::<T>()?;
        match target.dtype() {
            DType::I32 => samples.reduce(target.as_slice::<i32>()?, y),
            _ => samples.reduce(target.as_slice::<i64>()?, y),
        }
    }

    fn all_sums<T: Number>(
        &self,
        lanes: Lanes,
        x: TensorView<'_>,
        (sums, threads): (&mut [f64], &dyn Threads),
    ) -> Result<(), KernelError> {
        let Lanes { len, inner } = lanes;
        let is_column = inner > 1;
        match self.dtype {
            DType::F32 if is_column && len > 0 => {
                let x = x.as_slice::<f32>()?;
                for_each(lanes, sums, threads, |at, sums| {
                    self.column_sums(&x[at..], inner, len, sums);
                });
            }
            DType::F32 if !is_column => {
                let x = x.as_slice::<f32>()?;
                for_each(lanes, sums, threads, |at, sums| {
                    sums[0] = self.sum_f32(&x[at..][..len], |x, y| y.copy_from_slice(x));
                });
            }
            DType::F16 if !is_column => {
                let x = x.as_slice::<f16>()?;
                for_each(lanes, sums, threads, |at, sums| {
                    sums[0] = self.sum_f32(&x[at..][..len], |x, y| x.convert_to_f32_slice(y));
                });
            }
            _ => {
                let x = x.as_slice::<T>()?;
                for_each(lanes, sums, threads, |at, sums| self.sums(&x[at..], inner, len, sums));
            }
        }
        Ok(())
    }

    /// The logarithm of the sum of exponentials of each sample; NaN if one is infinite.
    fn sums<T: Number>(&self, x: &[T], inner: usize, len: usize, sums: &mut [f64]) {
        let isa = self.isa;
        if inner == 1 {
            let block = Block { x, n: [1, 1], strides: [0, 0], len };
            sums[0] = log_sum_exp(isa, block, T::to_f64);
        } else {
            let block = Block { x, n: [1, len], strides: [0, inner], len: sums.len() };
            log_sum_exp_of_columns(isa, block, T::to_f64, sums);
        }
        sums.iter_mut().filter(|sum| **sum == f64::INFINITY).for_each(|sum| *sum = f64::NAN);
    }

    /// The same of one sample with exponentials in f32; `widen` copies scores.
    fn sum_f32<T>(&self, x: &[T], widen: impl Fn(&[T], &mut [f32])) -> f64 {
        let (mut greatest, mut total, mut tile) = (f32::NEG_INFINITY, 0.0, [0.0; TILE]);
        for x in x.chunks(TILE) {
            let tile = &mut tile[..x.len()];
            widen(x, tile);
            let [now, sum] = vec::softmax_step(self.isa, tile, greatest);
            let factor = if total == 0.0 { 0.0 } else { f64::from(greatest - now).exp() };
            (greatest, total) = (now, total * factor + f64::from(sum));
        }
        f64::from(greatest) + total.ln()
    }

    /// The same of adjacent samples in f32, with exponentials in f32.
    fn column_sums(&self, x: &[f32], inner: usize, len: usize, sums: &mut [f64]) {
        let isa = self.isa;
        let (mut greatest, mut totals) = ([0.0; MAX_COLUMNS], [0.0; MAX_COLUMNS]);
        let n = sums.len();
        let (greatest, totals) = (&mut greatest[..n], &mut totals[..n]);
        vec::column_totals(isa, &x[..(len - 1) * inner + n], inner, greatest, totals);
        for (sum, (greatest, total)) in sums.iter_mut().zip(greatest.iter().zip(totals)) {
            *sum = f64::from(*greatest) + f64::from(*total).ln();
        }
    }
}

/// Calls `work` with the offset of the first of some adjacent samples, and their sums.
fn for_each(
    Lanes { len, inner }: Lanes,
    sums: &mut [f64],
    threads: &dyn Threads,
    work: impl Fn(usize, &mut [f64]) + Sync,
) {
    let cost = len.saturating_mul(COST).saturating_add(SAMPLE);
    Rows { len: 1, cost }.for_each(threads, sums, |mut start, mut sums| {
        while !sums.is_empty() {
            let (outer, at) = (start / inner, start % inner);
            let n = sums.len().min(inner - at).min(MAX_COLUMNS);
            let (now, rest) = sums.split_at_mut(n);
            work(outer * len * inner + at, now);
            (sums, start) = (rest, start + n);
        }
    });
}

/// `y = x − sum` of its sample.
fn log_probabilities<T: Number>(
    isa: Isa,
    Lanes { len, inner }: Lanes,
    (x, sums): (&[T], &[f64]),
    y: &mut [T],
    threads: &dyn Threads,
) {
    // The classes of a sample, or a class of adjacent samples.
    let is_one = inner == 1;
    let row_len = if is_one { len } else { inner };
    let cost = row_len.saturating_mul(4);
    Rows { len: row_len, cost }.for_each(threads, y, |start, y| {
        let rows = y.chunks_exact_mut(row_len).zip(x[start..].chunks_exact(row_len));
        for (i, (y, x)) in (start / row_len..).zip(rows) {
            let sums = if is_one { &sums[i..=i] } else { &sums[i / len * inner..][..inner] };
            match *sums {
                [sum] => isa.run(Minus { x, sum, y }),
                _ => {
                    let (x, sums) = (Lane::Row(x), Lane::Row(sums));
                    vec::pairs(isa, x, sums, y, |x: T, sum: f64| T::from_f64(x.to_f64() - sum));
                }
            }
        }
    });
}

/// `y = x − sum`
struct Minus<'a, T> {
    x: &'a [T],
    sum: f64,
    y: &'a mut [T],
}

impl<T: Number> Task for Minus<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { x, sum, y } = self;
        for (y, x) in y.iter_mut().zip(x) {
            *y = T::from_f64(x.to_f64() - sum);
        }
    }
}

/// What the losses are computed of.
struct Samples<'a, T> {
    op: ClassLoss,
    lanes: Lanes,
    x: &'a [T],
    /// Subtracted from the scores of each sample; empty if they are logarithms of probabilities.
    sums: &'a [f64],
    weights: Option<&'a [T]>,
}

impl<T: Number> Samples<'_, T> {
    /// The losses of the samples with these classes, reduced.
    fn reduce<L: Copy + Into<i64>>(&self, labels: &[L], y: &mut [T]) -> Result<(), KernelError> {
        let Lanes { len, inner } = self.lanes;
        let (mut total, mut counted, mut pace) = (0.0, 0.0, Pace::new());
        let is_each = self.op.reduction == Reduction::None;
        // The column of sample `i`, and where its scores start.
        let (mut column, mut start) = (0, 0);
        for (i, &label) in labels.iter().enumerate() {
            pace.go(1)?;
            let (mut loss, mut weight) = (0.0, 0.0);
            if let Some(class) = self.op.class(label.into(), len)? {
                let x = self.x[start + class * inner + column].to_f64();
                let log_probability = x - self.sums.get(i).copied().unwrap_or(0.0);
                weight = self.weights.map_or(1.0, |weights| weights[class].to_f64());
                loss = -log_probability * weight;
            }
            if is_each {
                y[i] = T::from_f64(loss);
            } else {
                (total, counted) = (total + loss, counted + weight);
            }
            column += 1;
            if column == inner {
                (column, start) = (0, start + len * inner);
            }
        }
        match self.op.reduction {
            Reduction::None => {}
            Reduction::Sum => y[0] = T::from_f64(total),
            Reduction::Mean => y[0] = T::from_f64(total / counted),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::{Attr, OpError};
    use ort_tensor::{Number, Tensor, bf16, f16, n_elements};

    use crate::case::{Case, within};

    /// Numbers from −8 to 8; some lanes have an infinity or NaN.
    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n = n_elements(shape).unwrap();
        let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let number = |i: usize| match i % 977 {
            976 => special[i / 977 % 3],
            _ => (i * i * 7919 % 4099) as f64 / 256.0 - 8.0,
        };
        let numbers = (0..n).map(|i| T::from_f64(number(i)));
        Tensor::from_slice(shape, &numbers.collect::<Vec<_>>()).unwrap()
    }

    fn labels(shape: &[usize], classes: usize) -> Tensor {
        let n = n_elements(shape).unwrap();
        let labels = (0..n).map(|i| i64::try_from(i * 7919 % classes).unwrap());
        Tensor::from_slice(shape, &labels.collect::<Vec<_>>()).unwrap()
    }

    fn check<T: Number>(x: &[usize], error: f32) {
        let samples = [&x[..1], &x[2..]].concat();
        for name in ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"] {
            for (reduction, is_weighted) in
                [("none", true), ("none", false), ("sum", true), ("mean", false), ("mean", true)]
            {
                let case = Case::new(name, 13).attr("reduction", Attr::String(reduction.into()));
                let case = case.attr("ignore_index", Attr::Int(1));
                let case = case.input(numbers::<T>(x)).input(labels(&samples, x[1]));
                let case = match is_weighted {
                    true => case.input(numbers::<T>(&[x[1]])),
                    false => case,
                };
                // Sums of n numbers are below 400·n, up to the greatest half float.
                let n = if reduction == "sum" { n_elements(&samples).unwrap() } else { 1 };
                let error = error * (n + 1) as f32;
                case.clone().check(within(error));
                if name == "SoftmaxCrossEntropyLoss" {
                    case.outputs(2).check(within(error));
                }
            }
        }
    }

    #[test]
    fn losses_are_those_of_eval() {
        let shapes: [&[usize]; 7] =
            [&[1, 2], &[7, 33], &[1000, 128], &[3, 5, 4], &[2, 21, 20, 30], &[0, 3], &[2, 3, 0]];
        for shape in shapes {
            check::<f32>(shape, 400.0 * f32::EPSILON);
            check::<f64>(shape, 1e-12);
            check::<f16>(shape, 0.5);
            check::<bf16>(shape, 2.0);
        }
    }

    #[test]
    fn a_class_must_exist() {
        for class in [-1, 3] {
            let target = Tensor::from_slice(&[1], &[class]).unwrap();
            let x = Tensor::from_slice(&[1, 3], &[0_f32; 3]).unwrap();
            let case = Case::new("SoftmaxCrossEntropyLoss", 13).input(x).input(target);
            let (what, index, len) = ("a class", i64::from(class), 3);
            assert_eq!(case.error(), OpError::Index { what, index, len }.into());
        }
    }
}
