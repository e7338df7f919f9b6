//! The pools of com.microsoft.nchwc, on all threads: row by row of every block.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_kernels::conv_f32::{Axis, PoolKind};
use ort_kernels::nchwc::{Pool, global_max, global_sum};
use ort_kernels::{Isa, vec};
use ort_ops::infer::WindowAttrs;
use ort_ops::ops::average_pool::AveragePool;
use ort_ops::ops::global_pool::GlobalPool;
use ort_ops::ops::max_pool::MaxPool;
use ort_ops::ops::nchwc::pool::Pool as BlockedPool;
use ort_tensor::{DType, TensorViewMut};

use super::conv::axes;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct PoolKernel {
    cpu: Cpu,
    block: usize,
    window: WindowAttrs,
    kind: PoolKind,
}

/// The sizes for one shape signature.
#[derive(Debug)]
struct Geometry {
    /// The shape of the result.
    shape: [usize; 4],
    pool: Pool,
}

/// Reduction of planes to one pixel each.
#[derive(Debug)]
struct GlobalKernel {
    isa: Isa,
    block: usize,
    is_mean: bool,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let cpu = compiler.cpu;
    let windowed = |(block, window, kind): (Option<usize>, &WindowAttrs, PoolKind)| {
        Some(Box::new(PoolKernel { cpu, block: block?, window: window.clone(), kind }) as Box<_>)
    };
    if let Some(BlockedPool { plain, block_size }) = compiler.op::<BlockedPool<MaxPool>>() {
        return Ok(windowed((*block_size, &plain.window, PoolKind::Max)));
    }
    if let Some(BlockedPool { plain, block_size }) = compiler.op::<BlockedPool<AveragePool>>() {
        let kind = PoolKind::Average { count_padding: plain.counts_padding };
        return Ok(windowed((*block_size, &plain.window, kind)));
    }
    let Some(BlockedPool { plain, block_size: Some(block) }) =
        compiler.op::<BlockedPool<GlobalPool>>()
    else {
        return Ok(None);
    };
    let is_mean = match plain {
        GlobalPool::Average => true,
        GlobalPool::Max => false,
        GlobalPool::Lp { .. } => return Ok(None),
    };
    Ok(Some(Box::new(GlobalKernel { isa: cpu.isa, block: *block, is_mean })))
}

/// The sizes of an NCHWc input.
pub(super) fn sizes(shapes: &[&[usize]], block: usize) -> Result<[usize; 4], KernelError> {
    let x = shapes.first().copied().unwrap_or_default();
    let &[n, c, h, w] = x else {
        return Err(OpError::InputRank { index: 0, expected: "4", found: x.len() }.into());
    };
    if !c.is_multiple_of(block) {
        let (left, right) = (vec![c], vec![block]);
        return Err(OpError::Shapes { what: "channels and blocks", left, right }.into());
    }
    Ok([n, c, h, w])
}

impl Kernel for PoolKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let [n, c, h, w] = sizes(shapes, self.block)?;
        let kernel = self.window.kernel.as_deref().unwrap_or_default();
        let window = self.window.window(&[h, w], kernel)?;
        let (&[out_h, out_w], Some([Axis::UNIT, height, width])) =
            (window.output.as_slice(), axes(&window))
        else {
            return Err(KernelError::ForeignState);
        };
        let axes = [height, width];
        let pool = Pool { isa: self.cpu.isa, block: self.block, axes, kind: self.kind };
        let geometry = Geometry { shape: [n, c, out_h, out_w], pool };
        Ok(Prepared::new(geometry).with_scratch(self.cpu.scratch_bytes(pool.scratch_len())))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Geometry { shape, pool } = prepared.state()?;
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y: &mut [f32] = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, shape)?)?;
        if y.is_empty() {
            return Ok(());
        }
        let [height, width] = &pool.axes;
        let n_inputs = height.input * width.input * pool.block;
        let len = width.output * pool.block;
        // Memory traffic dominates: an output row reads `stride` input rows.
        let read = height.stride.saturating_mul(width.input * pool.block);
        let taps = len.saturating_mul(height.kernel.saturating_add(width.kernel));
        let rows = Rows { len, cost: taps.saturating_add(read.saturating_mul(4)) };
        let scratch = (&mut *io.scratch, pool.scratch_len());
        rows.for_each_with(io.threads, scratch, y, |start, mut y, scratch| {
            let mut at = start / len;
            while !y.is_empty() {
                let (plane, first) = (at / height.output, at % height.output);
                let end = height.output.min(first + y.len() / len);
                let (piece, rest) = y.split_at_mut((end - first) * len);
                pool.run(&x[plane * n_inputs..][..n_inputs], first..end, piece, scratch);
                (at, y) = (at + end - first, rest);
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "nchwc_pool")
    }
}

impl Kernel for GlobalKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(sizes(shapes, self.block)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &[n, c, h, w] = prepared.state()?;
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y: &mut [f32] =
            TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, &[n, c, 1, 1])?)?;
        let len = h * w * self.block;
        // Pixels may be in the cache of another core.
        let pixels = Rows { len: self.block, cost: len.max(self.block).saturating_mul(8) };
        pixels.for_each(io.threads, y, |start, y| {
            for (i, y) in y.chunks_exact_mut(self.block).enumerate() {
                let plane = &x[(start / self.block + i) * len..][..len];
                if self.is_mean {
                    global_sum(self.isa, plane, y);
                    vec::div_scalar(self.isa, y, (h * w) as f32);
                } else {
                    global_max(self.isa, plane, y);
                }
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "nchwc_global_pool")
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

    fn case(name: &'static str, block: i64) -> Case {
        Case::new(name, 1).domain("com.microsoft.nchwc").attr("block_size", Attr::Int(block))
    }

    /// Shape of the input, channels per block, size of the window and other attributes.
    type Setting =
        (&'static [usize], i64, &'static [i64], &'static [(&'static str, &'static [i64])]);

    const SETTINGS: [Setting; 9] = [
        (&[2, 16, 9, 11], 8, &[2, 2], &[("strides", &[2, 2])]),
        (&[1, 32, 30, 41], 16, &[3, 3], &[("pads", &[1, 1, 1, 1]), ("strides", &[2, 1])]),
        (&[1, 4, 8, 8], 2, &[3, 2], &[("dilations", &[2, 3]), ("pads", &[2, 0, 1, 1])]),
        (&[1, 64, 56, 57], 16, &[3, 3], &[("strides", &[2, 2]), ("pads", &[0, 0, 1, 1])]),
        (&[0, 8, 4, 4], 8, &[2, 2], &[]),
        (&[1, 8, 7, 7], 8, &[7, 7], &[]),
        (&[1, 16, 1, 40], 16, &[1, 3], &[("strides", &[1, 2])]),
        (&[3, 16, 40, 1], 4, &[3, 1], &[("strides", &[2, 1]), ("pads", &[1, 0, 0, 0])]),
        (&[1, 32, 13, 13], 32, &[5, 5], &[("pads", &[2, 2, 2, 2])]),
    ];

    const STRIDED: Setting = (&[1, 8, 7, 8], 8, &[3, 2], &[("strides", &[2, 2])]);

    fn windowed(name: &'static str, (x, block, kernel, attrs): Setting) -> Case {
        let case = case(name, block).attr("kernel_shape", ints(kernel));
        let case = attrs.iter().fold(case, |case, (name, values)| case.attr(name, ints(values)));
        case.input(integers(x))
    }

    #[test]
    fn the_greatest_is_exact() {
        for setting in SETTINGS {
            windowed("MaxPool", setting).check(exact);
            windowed("MaxPool", setting).attr("ceil_mode", Attr::Int(1)).check(exact);
        }
    }

    #[test]
    fn means_are_rounded_once_after_an_exact_sum() {
        for setting in SETTINGS {
            for (counts_padding, is_ceil) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                windowed("AveragePool", setting)
                    .attr("count_include_pad", Attr::Int(counts_padding))
                    .attr("ceil_mode", Attr::Int(is_ceil))
                    .check(ulps(1));
            }
        }
    }

    #[test]
    fn padding_follows_its_name() {
        for name in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
            for op in ["AveragePool", "MaxPool"] {
                windowed(op, STRIDED).attr("auto_pad", Attr::String(name.into())).check(ulps(1));
            }
        }
    }

    #[test]
    fn planes_become_one_pixel_each() {
        for (shape, block) in
            [([2, 32, 7, 7], 16), ([1, 40, 100, 50], 8), ([3, 4, 1, 9], 1), ([2, 8, 0, 4], 8)]
        {
            case("GlobalMaxPool", block).input(integers(&shape)).check(exact);
            case("GlobalAveragePool", block).input(integers(&shape)).check(ulps(1));
        }
        let x = [1.0, f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY, 2.0, 0.0, 3.0];
        let x = Tensor::from_slice(&[1, 2, 2, 2], &x).unwrap();
        case("GlobalMaxPool", 2).input(x.clone()).check(exact);
        case("GlobalAveragePool", 2).input(x).check(exact);
    }
}
