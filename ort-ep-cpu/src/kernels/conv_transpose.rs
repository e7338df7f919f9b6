//! ConvTranspose in f32, of up to three dimensions: products that are scattered to the result.
//!
//! ```text
//! for each image and group, for each block of output channels:
//!     for each strip of input positions:
//!         columns[(m, t), p] = Σ_c w[c, m, t]·x[c, p]
//!         y[m, s·p + d·t − pad] += columns[(m, t), p]
//! ```

use ort_ep::{Io, Kernel, KernelError, Packed, Prepared, Recipe};
use ort_graph::OpError;
use ort_kernels::Activation;
use ort_kernels::conv_f32::Axis;
use ort_kernels::gemm_f32::{Gemm, Lhs, Matrix, Start, Strided, pack_a, variant};
use ort_ops::ops::conv_transpose::ConvTranspose;
use ort_tensor::{DType, Shape};

use super::conv::axes;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Rows of columns in a block, if one channel does not have more: four tiles.
const BLOCK_ROWS: usize = 56;
/// Elements of columns that are computed before they are scattered: 128 KiB.
const STRIP: usize = 32 * 1024;

/// One transposed convolution, the weights packed if they are constant.
#[derive(Debug)]
struct ConvTransposeKernel {
    cpu: Cpu,
    op: ConvTranspose,
    weights: Option<Packed>,
}

/// The sizes of one signature of shapes.
struct Geometry {
    /// The shape of the result.
    shape: Shape,
    group: usize,
    /// Input channels of a group.
    c: usize,
    /// Output channels of a group.
    m: usize,
    /// Of the convolution that this one is the transpose of: from the result to the input.
    axes: [Axis; 3],
}

/// The tensors of a run.
struct Operands<'a> {
    x: &'a [f32],
    w: &'a [f32],
    bias: Option<&'a [f32]>,
}

/// Output channels that are computed together.
struct Block {
    image: usize,
    group: usize,
    /// The first channel, counted within the group.
    channel: usize,
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<ConvTranspose>().cloned() else { return Ok(None) };
    let rank = compiler.fact(1).and_then(ort_graph::Fact::rank);
    if !compiler.are_f32(0..3) || !rank.is_some_and(|rank| (3..=5).contains(&rank)) {
        return Ok(None);
    }
    let weights = pack(compiler, op.group);
    Ok(Some(Box::new(ConvTransposeKernel { cpu: compiler.cpu, op, weights })))
}

/// Output channels of a block.
const fn block_channels(taps: usize) -> usize {
    match BLOCK_ROWS / taps {
        0 => 1,
        n => n,
    }
}

/// `A[(m, t), c] = w[c, m, t]` for the channels of a block, of the weights of a group.
fn left<'a>(w: &'a [f32], c: usize, columns: usize, rows: std::ops::Range<usize>) -> Matrix<'a> {
    let all = Matrix::row_major(w, c, columns).transposed();
    Matrix { rows: rows.len(), ..all.part(rows.start, 0) }
}

/// The weights of each block, packed as left operands, block after block, group after group.
fn pack(compiler: &mut Compiler<'_>, group: usize) -> Option<Packed> {
    let isa = compiler.cpu.isa;
    let weights = compiler.constant(1)?;
    let data = weights.as_slice::<f32>().ok()?;
    let &[channels, m, ref kernel @ ..] = weights.shape() else { return None };
    let (c, taps) = (channels / group, kernel.iter().product::<usize>());
    if data.is_empty() || c == 0 {
        return None;
    }
    let recipe = Recipe {
        name: "conv_transpose_f32/a",
        parameters: vec![variant(isa).mr as u64, group as u64],
        n_bytes: size_of_val(data),
    };
    Some(compiler.packs.pack(weights, &recipe, &mut |bytes| {
        let packed: &mut [f32] = bytemuck::cast_slice_mut(bytes);
        let groups = data.chunks_exact(c * m * taps);
        for (w, packed) in groups.zip(packed.chunks_exact_mut(c * m * taps)) {
            let blocks = packed.chunks_mut(block_channels(taps) * taps * c);
            let mut row = 0;
            for packed in blocks {
                let rows = row..row + packed.len() / c;
                row = rows.end;
                pack_a(isa, &left(w, c, m * taps, rows), 1.0, packed);
            }
        }
    }))
}

impl Geometry {
    fn new(op: &ConvTranspose, x: &[usize], w: &[usize]) -> Result<Self, KernelError> {
        let wrong = || -> KernelError {
            let (left, right) = (x.to_vec(), w.to_vec());
            OpError::Shapes { what: "channels and groups", left, right }.into()
        };
        let (&[n, channels, ref input @ ..], &[c, m, ref kernel @ ..]) = (x, w) else {
            return Err(wrong());
        };
        if channels != c || !c.is_multiple_of(op.group) {
            return Err(wrong());
        }
        let window = op.window(input, kernel)?;
        let filters = m.checked_mul(op.group).ok_or_else(wrong)?;
        let shape = [n, filters].into_iter().chain(window.input.iter().copied()).collect();
        let axes = axes(&window).ok_or_else(wrong)?;
        Ok(Self { shape, group: op.group, c: c / op.group, m, axes })
    }

    fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// Elements of a plane of `x`.
    fn n_inputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    /// Elements of a plane of the result.
    fn n_outputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    /// The most rows of a block, and the positions of a strip.
    fn strip(&self) -> (usize, usize) {
        let rows = block_channels(self.taps()).min(self.m) * self.taps();
        (rows, (STRIP / rows.max(1)).max(64))
    }
}

impl ConvTransposeKernel {
    fn gemm<'a>(&self, a: Lhs<'a>, b: Matrix<'a>, m: usize) -> Gemm<'a, Matrix<'a>> {
        let (start, activation) = (Start::Zero, Activation::None);
        Gemm { isa: self.cpu.isa, m, n: b.columns, k: b.rows, a, b, start, activation }
    }

    /// The elements of scratch a thread needs.
    fn scratch_len(&self, geometry: &Geometry) -> usize {
        let (rows, strip) = geometry.strip();
        let strip = strip.min(geometry.n_inputs());
        let b = Matrix { rows: geometry.c, columns: strip, ..Matrix::row_major(&[], 0, 0) };
        let a = Lhs::Strided { a: Matrix::row_major(&[], 0, 0), alpha: 1.0 };
        rows * strip + self.gemm(a, b, rows).scratch_len(rows)
    }

    /// The planes of one block.
    fn block(
        &self,
        geometry: &Geometry,
        operands: &Operands<'_>,
        block: &Block,
        (y, scratch): (&mut [f32], &mut [f32]),
    ) {
        let Geometry { c, m, group, .. } = *geometry;
        let (taps, n_inputs, plane) = (geometry.taps(), geometry.n_inputs(), geometry.n_outputs());
        let first = block.group * m + block.channel;
        for (i, y) in y.chunks_exact_mut(plane).enumerate() {
            y.fill(operands.bias.map_or(0.0, |bias| bias[first + i]));
        }
        let rows = y.len() / plane * taps;
        let row = block.channel * taps;
        let w = &operands.w[block.group * c * m * taps..][..c * m * taps];
        let a = match self.weights {
            Some(_) => Lhs::Packed(&w[row * c..(row + rows) * c]),
            None => Lhs::Strided { a: left(w, c, m * taps, row..row + rows), alpha: 1.0 },
        };
        let x = &operands.x[(block.image * group + block.group) * c * n_inputs..][..c * n_inputs];
        let x = Matrix::row_major(x, c, n_inputs);
        let strip = geometry.strip().1;
        for start in (0..n_inputs).step_by(strip) {
            let n = strip.min(n_inputs - start);
            let (columns, scratch) = scratch.split_at_mut(rows * n);
            let gemm = self.gemm(a, Matrix { columns: n, ..x.part(0, start) }, rows);
            gemm.run(&gemm.whole(), &mut Strided { data: columns, stride: n }, scratch);
            for (i, columns) in columns.chunks_exact(n).enumerate() {
                scatter(
                    &geometry.axes,
                    i % taps,
                    start,
                    columns,
                    &mut y[i / taps * plane..][..plane],
                );
            }
        }
    }
}

/// `y[s·p + d·tap − pad] += columns[p − start]`
fn scatter([d, h, w]: &[Axis; 3], tap: usize, start: usize, columns: &[f32], y: &mut [f32]) {
    let taps = [tap / w.kernel / h.kernel, tap / w.kernel % h.kernel, tap % w.kernel];
    let inside = w.outputs(taps[2]);
    let mut columns = columns;
    let mut position = start;
    while !columns.is_empty() {
        let (row, from) = (position / w.output, position % w.output);
        let (run, rest) = columns.split_at(columns.len().min(w.output - from));
        let to = inside.end.min(from + run.len());
        let first = inside.start.max(from);
        let planes = d.at(row / h.output, taps[0]).zip(h.at(row % h.output, taps[1]));
        if let (Some((z, line)), true) = (planes, first < to) {
            let line = &mut y[(z * h.input + line) * w.input..][..w.input];
            let at = w.at(first, taps[2]).unwrap_or_default();
            let run = &run[first - from..to - from];
            match w.stride {
                1 => line[at..].iter_mut().zip(run).for_each(|(y, x)| *y += x),
                stride => {
                    line[at..].iter_mut().step_by(stride).zip(run).for_each(|(y, x)| *y += x);
                }
            }
        }
        position += run.len();
        columns = rest;
    }
}

impl Kernel for ConvTransposeKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, w, ..] = shapes else { return Err(KernelError::ForeignState) };
        let geometry = Geometry::new(&self.op, x, w)?;
        let scratch_bytes = self.cpu.scratch_bytes(self.scratch_len(&geometry));
        Ok(Prepared::new(geometry).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let geometry: &Geometry = prepared.state()?;
        let inputs = io.inputs;
        let operands = Operands {
            x: inputs.tensor(0)?.as_slice()?,
            w: match &self.weights {
                Some(packed) => bytemuck::cast_slice(packed.bytes()),
                None => inputs.tensor(1)?.as_slice()?,
            },
            bias: inputs.optional_tensor(2)?.map(|bias| bias.as_slice()).transpose()?,
        };
        let y = io.outputs[0].tensor(DType::F32, &geometry.shape)?.into_slice::<f32>()?;
        if y.is_empty() {
            return Ok(());
        }
        let (m, group, plane) = (geometry.m, geometry.group, geometry.n_outputs());
        let per_block = block_channels(geometry.taps());
        let cost = operands.x.len().saturating_mul(m).saturating_mul(geometry.taps());
        let n_blocks = y.len() / (m * plane) * m.div_ceil(per_block);
        let team = Team::new(io.threads, n_blocks).if_worth(cost);
        let team = team.with_scratch(io.scratch, self.scratch_len(geometry));
        let groups = y.chunks_exact_mut(m * plane).enumerate();
        let blocks = groups.flat_map(|(i, y)| {
            let blocks = y.chunks_mut(per_block * plane).enumerate();
            blocks.map(move |(block, y)| {
                let channel = block * per_block;
                (Block { image: i / group, group: i % group, channel }, y)
            })
        });
        team.run(blocks, |(block, y), scratch| {
            self.block(geometry, &operands, &block, (y, scratch));
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "conv_transpose_f32": tile)
    }

    fn packed_bytes(&self) -> usize {
        self.weights.as_ref().map_or(0, |w| w.bytes().len())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, exact, integers};

    #[test]
    fn sums_of_small_integers_are_exact() {
        let cases: [(i64, &[usize], &[usize], &[(&str, &[i64])]); 11] = [
            (1, &[1, 3, 4, 5], &[3, 2, 2, 2], &[("strides", &[2, 2])]),
            (1, &[2, 5, 6, 7], &[5, 20, 3, 3], &[("pads", &[1, 1, 1, 1])]),
            (1, &[1, 4, 5, 6], &[4, 3, 3, 2], &[("strides", &[3, 2]), ("dilations", &[2, 3])]),
            (2, &[1, 4, 7, 3], &[4, 5, 3, 3], &[("output_padding", &[1, 0]), ("strides", &[2, 1])]),
            (1, &[1, 2, 30], &[2, 3, 4], &[("strides", &[2]), ("pads", &[1, 2])]),
            (1, &[1, 2, 3, 4, 5], &[2, 3, 2, 2, 2], &[]),
            (1, &[1, 2, 6, 6], &[2, 1, 3, 3], &[("output_shape", &[12, 11]), ("strides", &[2, 2])]),
            (1, &[1, 24, 40, 41], &[24, 40, 2, 2], &[("strides", &[2, 2])]),
            (1, &[1, 2, 3, 3], &[2, 2, 9, 9], &[("pads", &[4, 4, 4, 4])]),
            (1, &[0, 2, 3, 3], &[2, 2, 2, 2], &[]),
            (1, &[1, 0, 3, 3], &[0, 2, 2, 2], &[]),
        ];
        for (group, x, w, attrs) in cases {
            let case = Case::new("ConvTranspose", 11).attr("group", Attr::Int(group));
            let case = case.input(integers(x)).weight(integers(w));
            let case = attrs
                .iter()
                .fold(case, |case, (name, ints)| case.attr(name, Attr::Ints(ints.to_vec())));
            case.clone().check(exact);
            case.weight(integers(&[w[1] * usize::try_from(group).unwrap()])).check(exact);
        }
    }
}
