//! GridSample of planes, f32 and f64: the elements and weights of each point are
//! computed once for a tile of points, and used for every channel.

// collects are bounded: by the taps of a mode

use std::ops::Range;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_kernels::Task;
use ort_ops::ops::grid_sample::{GridMode, GridSample};
use ort_tensor::{DType, Number, Shape};
use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::bilinear::{FAR, Neighbours, Points, Weight};
use crate::cpu::{Cpu, Team, n_parts, per_part};
use crate::pieces::wanted;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Points per tile.
const POINTS: usize = 64;
/// The same where the planes together exceed the second-level cache: as many as read each line of a plane more than once.
const MANY_POINTS: usize = 8192;
/// Bytes that the second-level cache holds.
const CACHED: usize = 1 << 20;
/// The maximum number of elements that a point reads.
const TAPS: usize = 16;
/// The cost of reading an element, in multiply-adds.
const COST: usize = 64;

#[derive(Debug)]
struct GridSampleKernel {
    cpu: Cpu,
    op: GridSample,
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    /// The shape of the result, `[n, c, height, width]`; `None` if only `eval` supports it.
    shape: Option<Shape>,
    /// The height and width of a plane.
    plane: [usize; 2],
    /// Points per tile if there are many.
    n_many: Option<usize>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let (Some(&op), Some(dtype)) = (compiler.op::<GridSample>(), dtype) else { return Ok(None) };
    let is_same = compiler.fact(1).and_then(Fact::dtype) == Some(dtype);
    let takes = is_same && matches!(dtype, DType::F32 | DType::F64);
    let cpu = compiler.cpu;
    Ok(takes.then(|| Box::new(GridSampleKernel { cpu, op, dtype }) as Box<dyn Kernel>))
}

impl Kernel for GridSampleKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, grid] = shapes else { return Err(KernelError::ForeignState) };
        let (&[n, c, height, width], &[_, rows, columns, 2]) = (x, grid) else {
            return Ok(Prepared::new(State { shape: None, plane: [0; 2], n_many: None }));
        };
        // Empty or mismatched shapes are left to the operator.
        let fits = grid[0] == n && !x.contains(&0) && !grid.contains(&0);
        let shape = fits.then(|| Shape::from_slice(&[n, c, rows, columns]));
        let (n_planes, n_points) = (c.saturating_mul(height * width), rows.saturating_mul(columns));
        let (size, per_point) = match self.dtype {
            DType::F32 => (size_of::<f32>(), Neighbours::<f32>::SCRATCH),
            _ => (size_of::<f64>(), Neighbours::<f64>::SCRATCH),
        };
        let is_far = self.op.mode == GridMode::Linear && n_planes.saturating_mul(size) > CACHED;
        let n_many = (is_far && c > 1 && n_points > POINTS)
            .then(|| n_points.min(MANY_POINTS).next_multiple_of(POINTS));
        let scratch_bytes = self.cpu.scratch_bytes(n_many.unwrap_or(0) * per_point);
        let state = State { shape, plane: [height, width], n_many };
        Ok(Prepared::new(state).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, plane, n_many } = prepared.state()?;
        match (shape, self.dtype) {
            (None, _) => Ok(self.op.eval(io.inputs, io.outputs)?),
            (Some(shape), DType::F32) => self.sample::<f32>((shape, *plane, *n_many), io),
            (Some(shape), _) => self.sample::<f64>((shape, *plane, *n_many), io),
        }
    }

    fn variant(&self) -> &'static str {
        "grid_sample"
    }
}

/// Finds the neighbours of each point of a tile.
struct Linear<'a, 'n, T> {
    op: GridSample,
    points: &'a [T],
    size: [usize; 2],
    neighbours: &'a mut Neighbours<'n, T>,
}

impl<T: Weight> Task for Linear<'_, '_, T> {
    type Output = ();
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { op, points, size: [height, width], neighbours } = self;
        let is_double = T::DTYPE == DType::F64;
        neighbours.clear();
        for (i, [column, row]) in points.as_chunks::<2>().0.iter().enumerate() {
            let [left, right] = op.linear_taps(Number::to_f64(*column), width, is_double);
            let [above, below] = op.linear_taps(Number::to_f64(*row), height, is_double);
            let tap = |(at, weight): (Option<usize>, f64)| (at.unwrap_or(FAR), weight);
            neighbours.set(i, [[tap(above), tap(below)], [tap(left), tap(right)]], width);
        }
    }
}

/// Sums those in several planes.
struct Sums<'a, T> {
    neighbours: &'a Neighbours<'a, T>,
    planes: &'a [T],
    plane: usize,
    y: &'a mut [T],
    /// Points per plane, and those of the tile.
    n_points: usize,
    tile: Range<usize>,
}

impl<T: Weight> Task for Sums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let planes = self.planes.chunks_exact(self.plane);
        for (plane, y) in planes.zip(self.y.chunks_exact_mut(self.n_points)) {
            self.neighbours.sum(plane, &mut y[self.tile.clone()]);
        }
    }
}

/// Planes of a height and width.
struct Planes<'a, T> {
    size: [usize; 2],
    x: &'a [T],
}

/// The elements that the points of a tile read: `taps[starts[i]..starts[i + 1]]`.
struct Tile<T> {
    starts: [usize; POINTS + 1],
    /// The number of taps per point, if all have the same number.
    n_each: Option<usize>,
    taps: [(u32, T); POINTS * TAPS],
}

impl GridSampleKernel {
    fn sample<T: Weight>(
        &self,
        (shape, [height, width], n_many): (&[usize], [usize; 2], Option<usize>),
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let (x, grid) = (io.inputs.tensor(0)?, io.inputs.tensor(1)?);
        let (x, grid) = (x.as_slice::<T>()?, grid.as_slice::<T>()?);
        let y = io.outputs[0].tensor(T::DTYPE, shape)?.into_slice::<T>()?;
        let &[_, c, rows, columns] = shape else { return Err(KernelError::ForeignState) };
        let (n_points, n_plane) = (rows * columns, height * width);
        if u32::try_from(n_plane).is_err() || x.is_empty() || y.is_empty() {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        }
        // Threads share channels: each computes all taps.
        let n_parts = n_parts(io.threads, y.len().saturating_mul(COST));
        let per_part = per_part(io.threads, c, n_parts.min(c));
        let images = x.chunks_exact(c * n_plane).zip(grid.chunks_exact(2 * n_points));
        let parts = images.zip(y.chunks_exact_mut(c * n_points)).flat_map(|((x, grid), y)| {
            let channels = x.chunks(per_part * n_plane).zip(y.chunks_mut(per_part * n_points));
            channels.map(move |(x, y)| (x, grid, y))
        });
        let n_parts = shape[0] * c.div_ceil(per_part);
        let team = Team::new(io.threads, n_parts).if_worth(y_cost(shape));
        let scratch_len = n_many.unwrap_or(0) * Neighbours::<T>::SCRATCH;
        team.with_scratch(io.scratch, scratch_len).run(parts, |(x, grid, y), scratch| {
            if self.op.mode == GridMode::Linear {
                let planes = Planes { size: [height, width], x };
                let neighbours = n_many.map(|n| (Neighbours::within(scratch, n), n));
                let mut few = Points::<T, POINTS>::new();
                let tile = neighbours.unwrap_or_else(|| (few.neighbours(), POINTS));
                return self.sample_linear(planes, (grid, y), tile);
            }
            let tiles = wanted(grid.chunks(2 * POINTS)).zip((0..).step_by(POINTS));
            let mut tile = Tile {
                starts: [0; POINTS + 1],
                n_each: None,
                taps: [(0, T::default()); POINTS * TAPS],
            };
            for (points, first) in tiles {
                self.place(points, [height, width], &mut tile);
                for (plane, y) in x.chunks_exact(n_plane).zip(y.chunks_exact_mut(n_points)) {
                    tile.sum(plane, &mut y[first..][..points.len() / 2]);
                }
            }
        });
        Ok(())
    }

    /// The samples of all points, so many at once, in these planes.
    fn sample_linear<T: Weight>(
        &self,
        Planes { size, x }: Planes<'_, T>,
        (grid, y): (&[T], &mut [T]),
        (mut neighbours, n): (Neighbours<'_, T>, usize),
    ) {
        let (isa, op, plane, n_points) = (self.cpu.isa, self.op, size[0] * size[1], grid.len() / 2);
        for (points, first) in wanted(grid.chunks(2 * n)).zip((0..).step_by(n)) {
            isa.run(Linear { op, points, size, neighbours: &mut neighbours });
            let tile = first..first + points.len() / 2;
            isa.run(Sums { neighbours: &neighbours, planes: x, plane, y, n_points, tile });
        }
    }

    /// Computes the taps of the points of a tile.
    fn place<T: Weight>(&self, points: &[T], [height, width]: [usize; 2], tile: &mut Tile<T>) {
        let is_double = T::DTYPE == DType::F64;
        let mut n = 0;
        for (point, start) in points.as_chunks::<2>().0.iter().zip(&mut tile.starts[1..]) {
            let [column, row] = point.map(|position| Number::to_f64(position));
            let columns: SmallVec<[_; 4]> = self.op.axis_taps(column, width, is_double).collect();
            for (i, row_weight) in self.op.axis_taps(row, height, is_double) {
                for &(j, weight) in &columns {
                    // `sample` has checked that the index fits.
                    let at = u32::try_from(i * width + j).unwrap_or(u32::MAX);
                    tile.taps[n] = (at, <T as Number>::from_f64(row_weight * weight));
                    n += 1;
                }
            }
            *start = n;
        }
        let n_points = points.len() / 2;
        let each = n / n_points.max(1);
        let has_each = |(i, start): (usize, &usize)| *start == i * each;
        let is_regular = tile.starts[..=n_points].iter().enumerate().all(has_each);
        tile.n_each = is_regular.then_some(each);
    }
}

/// The cost of a result, in multiply-adds.
fn y_cost(shape: &[usize]) -> usize {
    shape.iter().fold(COST, |cost, dim| cost.saturating_mul(*dim))
}

impl<T: Weight> Tile<T> {
    fn sum(&self, plane: &[T], y: &mut [T]) {
        if self.n_each == Some(TAPS) {
            return self.sum_of_all(plane, y);
        }
        for (y, ends) in y.iter_mut().zip(self.starts.windows(2)) {
            let taps = &self.taps[ends[0]..ends[1]];
            let terms = taps.iter().map(|&(at, weight)| weight * plane[at as usize]);
            *y = match taps.len() {
                // A tap of weight 1 copies the element, even NaN.
                1 if Number::to_f64(taps[0].1) == 1.0 => plane[taps[0].0 as usize],
                _ => terms.fold(T::default(), |sum, term| sum + term),
            };
        }
    }

    /// The same for points that all have the most taps.
    fn sum_of_all(&self, plane: &[T], y: &mut [T]) {
        for (y, taps) in y.iter_mut().zip(self.taps.as_chunks::<TAPS>().0) {
            let terms = taps.iter().map(|&(at, weight)| weight * plane[at as usize]);
            *y = terms.fold(T::default(), |sum, term| sum + term);
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, exact, floats, within};

    /// Points from below −1 to above 1.
    fn grid(shape: &[usize]) -> Tensor {
        let points = floats(shape);
        let points = points.as_slice::<f32>().unwrap().iter().map(|x| x * 0.3);
        Tensor::from_slice(shape, &points.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn samples_equal_the_operators() {
        for mode in ["linear", "nearest", "cubic"] {
            for (padding, corners) in
                ["zeros", "border", "reflection"].into_iter().flat_map(|p| [(p, 0), (p, 1)])
            {
                let case = |x: &[usize], points: &[usize]| {
                    Case::new("GridSample", 22)
                        .attr("mode", Attr::String(mode.into()))
                        .attr("padding_mode", Attr::String(padding.into()))
                        .attr("align_corners", Attr::Int(corners))
                        .input(floats(x))
                        .input(grid(points))
                };
                // Elements are at most 4, and cubic weights at most 2.
                let error = within(4.0 * 16.0 * f32::EPSILON);
                case(&[2, 3, 13, 17], &[2, 11, 19, 2]).check(&error);
                case(&[1, 5, 1, 1], &[1, 1, 3, 2]).check(&error);
                case(&[1, 40, 60, 50], &[1, 70, 60, 2]).check(&error);
                case(&[1, 2, 4, 5, 3], &[1, 2, 3, 4, 3]).check(&error);
            }
        }
    }

    #[test]
    fn taps_outside_read_nothing() {
        let x = Tensor::from_slice(&[1, 1, 2, 2], &[f32::INFINITY, 1.0, 2.0, f32::NAN]).unwrap();
        let points = [5.0_f32, 5.0, -9.0, 0.0, f32::NAN, 0.0, 0.5, -1.0, 1e30, -1.0, -0.5, 1.2];
        let points = Tensor::from_slice(&[1, 2, 3, 2], &points).unwrap();
        for padding in ["zeros", "border", "reflection"] {
            Case::new("GridSample", 22)
                .attr("padding_mode", Attr::String(padding.into()))
                .input(x.clone())
                .input(points.clone())
                .check(exact);
        }
    }
}
