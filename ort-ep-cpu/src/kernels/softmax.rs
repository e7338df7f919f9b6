//! Softmax and LogSoftmax in f32, along any axis.

use ort_ep::Claim;
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Graph, NodeId};
use ort_kernels::{Isa, vec};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::softmax::{Form, Softmax};
use ort_tensor::{DType, Shape};

use super::{Compiled, Compiler, KernelDef, op};
use crate::cpu::{Cpu, Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// Lanes that are gathered together where they interleave: a cache line of each step.
const TOGETHER: usize = 16;

/// One softmax; it works in place.
#[derive(Clone, Copy, Debug)]
struct SoftmaxKernel {
    cpu: Cpu,
    op: Softmax,
}

/// How lanes lie: `[…, len, inner]`.
struct State {
    shape: Shape,
    len: usize,
    inner: usize,
}

fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let node = graph.get_node(id)?;
    let x = node.inputs.first().copied().flatten()?;
    let is_ours = is_ours(op::<Softmax>(graph, id)?) && graph.fact(x).dtype() == Some(DType::F32);
    is_ours.then(|| Claim { in_place: [(0, 0)].into_iter().collect(), ..Claim::one(id, node) })
}

const fn is_ours(op: &Softmax) -> bool {
    matches!(op.form, Form::Softmax | Form::LogSoftmax)
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    match compiler.op::<Softmax>() {
        Some(&op) if is_ours(&op) && compiler.are_f32(0..1) => {
            Ok(Some(Box::new(SoftmaxKernel { cpu: compiler.cpu, op })))
        }
        _ => Ok(None),
    }
}

impl SoftmaxKernel {
    fn lane(&self) -> fn(Isa, &mut [f32]) {
        match self.op.form {
            Form::LogSoftmax => vec::log_softmax,
            _ => vec::softmax,
        }
    }

    /// A block of `inner` lanes, interleaved.
    fn block(&self, inner: usize, block: &mut [f32], scratch: &mut [f32]) {
        let len = block.len() / inner;
        for first in (0..inner).step_by(TOGETHER) {
            let n = TOGETHER.min(inner - first);
            for (i, row) in block.chunks_exact(inner).enumerate() {
                let lanes = scratch.chunks_exact_mut(len);
                lanes.zip(&row[first..first + n]).for_each(|(lane, &x)| lane[i] = x);
            }
            let lanes = scratch.chunks_exact_mut(len).take(n);
            lanes.for_each(|lane| self.lane()(self.cpu.isa, lane));
            for (i, row) in block.chunks_exact_mut(inner).enumerate() {
                let lanes = scratch.chunks_exact(len);
                lanes.zip(&mut row[first..first + n]).for_each(|(lane, x)| *x = lane[i]);
            }
        }
    }
}

impl Kernel for SoftmaxKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let axis = normalize_axis(self.op.axis, x.len())?;
        let (len, inner) = match self.op.is_flattened {
            true => (x[axis..].iter().product(), 1),
            false => (x[axis], x[axis + 1..].iter().product()),
        };
        let scratch_len = if inner > 1 { len * TOGETHER } else { 0 };
        let state = State { shape: Shape::from_slice(x), len, inner };
        Ok(Prepared::new(state).with_scratch(self.cpu.scratch_bytes(scratch_len)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { ref shape, len, inner } = prepared.state()?;
        let x = match io.outputs[0].in_place_of() {
            Some(_) => None,
            None => Some(io.inputs.tensor(0)?.as_slice::<f32>()?),
        };
        let y = io.outputs[0].tensor(DType::F32, shape)?.into_slice::<f32>()?;
        if y.is_empty() {
            return Ok(());
        }
        let block = len * inner;
        let n_parts = n_parts(io.threads, y.len().saturating_mul(24)).min(y.len() / block);
        let part_len = (y.len() / block).div_ceil(n_parts) * block;
        let scratch_len = if inner > 1 { len * TOGETHER } else { 0 };
        let team = Team::new(io.threads, n_parts).with_scratch(io.scratch, scratch_len);
        team.run(y.chunks_mut(part_len).enumerate(), |(i, y), scratch| {
            for (j, y) in y.chunks_exact_mut(block).enumerate() {
                if let Some(x) = x {
                    y.copy_from_slice(&x[i * part_len + j * block..][..block]);
                }
                match inner {
                    1 => self.lane()(self.cpu.isa, y),
                    _ => self.block(inner, y, scratch),
                }
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "softmax_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, floats, relative, within};

    /// An exponential is within 1 ulp, of an argument that is off by half an ulp of at most 8; the
    /// sum of `n` such terms and the division add theirs.
    fn bound(n: usize) -> f32 {
        (8.0 + 2.0 + n as f32 / 64.0 + 7.0 + 2.0) * f32::EPSILON / 2.0 + f32::EPSILON
    }

    #[test]
    fn lanes_run_along_the_axis_or_before_13_along_the_rest() {
        let shapes: [(&[usize], i64); 9] = [
            (&[7], 0),
            (&[3, 1], -1),
            (&[4, 33], -1),
            (&[2, 5, 37], 1),
            (&[9, 2], 0),
            (&[300, 500], 1),
            (&[2, 40, 900], 1),
            (&[0, 3], 1),
            (&[3, 0], 1),
        ];
        for (shape, axis) in shapes {
            for version in [11, 13] {
                let case = |name| {
                    Case::new(name, version).attr("axis", Attr::Int(axis)).input(floats(shape))
                };
                let n = shape.iter().product();
                case("Softmax").check(relative(bound(n)));
                // The logarithm is at most 8 + ln n, and its terms are rounded as such.
                case("LogSoftmax").check(within((8.0 + (n as f32).max(1.0).ln()) * bound(n)));
            }
        }
    }
}
