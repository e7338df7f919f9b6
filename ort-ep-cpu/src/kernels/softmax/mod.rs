//! Softmax and LogSoftmax of f32, and of f64. Contiguous lanes are computed in place, and a few adjacent
//! ones are gathered. Many adjacent ones are columns: first the maximum and the total of each, for which
//! threads share the columns, then the result, for which they share the rows.

mod doubles;

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Graph, NodeId, OpError};
use ort_kernels::vec::{self, Fold};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::softmax::{Form, Softmax};
use ort_tensor::{DType, n_elements};

use self::doubles::DoubleSoftmaxKernel;
use super::{Compiled, Compiler, KernelDef, op};
use crate::cpu::{Cpu, Team, floats};
use crate::lanes::Lanes;
use crate::pieces::{LONG, PIECE, Rows, first_and_output, wanted};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// Fewer adjacent lanes are gathered: less than a cache line.
const FEW: usize = 16;
/// The cost of an element, and the overhead per lane, in multiply-adds: about 50 ns.
const COST: usize = 24;
const LANE: usize = 4096;
/// Elements of a long lane whose exponentials are added up at once.
const TILE: usize = 1024;

#[derive(Debug)]
struct SoftmaxKernel {
    cpu: Cpu,
    op: Softmax,
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

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<Softmax>().filter(|op| has_kernel(op)) else { return Ok(None) };
    Ok(match compiler.dtype_of(0..1) {
        Some(DType::F32) => Some(Box::new(SoftmaxKernel { cpu: compiler.cpu, op })),
        Some(DType::F64) => Some(Box::new(DoubleSoftmaxKernel { isa: compiler.cpu.isa, op })),
        _ => None,
    })
}

fn has_kernel(op: &Softmax) -> bool {
    op.form != Form::Hardmax
}

/// The lanes of an operand of shape `x`.
fn lanes_of(op: &Softmax, x: &[usize]) -> Result<Lanes, OpError> {
    let axis = normalize_axis(op.axis, x.len())?;
    Ok(match op.is_flattened {
        true => Lanes::flattened(x, axis),
        false => Lanes::along(x, axis),
    })
}

impl SoftmaxKernel {
    /// Contiguous lanes.
    fn lanes(&self, x: Option<&[f32]>, y: &mut [f32], len: usize) {
        if len > LONG {
            for (i, y) in y.chunks_exact_mut(len).enumerate() {
                self.long(x.map(|x| &x[i * len..][..len]), y);
            }
            return;
        }
        let form = match self.op.form {
            Form::LogSoftmax => vec::SoftmaxForm::Logarithm,
            Form::Softmax | Form::Hardmax => vec::SoftmaxForm::Direct,
        };
        vec::softmax_rows(self.cpu.isa, vec::Rows { x, y, len }, form);
    }

    /// A long lane.
    #[expect(clippy::cast_possible_truncation, reason = "results are f32")]
    fn long(&self, x: Option<&[f32]>, y: &mut [f32]) {
        let isa = self.cpu.isa;
        if let Some(x) = x {
            let pieces = y.chunks_mut(PIECE).zip(x.chunks(PIECE));
            wanted(pieces).for_each(|(y, x)| y.copy_from_slice(x));
        }
        let greatest = wanted(y.chunks(PIECE)).fold(f32::NEG_INFINITY, |greatest, y| {
            vec::fold_row(isa, Fold::Max, &[greatest, vec::fold_row(isa, Fold::Max, y)])
        });
        let is_logarithm = self.op.form == Form::LogSoftmax;
        let (mut total, mut powers) = (0.0, [0.0; TILE]);
        for y in wanted(y.chunks_mut(PIECE)) {
            vec::sub_scalar(isa, y, greatest);
            for y in y.chunks_mut(TILE) {
                let powers = &mut powers[..y.len()];
                powers.copy_from_slice(y);
                vec::exp(isa, powers);
                total += f64::from(vec::fold_row(isa, Fold::Sum, powers));
                if !is_logarithm {
                    y.copy_from_slice(powers);
                }
            }
        }
        for y in wanted(y.chunks_mut(PIECE)) {
            match is_logarithm {
                true => vec::sub_scalar(isa, y, total.ln() as f32),
                false => vec::mul_scalar(isa, y, (1.0 / total) as f32),
            }
        }
    }

    /// All lanes of a block, `[len, inner]`, through `gathered`: `[inner][len]`.
    fn block(&self, lanes: Lanes, x: Option<&[f32]>, y: &mut [f32], gathered: &mut [f32]) {
        let Lanes { len, inner } = lanes;
        let gathered = &mut gathered[..inner * len];
        for (i, from) in x.unwrap_or(y).chunks_exact(inner).enumerate() {
            let to = gathered[i..].iter_mut().step_by(len);
            to.zip(from).for_each(|(to, from)| *to = *from);
        }
        self.lanes(None, gathered, len);
        for (i, to) in y.chunks_exact_mut(inner).enumerate() {
            let from = gathered[i..].iter().step_by(len);
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }

    /// Adjacent lanes, in place. For each set of columns the scratch holds their maxima,
    /// then the values for [`SoftmaxKernel::row`].
    fn columns(
        &self,
        lanes: Lanes,
        (x, y): (Option<&[f32]>, &mut [f32]),
        scratch: &mut [f32],
        threads: &dyn Threads,
    ) {
        let (Lanes { len, inner }, isa) = (lanes, self.cpu.isa);
        let (set, n_sets) = lanes.sets();
        let from = x.unwrap_or(y);
        let cost = len.saturating_mul(set).saturating_mul(COST);
        Rows { len: 2 * set, cost }.for_each(threads, scratch, |start, scratch| {
            for (i, scratch) in (start / (2 * set)..).zip(scratch.chunks_exact_mut(2 * set)) {
                let (block, first) = (i / n_sets, i % n_sets * set);
                let n = set.min(inner - first);
                let (greatest, total) = scratch.split_at_mut(set);
                let (greatest, total) = (&mut greatest[..n], &mut total[..n]);
                let x = &from[block * len * inner..][..len * inner];
                vec::column_totals(isa, &x[first..], inner, greatest, total);
                total.iter_mut().for_each(|total| *total = self.finishing(*total));
            }
        });
        let (scratch, cost) = (&*scratch, inner.saturating_mul(COST));
        Rows { len: inner, cost }.for_each(threads, y, |start, y| {
            for (row, y) in (start / inner..).zip(y.chunks_exact_mut(inner)) {
                if let Some(x) = x {
                    y.copy_from_slice(&x[row * inner..][..inner]);
                }
                let sets = scratch.chunks_exact(2 * set).skip(row / len * n_sets);
                for (y, set_of) in y.chunks_mut(set).zip(sets) {
                    let (greatest, finishing) = set_of.split_at(set);
                    self.row(y, greatest, finishing);
                }
            }
        });
    }

    /// The factor or the subtrahend of a row, given the total of its column.
    fn finishing(&self, total: f32) -> f32 {
        match self.op.form {
            Form::LogSoftmax => total.ln(),
            Form::Softmax | Form::Hardmax => 1.0 / total,
        }
    }

    /// A row of columns.
    fn row(&self, y: &mut [f32], greatest: &[f32], finishing: &[f32]) {
        let isa = self.cpu.isa;
        match self.op.form {
            Form::LogSoftmax => {
                vec::sub(isa, y, &greatest[..y.len()]);
                vec::sub(isa, y, &finishing[..y.len()]);
            }
            Form::Softmax | Form::Hardmax => vec::softmax_of_columns(isa, y, greatest, finishing),
        }
    }
}

impl Lanes {
    /// The number of columns per set, and the number of sets in a block.
    fn sets(self) -> (usize, usize) {
        let set = self.inner.clamp(1, vec::MAX_COLUMNS);
        (set, self.inner.div_ceil(set))
    }
}

impl Kernel for SoftmaxKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let lanes = lanes_of(&self.op, x)?;
        let n_bytes = match lanes.inner {
            0 | 1 => 0,
            inner if inner < FEW => self.cpu.scratch_bytes(lanes.len * inner),
            inner => {
                let (set, n_sets) = lanes.sets();
                let n_blocks =
                    n_elements(x).unwrap_or(0).checked_div(lanes.len * inner).unwrap_or(0);
                n_blocks * n_sets * 2 * set * size_of::<f32>()
            }
        };
        Ok(Prepared::new(lanes).with_scratch(n_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &lanes: &Lanes = prepared.state()?;
        let (x, y) = first_and_output(io.inputs, &mut io.outputs[0])?;
        if y.is_empty() {
            return Ok(());
        }
        let Lanes { len, inner } = lanes;
        let cost = inner.saturating_mul(len.saturating_mul(COST).saturating_add(LANE));
        let rows = Rows { len: len * inner, cost };
        if inner == 1 {
            rows.for_each(io.threads, y, |start, y| {
                self.lanes(x.map(|x| &x[start..][..y.len()]), y, len);
            });
            return Ok(());
        }
        if inner >= FEW {
            self.columns(lanes, (x, y), floats(io.scratch), io.threads);
            return Ok(());
        }
        let n_blocks = y.len() / rows.len;
        let team = Team::new(io.threads, n_blocks).if_worth(n_blocks.saturating_mul(rows.cost));
        let team = team.with_scratch(io.scratch, rows.len);
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

    use super::{LONG, PIECE};
    use crate::case::{Case, floats, relative, within};

    /// An exponential has an error of one unit, and so has its argument, which is at
    /// most 8; a sum of up to 1000 terms 23 units, and its reciprocal and the product one.
    const ERROR: f32 = 40.0 * f32::EPSILON;

    #[test]
    fn lanes_of_any_stride_sum_to_one() {
        let cases: [(&[usize], i64); 11] = [
            (&[1], 0),
            (&[7, 1], 1),
            (&[3, 1000], -1),
            (&[2, 3, 65], 2),
            (&[2, 21, 5], 1),
            (&[2, 5, 3, 17], 1),
            (&[40, 333], 0),
            (&[0, 5], 1),
            (&[600, 301], 1),
            (&[2, 70, 20, 30], 1),
            (&[1, 300, 700], 1),
        ];
        for (shape, axis) in cases {
            for version in [1, 13] {
                let case = |name| Case::new(name, version).attr("axis", Attr::Int(axis));
                case("Softmax").input(floats(shape)).check(relative(ERROR));
                // Logarithms are at most 8 + ln(181000) in magnitude, and their sums have an error of ERROR.
                case("LogSoftmax").input(floats(shape)).check(within(ERROR + 24.0 * f32::EPSILON));
            }
        }
    }

    #[test]
    fn long_lanes_are_computed_piece_by_piece() {
        let shape = [2, LONG + PIECE + 5];
        Case::new("Softmax", 13).input(floats(&shape)).check(relative(ERROR));
        Case::new("LogSoftmax", 13).input(floats(&shape)).check(within(ERROR * 24.0));
        for spoiler in [f32::INFINITY, f32::NAN] {
            let mut x = vec![f32::NEG_INFINITY; shape[1]];
            (x[3], x[LONG]) = (1.0, 2.0);
            let seen = Tensor::from_slice(&[shape[1]], &x).unwrap();
            Case::new("Softmax", 13).input(seen).check(relative(ERROR));
            x[PIECE] = spoiler;
            let spoiled = Tensor::from_slice(&[shape[1]], &x).unwrap();
            Case::new("Softmax", 13).input(spoiled).check(relative(ERROR));
        }
    }

    #[test]
    fn infinities_and_nan_affect_only_their_lane() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let x = [1.0, nan, 2.0, -inf, 1.0, 0.5, inf, 1.0, 0.0, -inf, -inf, -inf];
        let rows = Tensor::from_slice(&[4, 3], &x).unwrap();
        Case::new("Softmax", 13).input(rows).check(relative(ERROR));
        let repeated: Vec<f32> = x.iter().flat_map(|x| [*x; 20]).collect();
        for name in ["Softmax", "LogSoftmax"] {
            let columns = Tensor::from_slice(&[4, 3, 20], &repeated).unwrap();
            let case = Case::new(name, 13).attr("axis", Attr::Int(1));
            case.input(columns).check(relative(ERROR));
        }
    }
}
