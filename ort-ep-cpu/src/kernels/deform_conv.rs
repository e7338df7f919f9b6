//! DeformConv of images, f32 and f64, on all threads, strip by strip of windows:
//!
//! ```text
//! for each strip of windows p:
//!     for each tap k: places and weights of the four neighbours of each window's tap, once for all channels
//!         patches[(c, k), p] = Σ weight·x[c, place]
//!     y[m, p] = b[m] + Σ w[m, (c, k)]·patches[(c, k), p]    as a product of matrices
//! ```

use std::ops::Range;

use bytemuck::cast_slice_mut;
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Operator;
use ort_kernels::Task;
use ort_kernels::gemm::{Gemm, Lhs, Matrix, Start, Strided};
use ort_ops::infer::Window;
use ort_ops::ops::deform_conv::DeformConv;
use ort_tensor::{DType, Number, Shape, n_elements};

use super::{Compiled, Compiler, KernelDef};
use crate::bilinear::{Axis, FAR, Neighbours, Points, Weight};
use crate::cpu::{Cpu, Team};
use crate::cut::{Along, Cut, Part};
use crate::summand::Summand;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The maximum number of windows in a strip.
const STRIP: usize = 256;
/// Strips are multiples of this, which every register tile divides.
const STEP: usize = 64;
/// Patches of a strip: half a mebibyte of f32, which the second-level cache holds.
const PATCHES: usize = 128 * 1024;
/// The cost of a tap's value, in multiply-adds.
const COST: usize = 64;

#[derive(Debug)]
struct DeformConvKernel {
    cpu: Cpu,
    op: DeformConv,
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    /// The shape of the result.
    shape: Shape,
    window: Window,
    /// Input channels.
    channels: usize,
    /// The number of windows in a strip.
    strip: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtype = compiler.dtype_of(0..5).filter(|dtype| matches!(dtype, DType::F32 | DType::F64));
    let (Some(op), Some(dtype)) = (compiler.op::<DeformConv>(), dtype) else { return Ok(None) };
    Ok(Some(Box::new(DeformConvKernel { cpu: compiler.cpu, op: op.clone(), dtype })))
}

impl Kernel for DeformConvKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        // Everything but images, empty or mismatched shapes are left to the operator.
        let Some(state) = State::new(&self.op, shapes) else {
            return Ok(Prepared::new(None::<State>));
        };
        let len = match self.dtype {
            DType::F32 => self.scratch_len::<f32>(&state),
            _ => self.scratch_len::<f64>(&state),
        };
        Ok(Prepared::new(Some(state)).with_scratch(self.cpu.scratch_bytes(len)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Option<State> = prepared.state()?;
        match (state, self.dtype) {
            (None, _) => Ok(self.op.eval(io.inputs, io.outputs)?),
            (Some(state), DType::F32) => self.compute::<f32>(state, io),
            (Some(state), _) => self.compute::<f64>(state, io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "deform_conv")
    }
}

impl State {
    fn new(op: &DeformConv, shapes: &[&[usize]]) -> Option<Self> {
        let &[x, w, offset, ref rest @ ..] = shapes else { return None };
        let (&[n, c, height, width], &[m, of_group, rows, columns]) = (x, w) else { return None };
        let window = op.window.window(&[height, width], &[rows, columns]).ok()?;
        let n_taps = op.offset_group.checked_mul(rows.checked_mul(columns)?)?;
        let bias = rest.first().copied().filter(|bias| !bias.is_empty());
        let mask = rest.get(1).copied().filter(|mask| !mask.is_empty());
        let &[out_height, out_width] = &*window.output else { return None };
        let per_tap = |n_each: usize| Some([n, n_taps.checked_mul(n_each)?, out_height, out_width]);
        let fits = of_group.checked_mul(op.group) == Some(c)
            && m.is_multiple_of(op.group)
            && c.is_multiple_of(op.offset_group)
            && *offset == per_tap(2)?
            && bias.is_none_or(|bias| *bias == [m])
            && mask.is_none_or(|mask| Some(mask) == per_tap(1).as_ref().map(|mask| &mask[..]));
        let shape = Shape::from_slice(&[n, m, out_height, out_width]);
        let is_empty = shape.iter().chain(x).chain(w).any(|&dim| dim == 0);
        // The greatest place means outside.
        let has_places = u32::try_from(height.checked_mul(width)?).is_ok_and(|n| n < u32::MAX);
        let rows = c.checked_mul(window.n_taps())?;
        let most = n_elements(&window.output)?.next_multiple_of(STEP).min(STRIP);
        let strip = (PATCHES / rows.max(1) / STEP * STEP).clamp(STEP, most.max(STEP));
        let state = Self { shape, window, channels: c, strip };
        (fits && !is_empty && has_places).then_some(state)
    }

    /// The rows of patches: one per channel and tap.
    fn n_rows(&self) -> usize {
        self.channels.saturating_mul(self.window.n_taps())
    }
}

impl DeformConvKernel {
    /// One group of output channels times a strip of patches of `width` windows.
    fn gemm<'a, T: Summand>(
        &self,
        state: &State,
        (w, b): (&'a [T], &'a [T]),
        (width, start): (usize, Start<'a, T>),
    ) -> Gemm<'a, Matrix<'a, T>, T> {
        let (m, k) = (state.shape[1] / self.op.group, state.n_rows() / self.op.group);
        let a = Lhs::Strided { a: Matrix::row_major(w, m, k), alpha: T::ONE };
        let activation = T::fused(T::no_epilogue());
        let b = Matrix::row_major(b, k, width);
        Gemm { isa: self.cpu.isa, m, n: width, k, a, b, start, activation }
    }

    /// Elements of `T` per thread: patches, results, and the scratch of a product.
    fn lens<T: Summand>(&self, state: &State) -> [usize; 3] {
        let gemm = self.gemm::<T>(state, (&[], &[]), (state.strip, Start::Zero));
        let (rows, m) = (state.n_rows(), state.shape[1]);
        [rows.saturating_mul(state.strip), m.saturating_mul(state.strip), gemm.scratch_len(gemm.m)]
    }

    /// The same in elements of f32.
    fn scratch_len<T: Summand>(&self, state: &State) -> usize {
        let len = self.lens::<T>(state).into_iter().fold(0, usize::saturating_add);
        len.saturating_mul(size_of::<T>() / size_of::<f32>())
    }

    fn compute<T: Real>(&self, state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let slice = |index| -> Result<&[T], KernelError> {
            Ok(match io.inputs.optional_tensor(index)? {
                Some(tensor) => tensor.as_slice::<T>()?,
                None => &[],
            })
        };
        let (x, w, bias) = (slice(0)?, slice(1)?, slice(3)?);
        let (offset, mask) = (slice(2)?, slice(4)?);
        let y = io.outputs[0].tensor(T::DTYPE, &state.shape)?.into_slice::<T>()?;
        let &[n, m, height, width] = &*state.shape else { return Err(KernelError::ForeignState) };
        let (n_windows, group) = (height * width, self.op.group);
        let n_strips = n_windows.div_ceil(state.strip);
        let cut = Cut::new(self.cpu.isa, [m, n_windows], n_strips, Along::Columns);
        let [of_patches, of_results, _] = self.lens::<T>(state);
        let parts = y.chunks_exact_mut(m * n_windows).enumerate();
        let parts = parts.flat_map(|(i, y)| cut.parts(y).map(move |part| (i, part)));
        let cost = y_cost(&state.shape, state.n_rows());
        let team = Team::new(io.threads, n * cut.n_parts()).if_worth(cost);
        let team = team.with_scratch(io.scratch, self.scratch_len::<T>(state));
        team.run(parts, |(image, mut part): (usize, Part<'_, T>), scratch| {
            let (patches, rest) = cast_slice_mut::<f32, T>(scratch).split_at_mut(of_patches);
            let (results, rest) = rest.split_at_mut(of_results);
            let columns = part.columns.clone();
            let patches = &mut patches[..state.n_rows() * columns.len()];
            let moved = Moved { op: &self.op, state, image, x, offset, mask };
            self.cpu.isa.run(Strip { moved, columns: columns.clone(), patches });
            let per_group = m / group;
            let groups = w.chunks_exact(w.len() / group).zip(patches.chunks(patches.len() / group));
            for (i, (w, patches)) in groups.enumerate() {
                let start = match bias {
                    [] => Start::Zero,
                    bias => Start::ByRow(&bias[i * per_group..][..per_group]),
                };
                let gemm = self.gemm(state, (w, patches), (columns.len(), start));
                let data = &mut results[i * per_group * columns.len()..];
                gemm.run(&gemm.whole(), &mut Strided { data, stride: columns.len() }, rest);
            }
            // A part may have fewer rows than the matrix.
            part.for_each_row(|row, y| {
                y.copy_from_slice(&results[row * columns.len()..][..columns.len()]);
            });
        });
        Ok(())
    }
}

/// The cost of all patches, in multiply-adds.
fn y_cost(shape: &[usize], n_rows: usize) -> usize {
    [shape[0], shape[2], shape[3], n_rows].iter().fold(COST, |cost, dim| cost.saturating_mul(*dim))
}

/// The moved windows of an image.
struct Moved<'a, T> {
    op: &'a DeformConv,
    state: &'a State,
    image: usize,
    x: &'a [T],
    offset: &'a [T],
    /// Empty if absent.
    mask: &'a [T],
}

/// Writes the patches of the windows `columns`: `[channels·taps, columns]`.
struct Strip<'a, T> {
    moved: Moved<'a, T>,
    columns: Range<usize>,
    patches: &'a mut [T],
}

impl<T: Real> Task for Strip<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { moved, columns, patches } = self;
        let window = &moved.state.window;
        let (n_taps, width) = (window.n_taps(), columns.len());
        let plane = window.input[0] * window.input[1];
        let n_alike = moved.state.channels / moved.op.offset_group;
        let mut points = Points::<T, STRIP>::new();
        let mut neighbours = points.neighbours();
        let image = &moved.x[moved.image * moved.state.channels * plane..];
        for part in 0..moved.op.offset_group {
            let channels = image[part * n_alike * plane..].chunks_exact(plane).take(n_alike);
            let rows = &mut patches[part * n_alike * n_taps * width..];
            for tap in 0..n_taps {
                moved.neighbours((part, tap), columns.clone(), &mut neighbours);
                let rows = rows.chunks_exact_mut(width).skip(tap).step_by(n_taps);
                for (x, row) in channels.clone().zip(rows) {
                    neighbours.sum(x, row);
                }
            }
        }
    }
}

impl<T: Real> Moved<'_, T> {
    /// Writes the neighbours of a tap of each of the windows `columns`.
    #[inline(always)]
    fn neighbours(
        &self,
        (part, tap): (usize, usize),
        columns: Range<usize>,
        neighbours: &mut Neighbours<'_, T>,
    ) {
        neighbours.clear();
        let window = &self.state.window;
        let (n_windows, out_width) = (window.output[0] * window.output[1], window.output[1]);
        let steps = [tap / window.kernel[1], tap % window.kernel[1]];
        let row = (self.image * self.op.offset_group + part) * window.n_taps() + tap;
        let offsets = [0, 1].map(|axis| &self.offset[(row * 2 + axis) * n_windows..][..n_windows]);
        let mask = (!self.mask.is_empty()).then(|| &self.mask[row * n_windows..][..n_windows]);
        let mut position = [columns.start / out_width, columns.start % out_width];
        let strides = [window.strides[0], window.strides[1]];
        let (height, width) = (window.input[0], window.input[1]);
        let first = |axis: usize| {
            (steps[axis] * window.dilations[axis]) as f64 - window.pads_begin[axis] as f64
        };
        let first = [first(0), first(1)];
        for (point, i) in columns.enumerate() {
            let factor = mask.map_or(1.0, |mask| Number::to_f64(mask[i]));
            let place = |axis: usize, offset: T| {
                (position[axis] * strides[axis]) as f64 + first[axis] + Number::to_f64(offset)
            };
            let rows = along(place(0, offsets[0][i]), height);
            let [(row, above), (next_row, below)] = rows;
            let rows = [(row, above * factor), (next_row, below * factor)];
            let columns = along(place(1, offsets[1][i]), width);
            neighbours.set(point, [rows, columns], width);
            position[1] += 1;
            if position[1] == out_width {
                position = [position[0] + 1, 0];
            }
        }
    }
}

/// The two neighbours of `place` on an axis of `n` elements, [`FAR`] outside, with their weights.
#[inline(always)]
fn along(place: f64, n: usize) -> Axis {
    let floor = place.floor();
    let ratio = place - floor;
    let element = |at: f64| match at >= 0.0 && at < n as f64 {
        true => usize::try_from(i64::from_f64(at)).unwrap_or(FAR),
        false => FAR,
    };
    [(element(floor), 1.0 - ratio), (element(floor + 1.0), ratio)]
}

/// A float type with matrix products.
trait Real: Summand + Weight {}

impl Real for f32 {}
impl Real for f64 {}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor, n_elements};

    use crate::case::{Case, within};

    /// Fractions from −`most` to `most`.
    fn numbers<T: Number>(shape: &[usize], most: f64) -> Tensor {
        let unit = |i: usize| ((i * 7919 + 13) % 1009) as f64 / 504.5 - 1.0;
        let all = (0..n_elements(shape).unwrap()).map(|i| T::from_f64(unit(i) * most));
        Tensor::from_slice(shape, &all.collect::<Vec<_>>()).unwrap()
    }

    /// Compares a convolution of `x` by `w`, with these groups and strides, whose result has this height and width.
    fn check<T: Number>([x, w]: [[usize; 4]; 2], [group, parts, stride]: [i64; 3], has_all: bool) {
        let side = |i: usize| {
            let stride = usize::try_from(stride).unwrap();
            (x[i] + 2 - 2 * (w[i] - 1) - 1) / stride + 1
        };
        let of_taps = |n: usize| {
            let n_taps = usize::try_from(parts).unwrap() * w[2] * w[3];
            [x[0], n_taps * n, side(2), side(3)]
        };
        let case = Case::new("DeformConv", 22)
            .attr("pads", Attr::Ints(vec![1; 4]))
            .attr("strides", Attr::Ints(vec![stride; 2]))
            .attr("dilations", Attr::Ints(vec![2; 2]))
            .attr("group", Attr::Int(group))
            .attr("offset_group", Attr::Int(parts))
            .input(numbers::<T>(&x, 1.0))
            .weight(numbers::<T>(&w, 1.0))
            .input(numbers::<T>(&of_taps(2), 3.0));
        let case = match has_all {
            true => case.weight(numbers::<T>(&w[..1], 1.0)).input(numbers::<T>(&of_taps(1), 1.0)),
            false => case,
        };
        // A sum of products of numbers of at most 1; the weights of neighbours are rounded, too.
        let terms = (w[1] * w[2] * w[3]) as f32;
        let unit = if T::DTYPE == ort_tensor::DType::F64 { 2.3e-16 } else { 6e-8 };
        case.check(within(terms * (terms.sqrt() + 8.0) * unit));
    }

    #[test]
    fn moved_windows_equal_the_operators() {
        let cases: [([[usize; 4]; 2], [i64; 3]); 6] = [
            ([[2, 4, 9, 11], [6, 4, 3, 3]], [1, 1, 1]),
            ([[1, 4, 9, 11], [6, 2, 3, 2]], [2, 4, 2]),
            ([[2, 6, 5, 4], [3, 2, 1, 1]], [3, 2, 1]),
            ([[1, 1, 3, 3], [1, 1, 3, 2]], [1, 1, 1]),
            // Several strips, on several threads.
            ([[1, 16, 60, 50], [16, 16, 3, 3]], [1, 1, 1]),
            ([[2, 80, 20, 31], [40, 40, 3, 3]], [2, 2, 1]),
        ];
        for (shapes, groups) in cases {
            for has_all in [false, true] {
                check::<f32>(shapes, groups, has_all);
                check::<f64>(shapes, groups, has_all);
            }
        }
    }

    #[test]
    fn elements_outside_have_no_weight_and_volumes_run() {
        let x = Tensor::from_slice(&[1, 1, 1, 2], &[f32::NAN, 1.0]).unwrap();
        let w = Tensor::from_slice(&[1, 1, 1, 1], &[1_f32]).unwrap();
        for offsets in [[f32::NAN, 0.0, 0.0, 0.0], [0.0, 0.0, 1.5, 0.5], [9.0, 0.0, -2e9, 0.25]] {
            let offset = Tensor::from_slice(&[1, 2, 1, 2], &offsets).unwrap();
            let case = Case::new("DeformConv", 22).input(x.clone()).weight(w.clone());
            case.input(offset).check(crate::case::exact);
        }
        let case = Case::new("DeformConv", 22).input(numbers::<f32>(&[1, 2, 3], 1.0));
        let case = case.weight(numbers::<f32>(&[1, 2, 1], 1.0));
        case.input(numbers::<f32>(&[1, 1, 3], 1.0)).check(crate::case::exact);
    }
}
