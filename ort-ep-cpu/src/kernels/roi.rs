//! RoiAlign and MaxRoiPool of f32 and f64, on all threads: the taps of a region's bins are computed
//! once for all channels.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_ops::arithmetic::Arithmetic;
use ort_ops::ops::max_roi_pool::MaxRoiPool;
use ort_ops::ops::roi_align::RoiAlign;
use ort_tensor::{DType, Element, Number, Room, collected, try_collected, with_room};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Approximate number of taps listed before the next channel: they stay in the first-level cache.
const TILE: usize = 1024;
/// Elements of a row whose maxima are independent of each other.
const LANES: usize = 8;
/// The cost of reading an element, in multiply-adds.
const COST: usize = 48;

#[derive(Debug)]
struct RoiKernel {
    which: Which,
    dtype: DType,
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
    Ok(Some(Box::new(RoiKernel { which, dtype, eval })))
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
    fn compute<T: Arithmetic + Number>(
        &self,
        shapes: Shapes,
        io: &mut Io<'_, '_>,
    ) -> Result<bool, KernelError> {
        match self.which {
            Which::Align(op) => {
                let images = io.inputs.tensor(2)?.as_slice::<i64>()?;
                let region = |region: &[T], i: usize| {
                    Bins::of_align(op, shapes, region, usize::try_from(images[i]).ok()?)
                };
                self.each_region(shapes, 4, region, io)
            }
            Which::Pool(op) => {
                let region = |region: &[T], _| {
                    let image = i64::from_f64(Number::to_f64(region[0]));
                    Windows::new(op, shapes, region, usize::try_from(image).ok()?)
                };
                self.each_region(shapes, 5, region, io)
            }
        }
    }

    /// Pools each region, which `make` creates from its row. Returns whether it succeeded for all.
    fn each_region<T: Arithmetic + Number, R: Region<T>>(
        &self,
        shapes: Shapes,
        n_numbers: usize,
        make: impl Fn(&[T], usize) -> Option<R>,
        io: &mut Io<'_, '_>,
    ) -> Result<bool, KernelError> {
        let Shapes { x: [n, c, height, width], n_rois, bins: [rows, columns] } = shapes;
        let (x, rois) = (io.inputs.tensor(0)?, io.inputs.tensor(1)?);
        let (x, rois) = (x.as_slice::<T>()?, rois.as_slice::<T>()?);
        let y = io.outputs[0].tensor(T::DTYPE, &[n_rois, c, rows, columns])?.into_slice::<T>()?;
        let mut regions = with_room(n_rois)?;
        for (i, numbers) in rois.chunks_exact(n_numbers).enumerate() {
            match make(numbers, i).filter(|region| region.image() < n) {
                Some(region) => regions.push(region),
                None => return Ok(false),
            }
        }
        let (plane, n_bins) = (height * width, rows * columns);
        let n_taps =
            regions.iter().fold(0, |sum: usize, region| sum.saturating_add(region.n_taps()));
        let n_parts = n_parts(io.threads, n_taps.saturating_mul(c).saturating_mul(COST));
        let per_part = c.div_ceil(n_parts.div_ceil(n_rois).min(c));
        let parts = regions.iter().zip(y.chunks_exact_mut(c * n_bins)).flat_map(|(region, y)| {
            let image = &x[region.image() * c * plane..][..c * plane];
            let channels = image.chunks(per_part * plane).zip(y.chunks_mut(per_part * n_bins));
            channels.map(move |(x, y)| (region, x, y))
        });
        // Allocated here, because other threads have no allowance.
        let most = regions.iter().map(|region| region.n_listed(n_bins)).max().unwrap_or(0);
        let list = |_| Room::filled((0, 0.0), most);
        let lists: Vec<Room<Tap>> = try_collected((0..io.threads.count()).map(list))?;
        let lists = Mutex::new(lists);
        let n = n_rois * c.div_ceil(per_part);
        Team::new(io.threads, n).if_worth(n_taps.saturating_mul(c * COST)).run(parts, |part, _| {
            let (region, x, y) = part;
            let free = lists.lock().ok().and_then(|mut lists| lists.pop());
            let mut list = free.expect("invariant: a list for each thread");
            region.pool((x, plane), (y, n_bins), &mut list);
            if let Ok(mut lists) = lists.lock() {
                lists.push(list);
            }
        });
        Ok(true)
    }
}

/// A region of an image whose bins are pooled.
trait Region<T>: Sync {
    fn image(&self) -> usize;
    /// The approximate number of elements that its bins read.
    fn n_taps(&self) -> usize;
    /// The number of taps listed at once, for a region of `n_bins` bins.
    fn n_listed(&self, n_bins: usize) -> usize;
    /// Pools channels `x` into `y`; the pairs include elements per channel; `list` has room for taps.
    fn pool(&self, x: (&[T], usize), y: (&mut [T], usize), list: &mut [Tap]);
}

/// The index of an element in a plane, and its weight.
type Tap = (usize, f64);

/// Bins with more taps are left to the operator, which keeps no list of them.
const MAX_PER_BIN: usize = 1 << 16;

/// A region of RoiAlign.
struct Bins {
    op: RoiAlign,
    image: usize,
    size: [usize; 2],
    samples: [ort_ops::ops::roi_align::Samples; 2],
}

impl Bins {
    fn of_align<T: Number>(
        op: RoiAlign,
        shapes: Shapes,
        region: &[T],
        image: usize,
    ) -> Option<Self> {
        let ends = |axis: usize| [region[axis].to_f64(), region[axis + 2].to_f64()];
        let samples = [op.samples(0, ends(1)).ok()?, op.samples(1, ends(0)).ok()?];
        let bins = Self { op, image, size: [shapes.x[2], shapes.x[3]], samples };
        Some(bins).filter(|bins| bins.per_bin() <= MAX_PER_BIN)
    }

    /// Taps per bin.
    fn per_bin(&self) -> usize {
        let [rows, columns] = self.samples.map(|samples| samples.count() as usize);
        rows.saturating_mul(columns).saturating_mul(4)
    }

    /// Bins listed at once.
    fn at_once(&self, n_bins: usize) -> usize {
        (TILE / self.per_bin().max(1)).clamp(1, n_bins)
    }

    /// Writes the taps of a bin.
    fn list(&self, bin: usize, taps: &mut [Tap]) {
        let mut taps = taps.iter_mut();
        let (row, column) = (bin / self.op.output[1], bin % self.op.output[1]);
        let [rows, columns] = self.samples;
        for i in 0..rows.count() {
            for j in 0..columns.count() {
                for (y, y_weight) in rows.sample(row, i, self.size[0]).0 {
                    for (x, x_weight) in columns.sample(column, j, self.size[1]).0 {
                        if let Some(tap) = taps.next() {
                            *tap = (y * self.size[1] + x, y_weight * x_weight);
                        }
                    }
                }
            }
        }
    }
}

impl<T: Number> Region<T> for Bins {
    fn image(&self) -> usize {
        self.image
    }

    fn n_taps(&self) -> usize {
        self.per_bin().saturating_mul(self.op.output[0] * self.op.output[1])
    }

    fn n_listed(&self, n_bins: usize) -> usize {
        self.per_bin().saturating_mul(self.at_once(n_bins))
    }

    fn pool(&self, (x, plane): (&[T], usize), (y, n_bins): (&mut [T], usize), taps: &mut [Tap]) {
        let per_bin = self.per_bin();
        if per_bin == 0 {
            return y.fill(T::default());
        }
        let at_once = self.at_once(n_bins);
        let n_samples = (per_bin / 4) as f64;
        for first in (0..n_bins).step_by(at_once) {
            let bins = first..n_bins.min(first + at_once);
            for (bin, taps) in bins.clone().zip(taps.chunks_exact_mut(per_bin)) {
                self.list(bin, taps);
            }
            for (x, y) in x.chunks_exact(plane).zip(y.chunks_exact_mut(n_bins)) {
                for (y, taps) in y[bins.clone()].iter_mut().zip(taps.chunks_exact(per_bin)) {
                    let term = |&(at, weight): &Tap| weight * x[at].to_f64();
                    *y = T::from_f64(match self.op.is_max {
                        true => largest(taps, term),
                        false => {
                            taps.iter().map(term).fold(0.0, |sum, term| sum + term) / n_samples
                        }
                    });
                }
            }
        }
    }
}

/// The largest term of taps, of which each sample has four: four maxima are independent of each other.
fn largest(taps: &[Tap], term: impl Fn(&Tap) -> f64) -> f64 {
    let mut found = [f64::NEG_INFINITY; 4];
    for taps in taps.as_chunks::<4>().0 {
        found = std::array::from_fn(|i| term(&taps[i]).larger(found[i]));
    }
    found[0].larger(found[1]).larger(found[2].larger(found[3]))
}

/// A region of MaxRoiPool: the rows and the columns of its bins.
struct Windows {
    image: usize,
    width: usize,
    rows: Vec<Range<usize>>,
    columns: Vec<Range<usize>>,
}

impl Windows {
    fn new<T: Number>(op: MaxRoiPool, shapes: Shapes, region: &[T], image: usize) -> Option<Self> {
        let corner = |i: usize| Number::to_f64(region[i]);
        let (rows, columns) = (op.side(corner(2), corner(4)), op.side(corner(1), corner(3)));
        let [_, _, height, width] = shapes.x;
        let [n_rows, n_columns] = shapes.bins;
        let rows = collected((0..n_rows).map(|bin| rows.bin(bin, n_rows, height))).ok()?;
        let columns =
            collected((0..n_columns).map(|bin| columns.bin(bin, n_columns, width))).ok()?;
        Some(Self { image, width, rows, columns })
    }
}

impl<T: Arithmetic + Element> Region<T> for Windows {
    fn image(&self) -> usize {
        self.image
    }

    fn n_taps(&self) -> usize {
        let [rows, columns] = [&self.rows, &self.columns]
            .map(|bins| bins.iter().map(ExactSizeIterator::len).sum::<usize>());
        rows.saturating_mul(columns)
    }

    fn n_listed(&self, _n_bins: usize) -> usize {
        0
    }

    fn pool(&self, (x, plane): (&[T], usize), (y, n_bins): (&mut [T], usize), _list: &mut [Tap]) {
        for (x, y) in x.chunks_exact(plane).zip(y.chunks_exact_mut(n_bins)) {
            for (y, rows) in y.chunks_exact_mut(self.columns.len()).zip(&self.rows) {
                for (y, columns) in y.iter_mut().zip(&self.columns) {
                    let row = |i: usize| &x[i * self.width..][columns.clone()];
                    *y = largest_of_rows(rows.clone().map(row)).unwrap_or_default();
                }
            }
        }
    }
}

/// The largest element of rows, of equal length.
#[inline(always)]
fn largest_of_rows<'a, T: Arithmetic + Element>(
    rows: impl Iterator<Item = &'a [T]> + Clone,
) -> Option<T> {
    let mut found = [*rows.clone().next()?.first()?; LANES];
    for row in rows {
        let (chunks, rest) = row.as_chunks::<LANES>();
        for chunk in chunks {
            found = std::array::from_fn(|i| chunk[i].larger(found[i]));
        }
        for (found, x) in found.iter_mut().zip(rest) {
            *found = x.larger(*found);
        }
    }
    found.into_iter().reduce(T::larger)
}
