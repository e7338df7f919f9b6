//! MaxPool, AveragePool and the global pools in f32.
//!
//! MaxPool passes NaN over, as ONNX Runtime does; the operator's own `eval` keeps it.

use std::sync::Arc;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Operator;
use ort_kernels::conv_f32::{Axis, Pool, PoolKind};
use ort_kernels::vec;
use ort_ops::infer::WindowAttrs;
use ort_ops::ops::average_pool::AveragePool;
use ort_ops::ops::global_pool::GlobalPool;
use ort_ops::ops::max_pool::MaxPool;
use ort_tensor::{DType, Shape};

use super::conv::axes;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One pool; what no kernel computes, `op` does.
#[derive(Debug)]
struct PoolKernel {
    cpu: Cpu,
    form: Form,
    op: Arc<dyn Operator>,
}

#[derive(Debug)]
enum Form {
    Window(Box<WindowAttrs>, PoolKind),
    GlobalAverage,
    GlobalMax,
}

/// What a shape signature makes of it.
struct State {
    shape: Shape,
    /// Elements of an input plane.
    plane: usize,
    /// Height and width, unless the window is the whole plane.
    axes: Option<[Axis; 2]>,
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let Some(form) = form(compiler) else { return Ok(None) };
    let rank = compiler.fact(0).and_then(ort_graph::Fact::rank);
    let is_ours = match form {
        Form::Window(..) => matches!(rank, Some(3 | 4)),
        _ => rank.is_some(),
    };
    // Indices are nothing that a kernel computes.
    let n_outputs = compiler.claim.outputs.iter().flatten().count();
    if !is_ours || n_outputs != 1 || !compiler.are_f32(0..1) {
        return Ok(None);
    }
    let op = compiler.graph.node(compiler.claim.nodes[0]).op.clone();
    Ok(Some(Box::new(PoolKernel { cpu: compiler.cpu, form, op })))
}

fn form(compiler: &Compiler<'_>) -> Option<Form> {
    if let Some(op) = compiler.op::<MaxPool>() {
        return Some(Form::Window(Box::new(op.window.clone()), PoolKind::Max));
    }
    if let Some(op) = compiler.op::<AveragePool>() {
        let kind = PoolKind::Average { count_padding: op.counts_padding };
        return Some(Form::Window(Box::new(op.window.clone()), kind));
    }
    match compiler.op::<GlobalPool>()? {
        GlobalPool::Average => Some(Form::GlobalAverage),
        GlobalPool::Max => Some(Form::GlobalMax),
        GlobalPool::Lp { .. } => None,
    }
}

/// Whether every window sees an element: only then has it a mean.
fn sees(axis: &Axis) -> bool {
    let inside = |at: usize| (axis.pad[0]..axis.pad[0] + axis.input).contains(&at);
    let taps = |o: usize| (0..axis.kernel).map(move |t| o * axis.stride + t * axis.dilation);
    (0..axis.output).all(|o| taps(o).any(inside))
}

impl PoolKernel {
    /// `None` where the operator's own `eval` is needed.
    fn state(&self, x: &[usize]) -> Result<Option<State>, KernelError> {
        let plane = x.get(2..).unwrap_or_default().iter().product();
        let mut shape = Shape::from_slice(x);
        let Form::Window(window, _) = &self.form else {
            shape.iter_mut().skip(2).for_each(|dim| *dim = 1);
            return Ok(Some(State { shape, plane, axes: None }));
        };
        let Some(kernel) = window.kernel.as_ref().filter(|_| x.len() > 2) else { return Ok(None) };
        let window = window.window(&x[2..], kernel)?;
        shape[2..].copy_from_slice(&window.output);
        let axes = axes(&window).filter(|axes| axes[0] == Axis::UNIT && axes.iter().all(sees));
        Ok(axes.map(|[_, height, width]| State { shape, plane, axes: Some([height, width]) }))
    }

    /// `n_planes` planes of `y` from plane `first` on.
    fn planes(
        &self,
        state: &State,
        (first, x): (usize, &[f32]),
        y: &mut [f32],
        scratch: &mut [f32],
    ) {
        let isa = self.cpu.isa;
        let out_plane: usize = state.shape[2..].iter().product();
        for (i, y) in y.chunks_exact_mut(out_plane).enumerate() {
            let plane = &x[(first + i) * state.plane..][..state.plane];
            match (&self.form, state.axes) {
                (&Form::Window(_, kind), Some(axes)) => {
                    Pool { isa, axes, kind }.run(plane, 0..axes[0].output, y, scratch);
                }
                (Form::GlobalMax, _) => y[0] = vec::max(isa, plane),
                _ => y[0] = vec::sum(isa, plane) / plane.len() as f32,
            }
        }
    }
}

impl Kernel for PoolKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let state = self.state(x)?;
        let axes = state.as_ref().and_then(|state| state.axes);
        let scratch_len = axes.map_or(0, |axes| Pool::scratch_len(&axes));
        Ok(Prepared::new(state).with_scratch(self.cpu.scratch_bytes(scratch_len)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Some(state) = prepared.state::<Option<State>>()? else {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        };
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y = io.outputs[0].tensor(DType::F32, &state.shape)?.into_slice::<f32>()?;
        if y.is_empty() {
            return Ok(());
        }
        let out_plane: usize = state.shape[2..].iter().product();
        let (taps, scratch_len) = match &state.axes {
            Some(axes) => (axes[0].kernel * axes[1].kernel, Pool::scratch_len(axes)),
            None => (state.plane, 0),
        };
        let n_planes = y.len() / out_plane;
        let n_parts = n_parts(io.threads, y.len().saturating_mul(taps)).min(n_planes);
        let per_part = n_planes.div_ceil(n_parts);
        let team = Team::new(io.threads, n_parts).with_scratch(io.scratch, scratch_len);
        team.run(y.chunks_mut(per_part * out_plane).enumerate(), |(i, y), scratch| {
            self.planes(state, (i * per_part, x), y, scratch);
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "pool_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, exact, floats, integers, relative};

    fn pool(name: &'static str, x: &[usize], attrs: &[(&str, &[i64])]) -> Case {
        let case = Case::new(name, 22).input(integers(x));
        attrs.iter().fold(case, |case, (name, ints)| case.attr(name, Attr::Ints(ints.to_vec())))
    }

    #[test]
    fn windows_of_small_integers_are_exact() {
        let cases: [(&[usize], &[(&str, &[i64])]); 8] = [
            (&[1, 3, 8, 9], &[("kernel_shape", &[2, 2]), ("strides", &[2, 2])]),
            (&[2, 2, 11, 7], &[("kernel_shape", &[3, 3]), ("pads", &[1, 1, 1, 1])]),
            (&[1, 4, 9, 40], &[("kernel_shape", &[3, 2]), ("dilations", &[2, 3])]),
            (&[1, 2, 33], &[("kernel_shape", &[5]), ("strides", &[3]), ("pads", &[2, 1])]),
            (&[1, 1, 5, 5], &[("kernel_shape", &[1, 1]), ("pads", &[1, 1, 1, 1])]),
            (&[1, 64, 56, 56], &[("kernel_shape", &[3, 3]), ("strides", &[2, 2])]),
            (&[0, 2, 4, 4], &[("kernel_shape", &[2, 2])]),
            (&[1, 0, 4, 4], &[("kernel_shape", &[2, 2])]),
        ];
        for (x, attrs) in cases {
            for ceil in [0, 1] {
                // A sum of integers is exact, and a quotient rounded once.
                pool("MaxPool", x, attrs).attr("ceil_mode", Attr::Int(ceil)).check(exact);
                for count in [0, 1] {
                    let case = pool("AveragePool", x, attrs).attr("ceil_mode", Attr::Int(ceil));
                    case.attr("count_include_pad", Attr::Int(count)).check(exact);
                }
            }
        }
    }

    #[test]
    fn a_window_may_be_the_whole_plane() {
        for shape in [&[2, 3, 7, 7][..], &[1, 5, 100], &[1, 512, 20, 20], &[2, 3], &[0, 2, 3]] {
            Case::new("GlobalAveragePool", 22).input(integers(shape)).check(exact);
            Case::new("GlobalMaxPool", 22).input(floats(shape)).check(exact);
        }
        let nothing = Case::new("GlobalAveragePool", 22).input(integers(&[1, 2, 0]));
        nothing.check(relative(0.0));
    }
}
