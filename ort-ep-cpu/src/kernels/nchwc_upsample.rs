//! Upsample of com.microsoft.nchwc, on all threads: each row of a result blends rows of its
//! plane, and then the pixels of that blend.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_kernels::Isa;
use ort_kernels::nchwc::{blend_pixels, blend_rows, pick_pixels};
use ort_ops::ops::nchwc::upsample::Upsample;
use ort_ops::ops::resize::{Resize, Sampling, Table};
use ort_tensor::{DType, Inputs, Shape, TensorError, TensorViewMut, collected};

use super::nchwc_pool::sizes;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct UpsampleKernel {
    cpu: Cpu,
    block: usize,
    plain: Resize,
}

/// Prepared state for one shape signature.
#[derive(Debug)]
struct Plan {
    isa: Isa,
    block: usize,
    /// The shape of the result.
    shape: Shape,
    /// Rows and columns of an input plane.
    n_inputs: [usize; 2],
    rows: Axis,
    pixels: Axis,
}

/// How the elements along an axis are computed.
#[derive(Debug)]
enum Axis {
    /// Each is one element of the input.
    Picked(Vec<usize>),
    /// Each blends two elements.
    Blended(Vec<[(usize, f32); 2]>),
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(Upsample { plain, block_size: Some(block) }) = compiler.op::<Upsample>() else {
        return Ok(None);
    };
    let (cpu, plain) = (compiler.cpu, plain.clone());
    Ok(Some(Box::new(UpsampleKernel { cpu, block: *block, plain })))
}

impl Axis {
    fn new(n: usize, table: Option<&Table>) -> Result<Self, TensorError> {
        let Some(table) = table else { return Ok(Self::Picked(collected(0..n)?)) };
        let pairs = collected(table.rows().map(pair))?;
        let picked = |&[(i, a), (j, b)]: &[(usize, f32); 2]| (i == j && a + b == 1.0).then_some(i);
        match pairs.iter().all(|pair| picked(pair).is_some()) {
            true => Ok(Self::Picked(collected(pairs.iter().filter_map(picked))?)),
            false => Ok(Self::Blended(pairs)),
        }
    }
}

/// The two elements and weights for one element of an enlarged axis. A single element counts as two halves: a
/// weight of zero would turn infinity into NaN.
#[expect(clippy::cast_possible_truncation, reason = "weights of f32 elements are f32")]
fn pair(terms: &[(usize, f64)]) -> [(usize, f32); 2] {
    let mut terms = terms.iter().filter(|(_, weight)| *weight != 0.0);
    let pair = match [terms.next(), terms.next(), terms.next()] {
        [Some(&(i, a)), None, None] => Some([(i, a / 2.0); 2]),
        [Some(&a), Some(&b), None] => Some([a, b]),
        _ => None,
    };
    let pair = pair.expect("invariant: a point has one or two neighbours");
    pair.map(|(i, weight)| (i, weight as f32))
}

impl Plan {
    fn new(kernel: &UpsampleKernel, shape: [usize; 4]) -> Result<Self, OpError> {
        let Sampling { shape: to, tables } = kernel.plain.sampling(&shape, Inputs::new(&[None]))?;
        let axis = |i: usize| Axis::new(shape[i], tables[i].as_ref());
        let [_, _, h, w] = shape;
        let (isa, block) = (kernel.cpu.isa, kernel.block);
        let (rows, pixels) = (axis(2)?, axis(3)?);
        Ok(Self { isa, block, shape: to, n_inputs: [h, w], rows, pixels })
    }

    /// Computes output row `at`, counted over all planes; `blend` holds a row of the input.
    fn row(&self, x: &[f32], at: usize, y: &mut [f32], blend: &mut [f32]) {
        let (isa, block) = (self.isa, self.block);
        let (n_rows, len) = (self.n_inputs[0], self.n_inputs[1] * block);
        let (plane, row) = (at / self.shape[2], at % self.shape[2]);
        let input = |row: usize| &x[(plane * n_rows + row) * len..][..len];
        let from = match &self.rows {
            Axis::Picked(rows) => input(rows[row]),
            Axis::Blended(pairs) => {
                let [(i, a), (j, b)] = pairs[row];
                blend_rows(isa, input(i), input(j), [a, b], blend);
                blend
            }
        };
        match &self.pixels {
            Axis::Picked(pixels) => pick_pixels(isa, block, from, pixels, y),
            Axis::Blended(pairs) => blend_pixels(isa, block, from, pairs, y),
        }
    }

    /// Whether output row `at` equals the one before it.
    fn repeats(&self, at: usize) -> bool {
        let row = at % self.shape[2];
        matches!(&self.rows, Axis::Picked(rows) if row > 0 && rows[row] == rows[row - 1])
    }
}

impl Kernel for UpsampleKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let plan = Plan::new(self, sizes(shapes, self.block)?)?;
        let scratch_len = plan.n_inputs[1].saturating_mul(self.block);
        Ok(Prepared::new(plan).with_scratch(self.cpu.scratch_bytes(scratch_len)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let plan: &Plan = prepared.state()?;
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y = io.outputs[0].tensor(DType::F32, &plan.shape)?;
        let y: &mut [f32] = TensorViewMut::into_slice(y)?;
        if y.is_empty() {
            return Ok(());
        }
        let len = plan.shape[3] * self.block;
        let rows = Rows { len, cost: len.saturating_mul(4) };
        let blend_len = plan.n_inputs[1] * self.block;
        rows.for_each_with(io.threads, (&mut *io.scratch, blend_len), y, |start, y, blend| {
            let (first, blend) = (start / len, &mut blend[..blend_len]);
            for i in 0..y.len() / len {
                if i > 0 && plan.repeats(first + i) {
                    y.copy_within((i - 1) * len..i * len, i * len);
                } else {
                    plan.row(x, first + i, &mut y[i * len..][..len], blend);
                }
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "nchwc_upsample")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, exact, floats, within};

    const SIZES: [([usize; 4], i64, [i64; 2]); 6] = [
        ([2, 16, 3, 4], 8, [2, 3]),
        ([1, 32, 20, 30], 16, [2, 2]),
        ([1, 4, 1, 5], 2, [4, 1]),
        ([1, 8, 7, 1], 1, [1, 5]),
        ([1, 64, 40, 41], 32, [3, 2]),
        ([1, 8, 6, 5], 8, [1, 1]),
    ];

    fn cases(mode: &str, coordinates: &str) -> impl Iterator<Item = Case> {
        let text = |text: &str| Attr::String(text.to_owned());
        let attrs = [("mode", text(mode)), ("coordinate_transformation_mode", text(coordinates))];
        SIZES.iter().map(move |&(shape, block, [s, t])| {
            let case = Case::new("Upsample", 1).domain("com.microsoft.nchwc");
            let case = attrs.iter().fold(case, |case, (name, attr)| case.attr(name, attr.clone()));
            case.attr("scales", Attr::Ints(vec![1, 1, s, t]))
                .attr("block_size", Attr::Int(block))
                .input(floats(&shape))
        })
    }

    #[test]
    fn the_nearest_is_picked() {
        for coordinates in ["asymmetric", "align_corners", "half_pixel"] {
            cases("nearest", coordinates).for_each(|case| case.check(exact));
        }
    }

    #[test]
    fn neighbours_are_blended() {
        // At most 4 in magnitude; three roundings each way, and one of the weights.
        let bound = 4.0 * 8.0 * (f32::EPSILON / 2.0);
        for coordinates in ["asymmetric", "align_corners", "half_pixel"] {
            cases("linear", coordinates).for_each(|case| case.check(within(bound)));
        }
    }
}
