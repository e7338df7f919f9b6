//! Resize and Upsample in f64 and in integers of the last one or two axes, row by row: elements are picked, or
//! blended in f64, rows first, with the same bits as `eval`.

use bytemuck::Pod;
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError, Operator};
use ort_ops::ops::resize::{Resize, ResizeMode};
use ort_tensor::{DType, Inputs, Number, Shape, with_dtype};

use super::resize::{Axis, Taps, last_axes};
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::parameters::Parameters;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct ResizeKernel {
    cpu: Cpu,
    op: Resize,
    dtype: DType,
    parameters: Option<Parameters>,
}

/// Prepared state for one shape signature, if the result depends only on shapes.
struct State(Option<Plan>);

/// How planes are resized; `None` if other axes change, too.
struct Plan {
    shape: Shape,
    axes: Option<[Axis<f64>; 2]>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Resize>().cloned() else { return Ok(None) };
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let Some(dtype) = dtype.filter(|dtype| *dtype == DType::F64 || dtype.is_integer()) else {
        return Ok(None);
    };
    let parameters = Parameters::of(compiler);
    Ok(Some(Box::new(ResizeKernel { cpu: compiler.cpu, op, dtype, parameters })))
}

impl Plan {
    fn new(op: &Resize, x: &[usize], inputs: Inputs<'_>) -> Result<Self, OpError> {
        let sampling = op.sampling(x, inputs)?;
        let axes = last_axes(x, &sampling, |weight| weight)?;
        Ok(Self { shape: sampling.shape, axes })
    }
}

/// The rows of a run; sums are rounded to integers or truncated.
struct Planes<'a, T, const ROUNDS: bool> {
    x: &'a [T],
    axes: &'a [Axis<f64>; 2],
    is_picked: bool,
    /// The value of elements outside the input.
    outside: f64,
}

impl<T: Number, const ROUNDS: bool> Planes<'_, T, ROUNDS> {
    /// Computes row `at`, counted over all planes; `blend` holds a row of the input.
    fn row(&self, at: usize, y: &mut [T], blend: &mut [f64]) {
        let [height, width] = self.axes;
        let (plane, row) = (at / height.n_outputs, at % height.n_outputs);
        let n = width.n_inputs;
        let input = |i: usize| &self.x[(plane * height.n_inputs + i) * n..][..n];
        let taps = height.taps.as_ref().map(|taps| taps.of(row));
        if self.is_picked {
            let from = match taps {
                None => Some(input(row)),
                Some(taps) => taps.first().map(|&(i, _)| input(i)),
            };
            return self.pick(from, y);
        }
        match taps {
            None => blend.iter_mut().zip(input(row)).for_each(|(sum, x)| *sum = x.to_f64()),
            Some([]) => blend.fill(self.outside),
            Some(taps) => {
                blend.fill(0.0);
                for &(i, weight) in taps {
                    let terms = input(i).iter();
                    blend.iter_mut().zip(terms).for_each(|(sum, x)| *sum += weight * x.to_f64());
                }
            }
        }
        match &width.taps {
            None => y.iter_mut().zip(&*blend).for_each(|(y, sum)| *y = Self::finish(*sum)),
            Some(taps) => self.blend_row(taps, blend, y),
        }
    }

    /// Converts a sum to an element; integers truncate it.
    #[inline]
    fn finish(sum: f64) -> T {
        T::from_f64(if ROUNDS { sum.round_ties_even() } else { sum })
    }

    fn pick(&self, from: Option<&[T]>, y: &mut [T]) {
        let outside = T::from_f64(self.outside);
        let Some(from) = from else { return y.fill(outside) };
        let Some(taps) = &self.axes[1].taps else { return y.copy_from_slice(from) };
        if let Some(picked) = taps.picked() {
            y.iter_mut().zip(picked).for_each(|(y, i)| *y = from[i]);
            return;
        }
        for (o, y) in y.iter_mut().enumerate() {
            *y = taps.of(o).first().map_or(outside, |&(i, _)| from[i]);
        }
    }

    fn blend_row(&self, taps: &Taps<f64>, from: &[f64], y: &mut [T]) {
        if let Some(pairs) = taps.pairs() {
            for (y, &[(i, first), (j, second)]) in y.iter_mut().zip(pairs) {
                *y = Self::finish(first * from[i] + second * from[j]);
            }
            return;
        }
        for (o, y) in y.iter_mut().enumerate() {
            let sum = match taps.of(o) {
                [] => self.outside,
                taps => taps.iter().fold(0.0, |sum, &(i, weight)| sum + weight * from[i]),
            };
            *y = Self::finish(sum);
        }
    }
}

impl ResizeKernel {
    fn run_plan(&self, plan: &Plan, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Some(axes) = &plan.axes else { return Ok(self.op.eval(io.inputs, io.outputs)?) };
        let cuts = self.op.mode == ResizeMode::Linear && !self.op.has_antialias;
        let rounds = self.dtype.is_integer() && !cuts;
        with_dtype!(self.dtype, [f64, i8, i16, i32, i64, u8, u16, u32, u64], T => {
            if rounds {
                self.compute::<T, true>(&plan.shape, axes, io)
            } else {
                self.compute::<T, false>(&plan.shape, axes, io)
            }
        }, else => Err(KernelError::ForeignState))
    }

    fn compute<T: Number + Pod, const ROUNDS: bool>(
        &self,
        shape: &[usize],
        axes: &[Axis<f64>; 2],
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?.as_slice::<T>()?;
        let y = io.outputs[0].tensor(T::DTYPE, shape)?.into_slice::<T>()?;
        let is_picked = matches!(self.op.mode, ResizeMode::Nearest(_));
        let outside = f64::from(self.op.extrapolation_value);
        let planes = Planes::<T, ROUNDS> { x, axes, is_picked, outside };
        let [_, width] = axes;
        let n = width.n_outputs;
        let rows = Rows { len: n, cost: n.saturating_mul(if is_picked { 4 } else { 40 }) };
        let scratch = (&mut *io.scratch, 2 * width.n_inputs);
        rows.for_each_with(io.threads, scratch, y, |start, y, scratch| {
            let blend = &mut bytemuck::cast_slice_mut(scratch)[..width.n_inputs];
            for (at, y) in (start / n..).zip(y.chunks_exact_mut(n)) {
                planes.row(at, y, blend);
            }
        });
        Ok(())
    }
}

impl Kernel for ResizeKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ..] = shapes else { return Err(KernelError::ForeignState) };
        let plan =
            |parameters: &Parameters| parameters.with(|inputs| Plan::new(&self.op, x, inputs));
        let plan = self.parameters.as_ref().map(plan).transpose()?;
        // An f64 takes two f32 of scratch.
        let width = x.last().copied().unwrap_or(1).saturating_mul(2);
        Ok(Prepared::new(State(plan)).with_scratch(self.cpu.scratch_bytes(width)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State(plan) = prepared.state()?;
        match plan {
            Some(plan) => self.run_plan(plan, io),
            None => {
                let plan = Plan::new(&self.op, io.inputs.tensor(0)?.shape(), io.inputs)?;
                self.run_plan(&plan, io)
            }
        }
    }

    fn variant(&self) -> &'static str {
        "resize_numbers"
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use super::*;
    use crate::case::{Case, exact};

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        let numbers = (0..n).map(|i| T::from_f64((i * 7919 % 251) as f64 - 120.0));
        Tensor::from_slice(shape, &numbers.collect::<Vec<_>>()).unwrap()
    }

    fn case(mode: &str, coordinates: &str) -> Case {
        let text = |text: &str| Attr::String(text.into());
        Case::new("Resize", 19)
            .attr("mode", text(mode))
            .attr("coordinate_transformation_mode", text(coordinates))
    }

    #[test]
    fn results_are_bitwise_equal_to_eval() {
        let settings: [(&[usize], &[f32]); 5] = [
            (&[2, 3, 5, 7], &[1.0, 1.0, 2.0, 2.0]),
            (&[1, 2, 9, 8], &[1.0, 1.0, 0.6, 1.7]),
            (&[11], &[3.0]),
            (&[2, 4, 3], &[2.0, 0.5, 1.0]),
            (&[1, 4, 60, 70], &[1.0, 1.0, 2.0, 0.3]),
        ];
        for (shape, scales) in settings {
            let scales = Tensor::from_slice(&[scales.len()], scales).unwrap();
            for mode in ["nearest", "linear", "cubic"] {
                for x in [numbers::<u8>(shape), numbers::<i8>(shape), numbers::<i32>(shape)] {
                    let case = case(mode, "half_pixel").input(x).absent();
                    case.weight(scales.clone()).check(exact);
                }
                let case = case(mode, "align_corners").input(numbers::<f64>(shape)).absent();
                case.weight(scales.clone()).check(exact);
            }
        }
    }

    #[test]
    fn outside_of_a_region_is_the_extrapolation_value() {
        let region = [0.0_f32, 0.0, 0.4, -0.2, 1.0, 1.0, 1.3, 0.6];
        let sizes = Tensor::from_slice(&[4], &[1_i64, 2, 6, 9]).unwrap();
        for mode in ["nearest", "linear"] {
            case(mode, "tf_crop_and_resize")
                .attr("extrapolation_value", Attr::Float(7.5))
                .input(numbers::<i16>(&[1, 2, 4, 5]))
                .weight(Tensor::from_slice(&[8], &region).unwrap())
                .absent()
                .weight(sizes.clone())
                .check(exact);
        }
    }
}
