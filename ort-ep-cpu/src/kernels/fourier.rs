//! STFT and DFT of f32: sixteen sequences are transformed at once, one per lane. As in the operators, everything is
//! computed in f64 and rounded once.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::fourier::{LANES, Planes, cost, fill_roots, transform};
use ort_ops::ops::dft::Dft;
use ort_ops::ops::stft::{Stft, n_frames};
use ort_tensor::{DType, Number, Pace, Shape, Tensor, TensorViewMut, filled, go_on};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts, per_part};
use crate::pieces::{PIECE, wanted};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct FourierKernel {
    cpu: Cpu,
    form: Form,
}

/// The operator with its constant inputs: frame step and length, or axis.
#[derive(Clone, Copy, Debug)]
enum Form {
    Stft { op: Stft, step: usize, len: Option<usize>, has_window: bool },
    Dft { op: Dft, axis: Option<i64>, len: Option<usize> },
}

/// Prepared state for one shape signature.
struct Plan {
    shape: Shape,
    /// The length of a transform, and how many of its numbers the input has.
    n: usize,
    n_read: usize,
    /// The number of sequences, and the places of their numbers in the input and the result.
    n_sequences: usize,
    from: Walk,
    to: Walk,
    /// How many numbers of a transform are kept.
    n_kept: usize,
    parts: [usize; 2],
    is_inverse: bool,
    /// Whether only half of a sequence is given, which determines the other half.
    is_half: bool,
    roots: Vec<[f64; 2]>,
}

/// The place of number `k` of sequence `i`.
#[derive(Clone, Copy)]
struct Walk {
    period: usize,
    outer: usize,
    inner: usize,
    stride: usize,
}

impl Walk {
    const fn at(&self, i: usize) -> usize {
        i / self.period * self.outer + i % self.period * self.inner
    }
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    if !compiler.are_f32(0..1) {
        return Ok(None);
    }
    let form = match (compiler.op::<Stft>(), compiler.op::<Dft>()) {
        (Some(&op), _) => stft(compiler, op),
        (_, Some(&op)) => dft(compiler, op),
        _ => None,
    };
    Ok(form.map(|form| Box::new(FourierKernel { cpu: compiler.cpu, form }) as Box<dyn Kernel>))
}

/// The form of a node with valid constant parameters; others are left to the operator.
fn stft(compiler: &Compiler<'_>, op: Stft) -> Option<Form> {
    let step = constant(compiler, 1)?.filter(|&step| step > 0)?;
    let len = constant(compiler, 3)?;
    let has_window = compiler.fact(2).is_some();
    Some(Form::Stft { op, step, len, has_window })
}

fn dft(compiler: &Compiler<'_>, op: Dft) -> Option<Form> {
    let len = constant(compiler, 1)?;
    let axis = match (op.axis, compiler.fact(2)) {
        (None, Some(_)) => Some(integer(compiler.constant(2)?)?),
        _ => None,
    };
    Some(Form::Dft { op, axis, len })
}

/// The value of a length input if it is present; `None` if it is not constant.
fn constant(compiler: &Compiler<'_>, input: usize) -> Option<Option<usize>> {
    match compiler.fact(input) {
        None => Some(None),
        Some(_) => usize::try_from(integer(compiler.constant(input)?)?).ok().map(Some),
    }
}

fn integer(tensor: &Tensor) -> Option<i64> {
    match tensor.dtype() {
        DType::I64 => tensor.as_slice::<i64>().ok()?.first().copied(),
        DType::I32 => tensor.as_slice::<i32>().ok()?.first().map(|&n| n.into()),
        _ => None,
    }
}

impl Plan {
    /// `None` for shapes that are empty or invalid, which are left to the operator.
    fn new(form: Form, shapes: &[&[usize]]) -> Result<Option<Self>, KernelError> {
        let &[x, ..] = shapes else { return Err(KernelError::ForeignState) };
        let plan = match form {
            Form::Stft { op, step, len, has_window } => {
                let window = shapes.get(2).filter(|_| has_window).map(|window| window.to_vec());
                Self::of_frames(op, (step, len, window), x)
            }
            Form::Dft { op, axis, len } => Self::of_axis(op, (axis, len), x),
        };
        let Some(mut plan) = plan.filter(|plan| !plan.shape.contains(&0)) else { return Ok(None) };
        plan.roots = filled([0.0; 2], plan.n)?;
        let n_roots = plan.n;
        for (i, roots) in plan.roots.chunks_mut(PIECE).enumerate() {
            go_on()?;
            fill_roots(roots, i * PIECE, n_roots);
        }
        Ok(Some(plan))
    }

    fn of_frames(
        op: Stft,
        (step, len, window): (usize, Option<usize>, Option<Vec<usize>>),
        x: &[usize],
    ) -> Option<Self> {
        let &[batch, signal, parts] = x else { return None };
        let n = match (len, &window) {
            (Some(len), Some(window)) if window[..] != [len] => return None,
            (Some(len), _) => len,
            (None, Some(window)) => *window.first()?,
            (None, None) => signal,
        };
        let n_frames = n_frames(signal, n, step).ok()?;
        let n_kept = op.n_bins(n);
        let is_valid = parts == 1 || (parts == 2 && !op.is_onesided);
        let from = Walk { period: n_frames, outer: signal, inner: step, stride: 1 };
        let to = Walk { period: n_frames, outer: n_frames * n_kept, inner: n_kept, stride: 1 };
        is_valid.then(|| Self {
            shape: Shape::from_slice(&[batch, n_frames, n_kept, 2]),
            n,
            n_read: n,
            n_sequences: batch * n_frames,
            from,
            to,
            n_kept,
            parts: [parts, 2],
            is_inverse: false,
            is_half: false,
            roots: Vec::new(),
        })
    }

    fn of_axis(op: Dft, (axis, len): (Option<i64>, Option<usize>), x: &[usize]) -> Option<Self> {
        let axis = op.axis(axis, x.len()).ok()?;
        let (&parts, signal) = x.split_last()?;
        let is_half = op.is_onesided && op.is_inverse;
        let is_valid = match op.is_onesided {
            true => parts == if op.is_inverse { 2 } else { 1 },
            false => matches!(parts, 1 | 2),
        };
        let n = len.unwrap_or_else(|| op.default_len(signal[axis]));
        let (n_kept, inner) = (op.result_len(n), signal[axis + 1..].iter().product::<usize>());
        let mut shape = Shape::from_slice(x);
        (shape[axis], shape[signal.len()]) = (n_kept, op.result_parts());
        let walk = |n: usize| Walk { period: inner, outer: n * inner, inner: 1, stride: inner };
        (is_valid && n > 0).then(|| Self {
            shape,
            n,
            n_read: signal[axis].min(n),
            n_sequences: signal[..axis].iter().product::<usize>() * inner,
            from: walk(signal[axis]),
            to: walk(n_kept),
            n_kept,
            parts: [parts, op.result_parts()],
            is_inverse: op.is_inverse,
            is_half,
            roots: Vec::new(),
        })
    }

    /// The cost of a sequence, in multiply-adds: its transform, and copying it to and from a lane.
    fn cost(&self) -> usize {
        cost(self.n) + 8 * (self.n + self.n_kept)
    }

    /// Scratch per thread, in f32: two for each f64.
    const fn scratch_len(&self) -> usize {
        2 * Planes::pair_len(self.n)
    }

    /// The number of sequences whose results are interleaved in one piece.
    const fn n_together(&self) -> usize {
        if self.to.stride == 1 { 1 } else { self.to.period }
    }

    /// Transforms the sequences in `y`, which start at `first`.
    fn run(
        &self,
        cpu: Cpu,
        (x, window): (&[f32], Option<&[f32]>),
        (first, y): (usize, &mut [f32]),
        scratch: &mut [f64],
    ) {
        let n_sequences = y.len() / (self.n_kept * self.parts[1]);
        let start = self.to.at(first);
        for batch in wanted((first..first + n_sequences).step_by(LANES)) {
            let lanes = LANES.min(first + n_sequences - batch);
            let [mut from, to] = Planes::pair(scratch, self.n);
            self.load((batch, lanes), x, window, &mut from);
            let found = transform(cpu.isa, &self.roots, from, to, || go_on().is_ok());
            self.store((batch, lanes), &found, start, y);
        }
    }

    /// The real and imaginary parts of a plane; exchanged for the inverse transform.
    fn parts_of<'p>(&self, re: &'p mut [f64], im: &'p mut [f64]) -> [&'p mut [f64]; 2] {
        if self.is_inverse { [im, re] } else { [re, im] }
    }

    fn load(
        &self,
        (batch, lanes): (usize, usize),
        x: &[f32],
        window: Option<&[f32]>,
        planes: &mut Planes<'_>,
    ) {
        let [re, im] = self.parts_of(planes.re, planes.im);
        let starts: [usize; LANES] = std::array::from_fn(|lane| self.from.at(batch + lane));
        let parts = self.parts[0];
        let numbers = re.chunks_exact_mut(LANES).zip(im.chunks_exact_mut(LANES));
        let mut pace = Pace::new();
        for (k, (re, im)) in numbers.enumerate().take_while(|_| pace.go(LANES).is_ok()) {
            re.fill(0.0);
            im.fill(0.0);
            let (from, sign) = match self.is_half && k > self.n / 2 {
                true => (self.n - k, -1.0),
                false => (k, 1.0),
            };
            if from >= self.n_read {
                continue;
            }
            let weight = window.map_or(1.0, |window| f64::from(window[k]));
            for ((re, im), start) in re.iter_mut().zip(im).zip(starts).take(lanes) {
                let number = &x[(start + from * self.from.stride) * parts..][..parts];
                *re = f64::from(number[0]) * weight;
                if let [_, part] = number {
                    *im = f64::from(*part) * weight * sign;
                }
            }
        }
    }

    fn store(
        &self,
        (batch, lanes): (usize, usize),
        planes: &Planes<'_>,
        start: usize,
        y: &mut [f32],
    ) {
        let [re, im] =
            if self.is_inverse { [&planes.im, &planes.re] } else { [&planes.re, &planes.im] };
        let n = if self.is_inverse { self.n as f64 } else { 1.0 };
        let (parts, mut pace) = (self.parts[1], Pace::new());
        for lane in 0..lanes {
            let at = self.to.at(batch + lane) - start;
            for k in (0..self.n_kept).take_while(|_| pace.go(1).is_ok()) {
                let to = &mut y[(at + k * self.to.stride) * parts..][..parts];
                let both = [re, im].map(|part| f32::from_f64(part[k * LANES + lane] / n));
                to.copy_from_slice(&both[..parts]);
            }
        }
    }
}

impl Kernel for FourierKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let plan = Plan::new(self.form, shapes)?;
        let len = plan.as_ref().map_or(0, Plan::scratch_len);
        Ok(Prepared::new(plan).with_scratch(self.cpu.scratch_bytes(len)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let plan: &Option<Plan> = prepared.state()?;
        let Some(plan) = plan else {
            let (inputs, outputs) = (io.inputs, &mut *io.outputs);
            return Ok(match self.form {
                Form::Stft { op, .. } => ort_graph::Operator::eval(&op, inputs, outputs),
                Form::Dft { op, .. } => ort_graph::Operator::eval(&op, inputs, outputs),
            }?);
        };
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let window = match self.form {
            Form::Stft { has_window: true, .. } => Some(io.inputs.tensor(2)?.as_slice::<f32>()?),
            _ => None,
        };
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, &plan.shape)?)?;
        let together = plan.n_together();
        // A part is enough groups of sequences to fill the lanes.
        let (n_groups, fill) = (plan.n_sequences / together, LANES.div_ceil(together));
        let n_parts = n_parts(io.threads, plan.cost().saturating_mul(plan.n_sequences));
        let per_part = per_part(io.threads, n_groups.div_ceil(fill), n_parts) * fill;
        let parts = y.chunks_mut(per_part * together * plan.n_kept * plan.parts[1]).enumerate();
        let team = Team::new(io.threads, parts.len());
        let team = team.with_scratch(io.scratch, plan.scratch_len());
        team.run(parts, |(i, y), scratch| {
            let scratch = bytemuck::cast_slice_mut(scratch);
            plan.run(self.cpu, (x, window), (i * per_part * together, y), scratch);
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "fourier_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_kernels::fourier::radices;

    use super::*;
    use crate::case::{Case, floats, ulps, within};

    /// The error bound for a transform of `n` complex numbers with parts of at most 4, times a window of at
    /// most 4: the bound of the kernel, and one rounding of the window.
    fn bounded(n: usize) -> impl Fn(f64, f64) -> bool {
        let roundings: usize = radices(n).map(|r| r + 2).sum();
        let error = (roundings + 6) as f32 * 32.0 * n as f32 * 2_f32.powi(-53);
        move |found, expected| ulps(1)(found, expected) || within(error)(found, expected)
    }

    fn integer(n: i64) -> Tensor {
        Tensor::scalar(n)
    }

    #[test]
    fn transforms_of_frames_equal_the_operators() {
        // Batch, signal, frame, step.
        for (batch, signal, n, step) in
            [(1, 400, 400, 1), (2, 3001, 400, 160), (1, 700, 13, 3), (3, 90, 31, 7), (1, 64, 1, 1)]
        {
            for (onesided, parts) in [(1, 1), (0, 1), (0, 2)] {
                let case = || {
                    Case::new("STFT", 17)
                        .attr("onesided", Attr::Int(onesided))
                        .input(floats(&[batch, signal, parts]))
                        .constant(integer(step))
                };
                case().input(floats(&[n])).check(bounded(n));
                let len = integer(n.try_into().unwrap());
                case().input(floats(&[n])).constant(len.clone()).check(bounded(n));
                case().absent().constant(len).check(bounded(n));
            }
        }
    }

    #[test]
    fn transforms_along_axes_equal_the_operators() {
        for (shape, axis) in [
            (&[3, 50, 1][..], 1),
            (&[2, 20, 33, 2], 1),
            (&[2, 20, 33, 2], 2),
            (&[40, 2, 2], 0),
            (&[5000, 8, 1], 1),
        ] {
            let n = shape[axis];
            for (inverse, onesided) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                let is_valid = onesided == 0 || shape[shape.len() - 1] == 1 + inverse;
                for len in [None, Some(n + 5), Some(n - 1)].into_iter().filter(|_| is_valid) {
                    let attr = |name, value: usize| (name, Attr::Int(value.try_into().unwrap()));
                    let attrs = [attr("inverse", inverse), attr("onesided", onesided)];
                    let case = |version| {
                        let case = Case::new("DFT", version).input(floats(shape));
                        let case =
                            attrs.iter().fold(case, |case, (name, it)| case.attr(name, it.clone()));
                        match len {
                            Some(len) => case.constant(integer(len.try_into().unwrap())),
                            None => case.absent(),
                        }
                    };
                    let n = len.unwrap_or(2 * n);
                    case(20).constant(integer(axis.try_into().unwrap())).check(bounded(n));
                    let (name, axis) = attr("axis", axis);
                    case(17).attr(name, axis).check(bounded(n));
                }
            }
        }
    }
}
