//! ReorderInput and ReorderOutput of com.microsoft.nchwc, on all threads: each writes a piece of the
//! result.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_kernels::Isa;
use ort_kernels::nchwc::Reorder;
use ort_ops::ops::nchwc::reorder_input::ReorderInput;
use ort_ops::ops::nchwc::reorder_output::ReorderOutput;
use ort_tensor::{DType, TensorViewMut};

use super::nchwc_pool::sizes;
use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// From NCHWc to the other layout, or vice versa.
#[derive(Debug)]
struct ReorderKernel {
    isa: Isa,
    block: usize,
    /// Whether the other layout is NHWC.
    has_channels_last: bool,
    direction: Direction,
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    ToBlocks,
    /// With the number of channels.
    FromBlocks(usize),
}

/// The sizes for one shape signature.
#[derive(Debug)]
struct Geometry {
    /// The shape of the result.
    shape: [usize; 4],
    reorder: Reorder,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (block, has_channels_last, direction) = if let Some(op) = compiler.op::<ReorderInput>() {
        (op.block_size, op.has_channels_last, Direction::ToBlocks)
    } else if let Some(op) = compiler.op::<ReorderOutput>() {
        (op.block_size, op.has_channels_last, Direction::FromBlocks(op.channels))
    } else {
        return Ok(None);
    };
    let Some(block) = block else { return Ok(None) };
    let isa = compiler.cpu.isa;
    Ok(Some(Box::new(ReorderKernel { isa, block, has_channels_last, direction })))
}

impl ReorderKernel {
    fn blocked(&self, x: &[usize]) -> Result<Geometry, KernelError> {
        let &[n, a, b, c] = x else {
            return Err(OpError::InputRank { index: 0, expected: "4", found: x.len() }.into());
        };
        let (n_channels, h, w) = if self.has_channels_last { (c, a, b) } else { (a, b, c) };
        let n_blocks = n_channels.div_ceil(self.block);
        let padded = n_blocks.checked_mul(self.block).ok_or(OpError::TooLarge)?;
        let n_pixels = h.saturating_mul(w);
        let (isa, block) = (self.isa, self.block);
        let reorder = Reorder { isa, block, n_blocks, n_channels, n_pixels };
        Ok(Geometry { shape: [n, padded, h, w], reorder })
    }

    fn unblocked(&self, shapes: &[&[usize]], n_channels: usize) -> Result<Geometry, KernelError> {
        let [n, c, h, w] = sizes(shapes, self.block)?;
        if n_channels > c {
            let (left, right) = (vec![n_channels], vec![c]);
            let what = "channels of the output and of the input";
            return Err(OpError::Shapes { what, left, right }.into());
        }
        let (n_blocks, n_pixels) = (c / self.block, h.saturating_mul(w));
        let (isa, block) = (self.isa, self.block);
        let reorder = Reorder { isa, block, n_blocks, n_channels, n_pixels };
        let shape =
            if self.has_channels_last { [n, h, w, n_channels] } else { [n, n_channels, h, w] };
        Ok(Geometry { shape, reorder })
    }

    /// The unit of writing, in elements: a pixel of a block, a plane, or a pixel of all
    /// channels.
    fn unit(&self, reorder: &Reorder) -> usize {
        match (self.direction, self.has_channels_last) {
            (Direction::ToBlocks, _) => self.block,
            (Direction::FromBlocks(_), false) => reorder.n_pixels,
            (Direction::FromBlocks(n_channels), true) => n_channels,
        }
    }
}

impl Kernel for ReorderKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(match self.direction {
            Direction::ToBlocks => self.blocked(shapes.first().copied().unwrap_or_default())?,
            Direction::FromBlocks(n_channels) => self.unblocked(shapes, n_channels)?,
        }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Geometry { shape, reorder } = prepared.state()?;
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y: &mut [f32] = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, shape)?)?;
        if y.is_empty() {
            return Ok(());
        }
        let unit = self.unit(reorder);
        let write = match (self.direction, self.has_channels_last) {
            (Direction::ToBlocks, false) => Reorder::planes_to_blocks,
            (Direction::ToBlocks, true) => Reorder::pixels_to_blocks,
            (Direction::FromBlocks(_), false) => Reorder::blocks_to_planes,
            (Direction::FromBlocks(_), true) => Reorder::blocks_to_pixels,
        };
        // Adjacent channels are best read together, unless that leaves threads idle.
        let most = match (self.direction, self.has_channels_last) {
            (Direction::ToBlocks, true) => usize::MAX,
            _ => self.block,
        };
        let together = y.len() / unit / io.threads.count().max(1);
        let len = unit * together.clamp(1, most);
        let rows = Rows { len, cost: len.saturating_mul(Rows::ELEMENTS.cost / Rows::ELEMENTS.len) };
        rows.for_each(io.threads, y, |start, y| write(reorder, x, start / unit, y));
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "nchwc_reorder": "avx512_16x16", "avx2_8x8", "generic")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, exact, floats};

    fn case(name: &'static str, block: i64, has_channels_last: bool) -> Case {
        Case::new(name, 1)
            .domain("com.microsoft.nchwc")
            .attr("block_size", Attr::Int(block))
            .attr("channels_last", Attr::Int(has_channels_last.into()))
    }

    /// Images, channels, height, width, and channels per block; the last are large enough for several threads.
    const SIZES: [([usize; 4], usize); 9] = [
        ([1, 3, 5, 7], 8),
        ([2, 16, 7, 7], 16),
        ([1, 20, 13, 10], 16),
        ([2, 33, 1, 6], 2),
        ([1, 40, 3, 3], 32),
        ([0, 8, 4, 4], 8),
        ([1, 8, 0, 4], 8),
        ([1, 64, 80, 90], 16),
        ([3, 12, 120, 90], 16),
    ];

    #[test]
    fn every_channel_is_packed_into_its_lane() {
        for ([n, c, h, w], block) in SIZES {
            let block = i64::try_from(block).unwrap();
            case("ReorderInput", block, false).input(floats(&[n, c, h, w])).check(exact);
            case("ReorderInput", block, true).input(floats(&[n, h, w, c])).check(exact);
        }
    }

    #[test]
    fn channels_are_unpacked_and_padding_is_dropped() {
        for ([n, c, h, w], block) in SIZES {
            let x = floats(&[n, c.next_multiple_of(block), h, w]);
            for has_channels_last in [false, true] {
                for channels in [1, c] {
                    case("ReorderOutput", i64::try_from(block).unwrap(), has_channels_last)
                        .attr("channels", Attr::Int(i64::try_from(channels).unwrap()))
                        .input(x.clone())
                        .check(exact);
                }
            }
        }
    }
}
