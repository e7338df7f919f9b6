//! RoiAlign and MaxRoiPool of f32 and f64, on all threads: the weight of a tap is the product of one of its row and one
//! of its column, so a row of bins is pooled over rows of the image first, and then over columns.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_kernels::{Isa, Task};
use ort_ops::arithmetic::Arithmetic;
use ort_ops::ops::max_roi_pool::{MaxRoiPool, Side};
use ort_ops::ops::roi_align::{RoiAlign, Samples};
use ort_tensor::{DType, Element, Number, Pace, Room, TensorError, try_collected, with_room};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Regions with more taps along an axis are left to the operator, which lists one bin at a time.
const MAX_TAPS: usize = 1 << 18;
/// Elements of rows that are pooled together, where the image has that many columns.
const LANES: usize = 16;
/// The cost of a tap along a row, in multiply-adds.
const COST: usize = 48;

#[derive(Debug)]
struct RoiKernel {
    which: Which,
    dtype: DType,
    isa: Isa,
    /// Reports which region or index is invalid.
    eval: Arc<dyn Operator>,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Align(RoiAlign),
    Pool(MaxRoiPool),
}

/// Prepared state for one shape signature.
#[derive(Clone, Copy, Debug)]
struct Shapes {
    /// The shape of the images.
    x: [usize; 4],
    n_rois: usize,
    /// The rows and columns of bins.
    bins: [usize; 2],
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let which = compiler.op::<RoiAlign>().copied().map(Which::Align);
    let which = which.or_else(|| compiler.op::<MaxRoiPool>().copied().map(Which::Pool));
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let dtype = dtype.filter(|dtype| matches!(dtype, DType::F32 | DType::F64));
    let (Some(which), Some(dtype)) = (which, dtype) else { return Ok(None) };
    let eval = compiler.graph.node(id).op.clone();
    Ok(Some(Box::new(RoiKernel { which, dtype, isa: compiler.cpu.isa, eval })))
}

impl Kernel for RoiKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, rois, ref images @ ..] = shapes else { return Err(KernelError::ForeignState) };
        let (bins, n_columns) = match self.which {
            Which::Align(op) => (op.output, 4),
            Which::Pool(op) => (op.pooled, 5),
        };
        let known = match (x, rois) {
            (&[n, c, height, width], &[n_rois, columns]) if columns == n_columns => {
                Some(Shapes { x: [n, c, height, width], n_rois, bins })
            }
            _ => None,
        };
        let fits = |known: &Shapes| images.first().is_none_or(|images| **images == [known.n_rois]);
        // Empty or mismatched shapes are left to the operator.
        let has_all =
            |known: &Shapes| !known.x.contains(&0) && known.n_rois > 0 && !bins.contains(&0);
        Ok(Prepared::new(known.filter(|known| fits(known) && has_all(known))))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let shapes: &Option<Shapes> = prepared.state()?;
        let is_valid = match (shapes, self.dtype) {
            (None, _) => false,
            (Some(shapes), DType::F32) => self.compute::<f32>(*shapes, io)?,
            (Some(shapes), _) => self.compute::<f64>(*shapes, io)?,
        };
        if is_valid { Ok(()) } else { Ok(self.eval.eval(io.inputs, io.outputs)?) }
    }

    fn variant(&self) -> &'static str {
        "roi"
    }
}

impl RoiKernel {
    /// Returns whether all regions have a size, and their images exist.
    fn compute<T: Arithmetic + Element>(
        &self,
        shapes: Shapes,
        io: &mut Io<'_, '_>,
    ) -> Result<bool, KernelError> {
        let Shapes { x: [n, c, height, width], n_rois, bins: [rows, columns] } = shapes;
        let (x, rois) = (io.inputs.tensor(0)?, io.inputs.tensor(1)?);
        let (x, rois) = (x.as_slice::<T>()?, rois.as_slice::<T>()?);
        let images = match self.which {
            Which::Align(_) => io.inputs.tensor(2)?.as_slice::<i64>()?,
            Which::Pool(_) => &[],
        };
        let y = io.outputs[0].tensor(T::DTYPE, &[n_rois, c, rows, columns])?.into_slice::<T>()?;
        let mut regions = with_room(n_rois)?;
        for (i, numbers) in rois.chunks_exact(rois.len() / n_rois).enumerate() {
            match self.region(shapes, numbers, images.get(i).copied()).filter(|r| r.image < n) {
                Some(region) => regions.push(region),
                None => return Ok(false),
            }
        }
        let (plane, n_bins) = (height * width, rows * columns);
        let cost = regions.iter().map(|region| region.cost(shapes));
        let cost = cost.fold(0, usize::saturating_add).saturating_mul(c);
        let per_part = c.div_ceil(n_parts(io.threads, cost).div_ceil(n_rois).min(c));
        let parts = regions.iter().zip(y.chunks_exact_mut(c * n_bins)).flat_map(|(region, y)| {
            let image = &x[region.image * c * plane..][..c * plane];
            let channels = image.chunks(per_part * plane).zip(y.chunks_mut(per_part * n_bins));
            channels.map(move |(x, y)| (region, x, y))
        });
        // Allocated here, because other threads have no allowance.
        let most = |axis: usize| regions.iter().map(|r| r.n_taps(shapes, axis)).max().unwrap_or(0);
        let most = [most(0), most(1)];
        let list = |_| Lists::<T>::with_room(shapes, most);
        let lists: Vec<Lists<T>> = try_collected((0..io.threads.count()).map(list))?;
        let lists = Mutex::new(lists);
        let is_max = match self.which {
            Which::Align(op) => op.is_max,
            Which::Pool(_) => true,
        };
        let n = n_rois * c.div_ceil(per_part);
        Team::new(io.threads, n).if_worth(cost).run(parts, |part, _| {
            let (region, x, y) = part;
            let free = lists.lock().ok().and_then(|mut lists| lists.pop());
            let mut list = free.expect("invariant: a list for each thread");
            list.fill(region, shapes, is_max);
            let columns = list.taps[1].range(width);
            self.isa.run(Pooling { x, width, plane, columns, list: &mut list, is_max, y });
            if let Ok(mut lists) = lists.lock() {
                lists.push(list);
            }
        });
        Ok(true)
    }

    /// The region of a row of `rois`, unless its size or its image is invalid.
    fn region<T: Arithmetic>(
        &self,
        shapes: Shapes,
        row: &[T],
        image: Option<i64>,
    ) -> Option<Region> {
        let number = |i: usize| row[i].to_f64();
        let (image, axes) = match self.which {
            Which::Align(op) => {
                let samples = |axis, ends| op.samples(axis, ends).ok().map(Axis::Samples);
                let [rows, columns] = [[number(1), number(3)], [number(0), number(2)]];
                (image?, [samples(0, rows)?, samples(1, columns)?])
            }
            Which::Pool(op) => {
                let side = |first, last| Axis::Side(op.side(number(first), number(last)));
                (i64::from_f64(number(0)), [side(2, 4), side(1, 3)])
            }
        };
        let region = Region { image: usize::try_from(image).ok()?, axes };
        (0..2).all(|axis| region.n_taps(shapes, axis) <= MAX_TAPS).then_some(region)
    }
}

/// A region of an image, and where its rows and columns of bins lie.
#[derive(Clone, Copy, Debug)]
struct Region {
    image: usize,
    axes: [Axis; 2],
}

#[derive(Clone, Copy, Debug)]
enum Axis {
    Samples(Samples),
    Side(Side),
}

impl Region {
    /// At least as many taps as there are along an axis.
    fn n_taps(&self, shapes: Shapes, axis: usize) -> usize {
        let (n_bins, len) = (shapes.bins[axis], shapes.x[2 + axis]);
        match self.axes[axis] {
            Axis::Samples(samples) => n_bins.saturating_mul(2 * samples.count() as usize),
            Axis::Side(side) => (0..n_bins).map(|bin| side.bin(bin, n_bins, len).len()).sum(),
        }
    }

    /// The approximate cost of a channel.
    fn cost(&self, shapes: Shapes) -> usize {
        let [rows, columns] = [0, 1].map(|axis| self.n_taps(shapes, axis));
        let along_rows = rows.saturating_mul(shapes.x[3].min(columns).div_ceil(LANES));
        along_rows.saturating_add(shapes.bins[0].saturating_mul(columns)).saturating_mul(COST)
    }
}

/// The index of an element along an axis, and its weight.
type Tap<T> = (usize, T);

/// The taps along an axis, of one bin after another.
struct Taps<T> {
    taps: Room<Tap<T>>,
    /// The end of the taps of each bin.
    ends: Room<usize>,
}

/// What a thread needs to pool a region.
struct Lists<T> {
    /// Of the rows and the columns.
    taps: [Taps<T>; 2],
    /// The elements of a row of bins, pooled over rows.
    row: Room<T>,
}

impl<T: Arithmetic + Element> Lists<T> {
    fn with_room(shapes: Shapes, n_taps: [usize; 2]) -> Result<Self, TensorError> {
        let taps = |axis: usize| {
            let taps = Room::filled((0, T::default()), n_taps[axis])?;
            Ok::<_, TensorError>(Taps { taps, ends: Room::filled(0, shapes.bins[axis])? })
        };
        let taps = [taps(0)?, taps(1)?];
        Ok(Self { taps, row: Room::filled(T::default(), shapes.x[3])? })
    }

    /// Lists the taps of a region. The weights of the rows include the division by the number of samples, if the bins
    /// are means.
    fn fill(&mut self, region: &Region, shapes: Shapes, is_max: bool) {
        let n = |axis: Axis| match axis {
            Axis::Samples(samples) if !is_max => f64::from(samples.count()),
            _ => 1.0,
        };
        let factors = [1.0 / (n(region.axes[0]) * n(region.axes[1])), 1.0];
        for (axis, taps) in self.taps.iter_mut().enumerate() {
            let (of, len) = (region.axes[axis], shapes.x[2 + axis]);
            taps.fill(of, len, (!is_max).then_some(factors[axis]));
        }
    }
}

impl<T: Arithmetic> Taps<T> {
    /// Lists the taps of an axis of `len` elements. With `factor`, which weights are multiplied by, and more than two
    /// samples per bin, weights of one element that follow each other are added.
    fn fill(&mut self, axis: Axis, len: usize, factor: Option<f64>) {
        let (mut n, n_bins) = (0, self.ends.len());
        for (bin, end) in self.ends.iter_mut().enumerate() {
            match axis {
                Axis::Side(side) => {
                    for at in side.bin(bin, n_bins, len) {
                        self.taps[n] = (at, T::from_f64(1.0));
                        n += 1;
                    }
                }
                Axis::Samples(samples) => {
                    let (start, mut last) = (n, (usize::MAX, 0.0));
                    let adds = factor.is_some() && samples.count() > 2;
                    let samples = (0..samples.count()).map(|i| samples.sample(bin, i, len).0);
                    for (at, weight) in samples.flatten() {
                        let weight = weight * factor.unwrap_or(1.0);
                        let is_same = adds && n > start && last.0 == at;
                        last = (at, if is_same { last.1 + weight } else { weight });
                        n += usize::from(!is_same);
                        self.taps[n - 1] = (at, T::from_f64(last.1));
                    }
                }
            }
            *end = n;
        }
    }

    #[inline(always)]
    fn of_bin(&self, bin: usize) -> &[Tap<T>] {
        let start = if bin == 0 { 0 } else { self.ends[bin - 1] };
        &self.taps[start..self.ends[bin]]
    }

    /// The elements that have taps, of an axis of `len`, rounded up to whole registers if the axis is long enough.
    fn range(&self, len: usize) -> Range<usize> {
        let n_taps = self.ends.last().copied().unwrap_or(0);
        let places = || self.taps[..n_taps].iter().map(|&(at, _)| at);
        let (Some(first), Some(last)) = (places().min(), places().max()) else { return 0..0 };
        let n = (last + 1 - first).next_multiple_of(LANES).min(len);
        let first = first.min(len - n);
        first..first + n
    }
}

/// Pools a region of each of several channels.
struct Pooling<'a, T> {
    x: &'a [T],
    width: usize,
    /// Elements per channel.
    plane: usize,
    /// The columns that have taps.
    columns: Range<usize>,
    list: &'a mut Lists<T>,
    is_max: bool,
    y: &'a mut [T],
}

impl<T: Arithmetic + Element> Task for Pooling<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        match self.is_max {
            true => self.fold(T::from_f64(f64::NEG_INFINITY), T::larger),
            false => self.fold(T::default(), T::add),
        }
    }
}

impl<T: Arithmetic + Element> Pooling<'_, T> {
    #[inline(always)]
    fn fold(self, start: T, join: impl Fn(T, T) -> T + Copy) {
        let Self { x, width, plane, columns, list: Lists { taps, row }, y, .. } = self;
        let [of_rows, of_columns] = taps;
        let row = &mut row[..columns.len()];
        let (n_rows, n_columns) = (of_rows.ends.len(), of_columns.ends.len());
        let mut pace = Pace::new();
        for (x, y) in x.chunks_exact(plane).zip(y.chunks_exact_mut(n_rows * n_columns)) {
            let line = |&(at, weight): &Tap<T>| (&x[at * width..][columns.clone()], weight);
            for (i, y) in y.chunks_exact_mut(n_columns).enumerate() {
                let rows = of_rows.of_bin(i);
                if pace.go(rows.len() * row.len()).is_err() {
                    return;
                }
                row.fill(start);
                let (fours, rest) = rows.as_chunks::<4>();
                for [a, b, c, d] in fours {
                    join_lines([line(a), line(b), line(c), line(d)], row, join);
                }
                for tap in rest {
                    let (x, weight) = line(tap);
                    for i in 0..row.len() {
                        row[i] = join(row[i], x[i].mul(weight));
                    }
                }
                for (j, y) in y.iter_mut().enumerate() {
                    let (taps, start) = (of_columns.of_bin(j), columns.start);
                    let is_empty = rows.is_empty() || taps.is_empty();
                    *y = if is_empty { T::default() } else { join_taps(taps, (row, start), join) };
                }
            }
        }
    }
}

/// Joins the elements of four lines, times their weights, and those of `row`.
#[inline(always)]
fn join_lines<T: Arithmetic>(
    [(a, u), (b, v), (c, w), (d, z)]: [(&[T], T); 4],
    row: &mut [T],
    join: impl Fn(T, T) -> T,
) {
    let n = row.len();
    let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
    for i in 0..n {
        let pairs = (join(a[i].mul(u), b[i].mul(v)), join(c[i].mul(w), d[i].mul(z)));
        row[i] = join(row[i], join(pairs.0, pairs.1));
    }
}

/// Joins the elements of taps, which are at least one, times their weights; `row` begins at an element `start`.
#[inline(always)]
fn join_taps<T: Arithmetic>(
    taps: &[Tap<T>],
    (row, start): (&[T], usize),
    join: impl Fn(T, T) -> T + Copy,
) -> T {
    let term = |&(at, weight): &Tap<T>| row[at - start].mul(weight);
    let (fours, rest) = taps.as_chunks::<4>();
    let mut joined = None;
    for [a, b, c, d] in fours {
        let four = join(join(term(a), term(b)), join(term(c), term(d)));
        joined = Some(joined.map_or(four, |joined| join(joined, four)));
    }
    for tap in rest {
        joined = Some(joined.map_or(term(tap), |joined| join(joined, term(tap))));
    }
    joined.unwrap_or_default()
}
