//! Softmax and LogSoftmax in f32. Contiguous lanes are computed where they are; others are gathered
//! a cache line's worth of lanes at a time.

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared};
use ort_graph::{Graph, NodeId};
use ort_kernels::vec;
use ort_ops::infer::normalize_axis;
use ort_ops::ops::softmax::{Form, Softmax};
use ort_tensor::{DType, n_elements};

use super::{Compiled, Compiler, KernelDef, op};
use crate::cpu::{Cpu, Team};
use crate::pieces::{Rows, first_and_output};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// Lanes that are gathered together: those that share a cache line.
const GATHERED: usize = 16;
/// What an element costs, in multiply-adds.
const COST: usize = 16;

#[derive(Debug)]
struct SoftmaxKernel {
    cpu: Cpu,
    op: Softmax,
}

/// The lanes: `len` elements, `inner` apart.
#[derive(Clone, Copy, Debug)]
struct Lanes {
    len: usize,
    inner: usize,
}

/// A lane is read before it is written.
fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let node = graph.get_node(id)?;
    let x = node.inputs.first().copied().flatten()?;
    let is_taken = has_kernel(op::<Softmax>(graph, id)?);
    (is_taken && graph.fact(x).dtype() == Some(DType::F32)).then(|| {
        let mut claim = Claim::one(id, node);
        claim.in_place.push((0, 0));
        claim
    })
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<Softmax>().filter(|op| has_kernel(op)) else { return Ok(None) };
    if !compiler.are_f32(0..1) {
        return Ok(None);
    }
    Ok(Some(Box::new(SoftmaxKernel { cpu: compiler.cpu, op })))
}

fn has_kernel(op: &Softmax) -> bool {
    op.form != Form::Hardmax
}

impl SoftmaxKernel {
    fn lane(&self, lane: &mut [f32]) {
        match self.op.form {
            Form::LogSoftmax => vec::log_softmax(self.cpu.isa, lane),
            Form::Softmax | Form::Hardmax => vec::softmax(self.cpu.isa, lane),
        }
    }

    /// The lanes of a block, `[len, inner]`, some at a time through `gathered`: `[some][len]`.
    fn block(&self, lanes: Lanes, x: Option<&[f32]>, y: &mut [f32], gathered: &mut [f32]) {
        let Lanes { len, inner } = lanes;
        for first in (0..inner).step_by(GATHERED) {
            let n = GATHERED.min(inner - first);
            let gathered = &mut gathered[..n * len];
            for (i, from) in x.unwrap_or(y).chunks_exact(inner).enumerate() {
                let to = gathered[i..].iter_mut().step_by(len);
                to.zip(&from[first..first + n]).for_each(|(to, from)| *to = *from);
            }
            gathered.chunks_exact_mut(len).for_each(|lane| self.lane(lane));
            for (i, to) in y.chunks_exact_mut(inner).enumerate() {
                let from = gathered[i..].iter().step_by(len);
                to[first..first + n].iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
        }
    }
}

impl Kernel for SoftmaxKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let axis = normalize_axis(self.op.axis, x.len())?;
        let product = |dims| n_elements(dims).unwrap_or(0);
        let lanes = match self.op.is_flattened {
            true => Lanes { len: product(&x[axis..]), inner: 1 },
            false => Lanes { len: x[axis], inner: product(&x[axis + 1..]) },
        };
        let gathered = if lanes.inner > 1 { lanes.len * GATHERED.min(lanes.inner) } else { 0 };
        Ok(Prepared::new(lanes).with_scratch(self.cpu.scratch_bytes(gathered)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &lanes: &Lanes = prepared.state()?;
        let (x, y) = first_and_output(io.inputs, &mut io.outputs[0])?;
        if y.is_empty() {
            return Ok(());
        }
        let Lanes { len, inner } = lanes;
        let rows = Rows { len: len * inner, cost: (len * inner).saturating_mul(COST) };
        if inner == 1 {
            rows.for_each(io.threads, y, |start, y| {
                for (i, lane) in y.chunks_exact_mut(len).enumerate() {
                    if let Some(x) = x {
                        lane.copy_from_slice(&x[start + i * len..][..len]);
                    }
                    self.lane(lane);
                }
            });
            return Ok(());
        }
        let n_blocks = y.len() / rows.len;
        let team = Team::new(io.threads, n_blocks).if_worth(n_blocks.saturating_mul(rows.cost));
        let team = team.with_scratch(io.scratch, len * GATHERED.min(inner));
        team.run(y.chunks_exact_mut(rows.len).enumerate(), |(i, y), gathered| {
            let x = x.map(|x| &x[i * y.len()..][..y.len()]);
            self.block(lanes, x, y, gathered);
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
    use ort_tensor::Tensor;

    use crate::case::{Case, floats, relative, within};

    /// An exponential is good to one unit, and so is the difference it is taken of, which is at
    /// most 8; a sum of up to 1000 terms to 23 units, and its reciprocal and the product to one.
    const ERROR: f32 = 40.0 * f32::EPSILON;

    #[test]
    fn lanes_of_any_distance_sum_to_one() {
        let cases: [(&[usize], i64); 9] = [
            (&[1], 0),
            (&[7, 1], 1),
            (&[3, 1000], -1),
            (&[2, 3, 65], 2),
            (&[2, 21, 5], 1),
            (&[2, 5, 3, 17], 1),
            (&[40, 333], 0),
            (&[0, 5], 1),
            (&[600, 301], 1),
        ];
        for (shape, axis) in cases {
            for version in [1, 13] {
                let case = |name| Case::new(name, version).attr("axis", Attr::Int(axis));
                case("Softmax").input(floats(shape)).check(relative(ERROR));
                // Logarithms are at most 8 + ln(181000) in size, and their sums good to ERROR.
                case("LogSoftmax").input(floats(shape)).check(within(ERROR + 24.0 * f32::EPSILON));
            }
        }
    }

    #[test]
    fn infinities_and_nan_spoil_their_lane_only() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let x = [1.0, nan, 2.0, -inf, 1.0, 0.5, inf, 1.0, 0.0, -inf, -inf, -inf];
        let x = Tensor::from_slice(&[4, 3], &x).unwrap();
        Case::new("Softmax", 13).input(x).check(relative(ERROR));
    }
}
