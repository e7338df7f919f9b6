//! Resize and Upsample in f32 of the last one or two axes: each row of a result blends
//! rows of its plane, and then the elements of that blend.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_kernels::resample::Resample;
use ort_kernels::{Isa, vec};
use ort_ops::ops::resize::{Resize, Sampling, Table};
use ort_tensor::{DType, Inputs, Room, Shape, TensorError, TensorViewMut};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::parameters::Parameters;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct ResizeKernel {
    cpu: Cpu,
    op: Resize,
    parameters: Option<Parameters>,
}

/// Prepared state for one shape signature, if the result depends only on shapes.
struct State(Option<Plan>);

/// How planes are resized; `None` if other axes change, too.
struct Plan {
    shape: Shape,
    axes: Option<[Axis<f32>; 2]>,
    /// Resamples rows, if supported.
    resample: Option<Resample>,
}

/// How the elements along an axis are computed, with weights of type `W`.
#[derive(Debug)]
pub(super) struct Axis<W> {
    pub(super) n_inputs: usize,
    pub(super) n_outputs: usize,
    /// `None` if each output is the input of the same index.
    pub(super) taps: Option<Taps<W>>,
}

/// Inputs and weights, grouped by output.
#[derive(Debug)]
pub(super) struct Taps<W> {
    taps: Vec<(usize, W)>,
    ends: Vec<usize>,
    /// Whether each output is one of the inputs.
    are_picked: bool,
    /// Whether each output has two inputs.
    are_pairs: bool,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Resize>().cloned() else { return Ok(None) };
    if !compiler.are_f32(0..1) {
        return Ok(None);
    }
    let parameters = Parameters::of(compiler);
    Ok(Some(Box::new(ResizeKernel { cpu: compiler.cpu, op, parameters })))
}

/// The last two axes of a result, if no other changes and it is not empty.
pub(super) fn last_axes<W: Copy + PartialEq>(
    x: &[usize],
    sampling: &Sampling,
    weight: impl Fn(f64) -> W + Copy,
) -> Result<Option<[Axis<W>; 2]>, TensorError> {
    let Sampling { shape, tables } = sampling;
    let n_outer = x.len().saturating_sub(2);
    if tables[..n_outer].iter().any(Option::is_some) || shape.contains(&0) || x.is_empty() {
        return Ok(None);
    }
    let axis = |i: usize| -> Result<_, TensorError> {
        let taps = tables[i].as_ref().map(|table| Taps::new(table, weight)).transpose()?;
        Ok(Axis { n_inputs: x[i], n_outputs: shape[i], taps })
    };
    let last = axis(x.len() - 1)?;
    Ok(Some(match x.len() {
        1 => [Axis { n_inputs: 1, n_outputs: 1, taps: None }, last],
        rank => [axis(rank - 2)?, last],
    }))
}

impl Plan {
    #[expect(clippy::cast_possible_truncation, reason = "weights of f32 elements are f32")]
    fn new(op: &Resize, x: &[usize], inputs: Inputs<'_>) -> Result<Self, OpError> {
        let sampling = op.sampling(x, inputs)?;
        let axes = last_axes(x, &sampling, |weight| weight as f32)?;
        let last = axes.as_ref().and_then(|[_, last]| last.taps.as_ref());
        let resample = last.map(Taps::resample).transpose()?.flatten();
        Ok(Self { shape: sampling.shape, axes, resample })
    }
}

impl<W: Copy + PartialEq> Taps<W> {
    fn new(table: &Table, weight: impl Fn(f64) -> W) -> Result<Self, TensorError> {
        let (mut taps, mut ends) = (Room::new(), Room::new());
        let (mut are_picked, mut are_pairs) = (true, true);
        for row in table.rows() {
            are_picked &= matches!(row, [(_, 1.0)]);
            are_pairs &= row.len() == 2;
            taps.extend(row.iter().map(|&(i, of)| (i, weight(of))))?;
            ends.push(taps.len())?;
        }
        Ok(Self { taps: taps.into_vec(), ends: ends.into_vec(), are_picked, are_pairs })
    }

    /// The two inputs of each output, if each has two.
    pub(super) fn pairs(&self) -> Option<&[[(usize, W); 2]]> {
        self.are_pairs.then(|| self.taps.as_chunks().0)
    }

    /// The inputs of output `i`.
    #[inline]
    pub(super) fn of(&self, i: usize) -> &[(usize, W)] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.taps[start..self.ends[i]]
    }

    /// The input of each output, if each has one.
    pub(super) fn picked(&self) -> Option<impl Iterator<Item = usize> + '_> {
        self.are_picked.then(|| self.taps.iter().map(|&(i, _)| i))
    }
}

impl Taps<f32> {
    /// A resampler for rows, if each output blends a few inputs.
    fn resample(&self) -> Result<Option<Resample>, TensorError> {
        if self.are_picked {
            return Ok(None);
        }
        let outputs = Room::of((0..self.ends.len()).map(|i| self.of(i)))?;
        Ok(Resample::new(&outputs))
    }
}

/// The rows of a run.
struct Planes<'a> {
    isa: Isa,
    x: &'a [f32],
    height: &'a Axis<f32>,
    width: &'a Axis<f32>,
    resample: Option<&'a Resample>,
    /// The value of elements outside the input.
    outside: f32,
}

impl Planes<'_> {
    /// Computes row `at`, counted over all planes; `blend` holds a row of the input.
    fn row(&self, at: usize, y: &mut [f32], blend: &mut [f32]) {
        let (plane, row) = (at / self.height.n_outputs, at % self.height.n_outputs);
        let n = self.width.n_inputs;
        let input = |i: usize| &self.x[(plane * self.height.n_inputs + i) * n..][..n];
        let from = match self.height.taps.as_ref().map(|taps| taps.of(row)) {
            None => input(row),
            Some([]) => return y.fill(self.outside),
            Some(&[(i, 1.0)]) => input(i),
            Some(&[(i, weight)]) => {
                vec::map(input(i), blend, |_, y| vec::mul_scalar(self.isa, y, weight));
                blend
            }
            Some(&[(i, first), (j, second), ref rest @ ..]) => {
                vec::weighted_sum(self.isa, blend, input(i), input(j), [first, second]);
                for &(i, weight) in rest {
                    vec::add_scaled(self.isa, blend, input(i), weight);
                }
                blend
            }
        };
        if let Some(resample) = self.resample {
            return resample.run(self.isa, from, y);
        }
        match &self.width.taps {
            None => y.copy_from_slice(from),
            Some(taps) if taps.are_picked => {
                y.iter_mut().zip(&taps.taps).for_each(|(y, &(i, _))| *y = from[i]);
            }
            Some(taps) => {
                for (i, y) in y.iter_mut().enumerate() {
                    *y = match taps.of(i) {
                        [] => self.outside,
                        taps => taps.iter().map(|&(i, weight)| weight * from[i]).sum(),
                    };
                }
            }
        }
    }
}

impl ResizeKernel {
    fn run_plan(&self, plan: &Plan, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Some([height, width]) = &plan.axes else {
            return Ok(ort_graph::Operator::eval(&self.op, io.inputs, io.outputs)?);
        };
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y: &mut [f32] =
            TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, &plan.shape)?)?;
        let (isa, outside) = (self.cpu.isa, self.op.extrapolation_value);
        let resample = plan.resample.as_ref();
        let planes = Planes { isa, x, height, width, resample, outside };
        let n = width.n_outputs;
        let rows = Rows { len: n, cost: n.saturating_mul(4) };
        rows.for_each_with(io.threads, (&mut *io.scratch, width.n_inputs), y, |start, y, blend| {
            for (at, y) in (start / n..).zip(y.chunks_exact_mut(n)) {
                planes.row(at, y, &mut blend[..width.n_inputs]);
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
        let width = x.last().copied().unwrap_or(1);
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
        named!(self.cpu.isa => "resize_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, exact, floats, within};

    const SHAPES: [(&[usize], &[f32]); 6] = [
        (&[2, 3, 5, 7], &[1.0, 1.0, 2.0, 2.0]),
        (&[1, 2, 9, 8], &[1.0, 1.0, 0.6, 1.7]),
        (&[3, 20], &[1.0, 0.3]),
        (&[11], &[3.0]),
        (&[2, 4, 3], &[2.0, 0.5, 1.0]),
        (&[1, 16, 60, 70], &[1.0, 1.0, 2.0, 4.0]),
    ];

    fn case(mode: &str, coordinates: &str, (shape, scales): (&[usize], &[f32])) -> Case {
        Case::new("Resize", 19)
            .attr("mode", Attr::String(mode.into()))
            .attr("coordinate_transformation_mode", Attr::String(coordinates.into()))
            .input(floats(shape))
            .absent()
            .weight(Tensor::from_slice(&[scales.len()], scales).unwrap())
    }

    #[test]
    fn the_nearest_is_picked() {
        for setting in SHAPES {
            for coordinates in ["half_pixel", "asymmetric", "align_corners"] {
                case("nearest", coordinates, setting).check(exact);
            }
        }
    }

    #[test]
    fn neighbours_are_blended() {
        for setting in SHAPES {
            for coordinates in ["half_pixel", "pytorch_half_pixel", "align_corners"] {
                // Two or four values of at most 4, with weights that add up to at most 2 in magnitude, twice.
                for mode in ["linear", "cubic"] {
                    let bound = 4.0 * 4.0 * 16.0 * (f32::EPSILON / 2.0);
                    case(mode, coordinates, setting).check(within(bound));
                }
            }
        }
    }

    #[test]
    fn infinity_times_a_zero_weight_is_nan() {
        let mut x = [1.0; 30];
        x[13] = f32::INFINITY;
        let x = Tensor::from_slice(&[1, 1, 5, 6], &x).unwrap();
        let sizes = Tensor::from_slice(&[4], &[1_i64, 1, 9, 11]).unwrap();
        for mode in ["linear", "cubic"] {
            Case::new("Resize", 13)
                .attr("mode", Attr::String(mode.into()))
                .attr("coordinate_transformation_mode", Attr::String("align_corners".into()))
                .input(x.clone())
                .absent()
                .absent()
                .weight(sizes.clone())
                .check(within(16.0 * f32::EPSILON));
        }
    }

    #[test]
    fn sizes_and_regions_are_supported() {
        let sizes = Tensor::from_slice(&[4], &[1_i64, 2, 6, 9]).unwrap();
        let x = || floats(&[1, 2, 4, 5]);
        Case::new("Resize", 13).input(x()).absent().absent().weight(sizes.clone()).check(exact);
        let region = [0.0_f32, 0.0, 0.4, -0.2, 1.0, 1.0, 1.3, 0.6];
        let region = Tensor::from_slice(&[8], &region).unwrap();
        Case::new("Resize", 13)
            .attr("mode", Attr::String("linear".into()))
            .attr("coordinate_transformation_mode", Attr::String("tf_crop_and_resize".into()))
            .attr("extrapolation_value", Attr::Float(7.0))
            .input(x())
            .weight(region)
            .absent()
            .weight(sizes)
            .check(within(16.0 * f32::EPSILON));
        let scales = Tensor::from_slice(&[4], &[1.0_f32, 1.0, 2.0, 3.0]).unwrap();
        Case::new("Upsample", 9).input(x()).weight(scales).check(exact);
    }
}
