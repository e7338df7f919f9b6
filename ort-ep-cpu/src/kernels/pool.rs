//! MaxPool and AveragePool in f32 over one to three dimensions: plane by plane.

// collects are bounded: by the rank

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::conv_f32::{Axis, Pool, PoolKind, plane_parts};
use ort_ops::infer::WindowAttrs;
use ort_ops::ops::average_pool::AveragePool;
use ort_ops::ops::max_pool::MaxPool;
use ort_tensor::{DType, Shape, TensorViewMut};

use super::conv::axes;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, MAX_OPERATIONS};
use crate::pieces::{Rows, wanted};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// What a plane costs however small it is, in operations: some 50 ns.
const PLANE: usize = 1024;

#[derive(Debug)]
struct PoolKernel {
    cpu: Cpu,
    window: WindowAttrs,
    kind: PoolKind,
}

/// The sizes for one shape signature.
#[derive(Debug)]
struct Geometry {
    /// The shape of the result.
    shape: Shape,
    axes: [Axis; 3],
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let has_indices = compiler.claim.outputs.get(1).copied().flatten().is_some();
    let rank = compiler.fact(0).and_then(Fact::rank);
    if has_indices || !compiler.are_f32(0..1) || !matches!(rank, Some(3..=5)) {
        return Ok(None);
    }
    let (window, kind) = if let Some(op) = compiler.op::<MaxPool>() {
        (op.window.clone(), PoolKind::Max)
    } else if let Some(op) = compiler.op::<AveragePool>() {
        (op.window.clone(), PoolKind::Average { count_padding: op.counts_padding })
    } else {
        return Ok(None);
    };
    Ok(Some(Box::new(PoolKernel { cpu: compiler.cpu, window, kind })))
}

impl Kernel for PoolKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let wrong = |found| OpError::InputRank { index: 0, expected: "3, 4 or 5", found };
        let &[&[n, channels, ref input @ ..]] = shapes else { return Err(wrong(0).into()) };
        let kernel = self.window.kernel.as_deref().unwrap_or_default();
        let window = self.window.window(input, kernel)?;
        let Some(axes) = axes(&window) else { return Err(wrong(input.len() + 2).into()) };
        let shape = [n, channels].into_iter().chain(window.output.iter().copied()).collect();
        let geometry = Geometry { shape, axes };
        let scratch_bytes = self.cpu.scratch_bytes(Pool::scratch_len(&geometry.axes));
        Ok(Prepared::new(geometry).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Geometry { shape, axes } = prepared.state()?;
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, shape)?)?;
        if y.is_empty() {
            return Ok(());
        }
        let (isa, kind) = (self.cpu.isa, self.kind);
        let n_inputs: usize = axes.iter().map(|axis| axis.input).product();
        let n_outputs: usize = axes.iter().map(|axis| axis.output).product();
        let n_steps: usize = axes.iter().map(|axis| axis.kernel).sum();
        let cost = n_outputs.saturating_mul(n_steps);
        let planes = Rows { len: n_outputs, cost };
        // Planes computed between two checks for cancellation; of large ones, parts are.
        let is_whole = cost <= MAX_OPERATIONS;
        let together = (MAX_OPERATIONS / cost.saturating_add(PLANE)).max(1);
        let scratch = (&mut *io.scratch, Pool::scratch_len(axes));
        planes.for_each_with(io.threads, scratch, y, |start, y, scratch| {
            let pieces = y.chunks_mut(together * n_outputs);
            let planes = (start / n_outputs..).step_by(together);
            for (plane, y) in wanted(planes.zip(pieces)) {
                let x = &x[plane * n_inputs..];
                if is_whole {
                    Pool { isa, axes: *axes, kind }.run(x, y, scratch);
                    continue;
                }
                for part in wanted(plane_parts(*axes, MAX_OPERATIONS / n_steps)) {
                    let pool = Pool { isa, axes: part.axes, kind };
                    pool.run(&x[part.inputs], &mut y[part.outputs], scratch);
                }
            }
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
    use ort_tensor::Tensor;

    use crate::case::{Case, exact, integers, ulps};

    fn ints(values: &[i64]) -> Attr {
        Attr::Ints(values.to_vec())
    }

    /// Shape of the input, size of the window and other attributes.
    type Setting = (&'static [usize], &'static [i64], &'static [(&'static str, &'static [i64])]);

    const SETTINGS: [Setting; 12] = [
        (&[2, 3, 9, 11], &[2, 2], &[("strides", &[2, 2])]),
        (&[1, 5, 30, 41], &[3, 3], &[("pads", &[1, 1, 1, 1]), ("strides", &[2, 1])]),
        (&[1, 2, 8, 8], &[3, 2], &[("dilations", &[2, 3]), ("pads", &[2, 0, 1, 1])]),
        (&[3, 2, 50], &[5], &[("strides", &[3]), ("pads", &[2, 1])]),
        (&[1, 64, 56, 57], &[3, 3], &[("strides", &[2, 2]), ("pads", &[0, 0, 1, 1])]),
        (&[0, 3, 4, 4], &[2, 2], &[]),
        (&[1, 1, 7, 7], &[7, 7], &[]),
        (&[2, 3, 41, 103], &[5, 5], &[("strides", &[5, 5]), ("pads", &[2, 1, 0, 2])]),
        (&[1, 2, 30, 90], &[3, 7], &[("strides", &[4, 4]), ("dilations", &[1, 2])]),
        (&[1, 2, 1, 40], &[1, 3], &[("strides", &[1, 2])]),
        (&[2, 3, 4, 6, 8], &[2, 2, 2], &[("strides", &[2, 2, 2])]),
        (
            &[1, 2, 5, 7, 40],
            &[3, 2, 3],
            &[("pads", &[1, 0, 1, 1, 1, 0]), ("dilations", &[1, 2, 2])],
        ),
    ];

    const STRIDED: Setting = (&[1, 2, 7, 8], &[3, 2], &[("strides", &[2, 2])]);

    fn case(name: &'static str, (x, kernel, attrs): Setting) -> Case {
        let case = Case::new(name, 22).attr("kernel_shape", ints(kernel));
        let case = attrs.iter().fold(case, |case, (name, values)| case.attr(name, ints(values)));
        case.input(integers(x))
    }

    #[test]
    fn the_greatest_is_exact() {
        for setting in SETTINGS {
            case("MaxPool", setting).check(exact);
            case("MaxPool", setting).attr("ceil_mode", Attr::Int(1)).check(exact);
        }
        let x = [1.0, f32::NAN, 3.0, 4.0, f32::NEG_INFINITY, 6.0];
        let x = Tensor::from_slice(&[1, 1, 6], &x).unwrap();
        Case::new("MaxPool", 22).attr("kernel_shape", ints(&[2])).input(x).check(exact);
    }

    #[test]
    fn means_are_rounded_once_after_an_exact_sum() {
        for setting in SETTINGS {
            for counts_padding in [0, 1] {
                for is_ceil in [0, 1] {
                    case("AveragePool", setting)
                        .attr("count_include_pad", Attr::Int(counts_padding))
                        .attr("ceil_mode", Attr::Int(is_ceil))
                        .check(ulps(1));
                }
            }
        }
    }

    #[test]
    fn padding_follows_its_name() {
        for name in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
            for op in ["AveragePool", "MaxPool"] {
                case(op, STRIDED).attr("auto_pad", Attr::String(name.into())).check(ulps(1));
            }
        }
    }
}
