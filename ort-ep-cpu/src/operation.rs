//! Arithmetic of two operands along a run, in f32.

use std::ops::Range;

use ort_ep::KernelError;
use ort_graph::OpError;
use ort_kernels::{Isa, vec};
use ort_ops::broadcast::{Runs, Walk};
use ort_ops::ops::binary::Binary;
use ort_tensor::{Shape, broadcast};

/// Shorter runs are not worth a call each.
const SHORT: usize = 16;
/// Up to this length, a repeated row is written out several times: 2 KiB.
pub(crate) const LONG: usize = 512;
/// Up to this length, stretched values are written out: longer ones are scalars.
const STRETCHED: usize = 32;
/// The buffer for written-out operands: 8 KiB, which stay in the first-level cache.
const TILE: usize = 4 * LONG;

/// `a ∘ b`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    /// NaN if either is.
    Max,
    /// NaN if either is.
    Min,
}

/// An operand along a run.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a, T = f32> {
    /// The current contents of the result.
    InPlace,
    Row(&'a [T]),
    /// A row that repeats, and the position in it where the run starts.
    Repeated(&'a [T], usize),
    /// Values that each repeat for a period, the period, and the position in the first where the run starts.
    Stretched(&'a [T], usize, usize),
    /// One value for the whole run.
    Same(T),
}

/// Prepared state for two broadcast operands.
pub(crate) struct Broadcast {
    /// The shape of the result.
    pub(crate) shape: Shape,
    pub(crate) runs: Runs<2>,
}

impl Broadcast {
    pub(crate) fn new(shapes: &[&[usize]]) -> Result<Self, KernelError> {
        let &[a, b] = shapes else { return Err(KernelError::ForeignState) };
        let wrong = || OpError::Shapes { what: "broadcasting", left: a.into(), right: b.into() };
        let shape = broadcast(a, b).ok_or_else(wrong)?;
        let runs = long(Runs::new(&shape, [a, b])?);
        Ok(Self { shape, runs })
    }
}

/// The runs for [`Combiner`], lengthened if possible.
pub(crate) fn long<const N: usize>(runs: Runs<N>) -> Runs<N> {
    if runs.period() <= LONG { runs.joined(STRETCHED) } else { runs }
}

impl Operation {
    pub(crate) fn of_op(op: Binary) -> Option<Self> {
        Some(match op {
            Binary::Add => Self::Add,
            Binary::Sub => Self::Sub,
            Binary::Mul => Self::Mul,
            Binary::Div => Self::Div,
            _ => return None,
        })
    }

    fn of(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::Max => vec::greater(a, b),
            Self::Min => vec::less(a, b),
        }
    }

    /// `y = y ∘ b`.
    fn row(self, isa: Isa, y: &mut [f32], b: &[f32]) {
        match self {
            Self::Add => vec::add(isa, y, b),
            Self::Sub => vec::sub(isa, y, b),
            Self::Mul => vec::mul(isa, y, b),
            Self::Div => vec::div(isa, y, b),
            Self::Max => vec::greatest(isa, y, b),
            Self::Min => vec::least(isa, y, b),
        }
    }

    /// `y = a ∘ y`.
    fn row_before(self, isa: Isa, y: &mut [f32], a: &[f32]) {
        match self {
            Self::Sub => vec::sub_from(isa, y, a),
            Self::Div => vec::div_by(isa, y, a),
            Self::Add | Self::Mul => self.row(isa, y, a),
            Self::Max => vec::greatest_from(isa, y, a),
            Self::Min => vec::least_from(isa, y, a),
        }
    }

    /// `y = y ∘ b`.
    fn scalar(self, isa: Isa, y: &mut [f32], b: f32) {
        match self {
            Self::Add => vec::add_scalar(isa, y, b),
            Self::Sub => vec::sub_scalar(isa, y, b),
            Self::Mul => vec::mul_scalar(isa, y, b),
            Self::Div => vec::div_scalar(isa, y, b),
            Self::Max => vec::greatest_scalar(isa, y, b),
            Self::Min => vec::least_scalar(isa, y, b),
        }
    }

    /// `y = a ∘ y`.
    fn scalar_before(self, isa: Isa, y: &mut [f32], a: f32) {
        match self {
            Self::Sub => vec::sub_from_scalar(isa, y, a),
            Self::Div => vec::div_scalar_by(isa, y, a),
            Self::Add | Self::Mul => self.scalar(isa, y, a),
            Self::Max => vec::greatest_from_scalar(isa, y, a),
            Self::Min => vec::least_from_scalar(isa, y, a),
        }
    }

    /// A run without repeated or stretched operands.
    fn run(self, isa: Isa, y: &mut [f32], a: Operand<'_>, b: Operand<'_>) {
        match (a, b) {
            (Operand::Row(a), Operand::Row(b)) => {
                vec::map(a, y, |at, y| self.row(isa, y, &b[at..][..y.len()]));
            }
            (Operand::Row(a), Operand::Same(b)) => {
                vec::map(a, y, |_, y| self.scalar(isa, y, b));
            }
            (Operand::Same(a), Operand::Row(b)) => {
                vec::map(b, y, |_, y| self.scalar_before(isa, y, a));
            }
            (Operand::InPlace, Operand::Row(b)) => self.row(isa, y, b),
            (Operand::InPlace, Operand::Same(b)) => self.scalar(isa, y, b),
            (Operand::Row(a), Operand::InPlace) => self.row_before(isa, y, a),
            (Operand::Same(a), Operand::InPlace) => self.scalar_before(isa, y, a),
            (Operand::Same(a), Operand::Same(b)) => y.fill(self.of(a, b)),
            (Operand::InPlace, Operand::InPlace) => {
                y.iter_mut().for_each(|y| *y = self.of(*y, *y));
            }
            (Operand::Repeated(..) | Operand::Stretched(..), _)
            | (_, Operand::Repeated(..) | Operand::Stretched(..)) => {
                unreachable!("invariant: repeated and stretched operands are written out")
            }
        }
    }
}

impl<'a, T: Copy> Operand<'a, T> {
    /// The run of `data` that starts at `start`; without data, the contents of the result.
    pub(crate) fn new(
        data: Option<&'a [T]>,
        start: usize,
        len: usize,
        (walk, period): (Walk, usize),
    ) -> Self {
        match (data, walk) {
            (None, _) => Self::InPlace,
            (Some(data), Walk::Advances) => Self::Row(&data[start..][..len]),
            (Some(data), Walk::Stays) => Self::Same(data[start]),
            (Some(data), Walk::Repeats) => {
                let phase = start % period;
                Self::Repeated(&data[start - phase..][..period], phase)
            }
            (Some(data), Walk::Stretches) => {
                let phase = start % period;
                let n = (phase + len).div_ceil(period);
                Self::Stretched(&data[start / period..][..n], period, phase)
            }
        }
    }

    /// Copies the operand to `y`.
    pub(crate) fn write(self, y: &mut [T]) {
        match self {
            Self::InPlace => {}
            Self::Row(row) => y.copy_from_slice(row),
            Self::Repeated(row, phase) => {
                let from = &row[phase..];
                let (first, rest) = y.split_at_mut(y.len().min(from.len()));
                first.copy_from_slice(&from[..first.len()]);
                rest.chunks_mut(row.len()).for_each(|y| y.copy_from_slice(&row[..y.len()]));
            }
            Self::Stretched(values, period, phase) => stretch(values, period, phase, y),
            Self::Same(value) => y.fill(value),
        }
    }

    /// The element at `index` of a run, where the result holds `y`.
    fn get(self, index: usize, y: T) -> T {
        match self {
            Self::InPlace => y,
            Self::Row(row) => row[index],
            Self::Repeated(row, phase) => row[(phase + index) % row.len()],
            Self::Stretched(values, period, phase) => values[(phase + index) / period],
            Self::Same(value) => value,
        }
    }

    /// The rest of the run after `start` elements.
    pub(crate) fn from(self, start: usize) -> Self {
        match self {
            Self::Row(row) => Self::Row(&row[start..]),
            Self::Repeated(row, phase) => Self::Repeated(row, (phase + start) % row.len()),
            Self::Stretched(values, period, phase) => {
                let at = phase + start;
                Self::Stretched(&values[at / period..], period, at % period)
            }
            Self::InPlace | Self::Same(_) => self,
        }
    }

    /// Writes a piece of a stretched operand to the tile.
    fn stretch(self, start: usize, len: usize, tile: &mut [T]) {
        if let Self::Stretched(values, period, phase) = self {
            let at = phase + start;
            stretch(&values[at / period..], period, at % period, &mut tile[..len]);
        }
    }

    /// A piece of the run; a repeated one is in one tile, a stretched one in the other.
    fn piece<'t>(
        self,
        start: usize,
        len: usize,
        [repeated, stretched]: [&'t [T]; 2],
    ) -> Operand<'t, T>
    where
        'a: 't,
    {
        match self {
            Self::Row(row) => Operand::Row(&row[start..][..len]),
            Self::Repeated(..) => Operand::Row(&repeated[..len]),
            Self::Stretched(..) => Operand::Row(&stretched[..len]),
            Self::InPlace => Operand::InPlace,
            Self::Same(value) => Operand::Same(value),
        }
    }
}

/// Writes each value for a period, the first without its first `phase` elements.
fn stretch<T: Copy>(values: &[T], period: usize, phase: usize, y: &mut [T]) {
    let (first, rest) = y.split_at_mut(y.len().min(period - phase));
    let Some((first_value, values)) = values.split_first() else { return };
    first.fill(*first_value);
    rest.chunks_mut(period).zip(values).for_each(|(y, value)| y.fill(*value));
}

/// Combines operands; has buffers for repeated rows and stretched values.
pub(crate) struct Combiner {
    isa: Isa,
    /// Only built if needed.
    tile: Option<[f32; TILE]>,
}

impl Combiner {
    pub(crate) const fn new(isa: Isa) -> Self {
        Self { isa, tile: None }
    }

    /// `y = a ∘ b` for a piece of the result that starts at element `start`. An operand without
    /// data is the current contents of the piece.
    pub(crate) fn piece(
        &mut self,
        operation: Operation,
        runs: &Runs<2>,
        (start, y): (usize, &mut [f32]),
        [a, b]: [Option<&[f32]>; 2],
    ) {
        let [a_walk, b_walk] = runs.walks().map(|walk| (walk, runs.period()));
        runs.for_each_within(start..start + y.len(), |Range { start: at, end }, [i, j]| {
            let y = &mut y[at - start..end - start];
            let a = Operand::new(a, i, y.len(), a_walk);
            let b = Operand::new(b, j, y.len(), b_walk);
            self.run(operation, y, a, b);
        });
    }

    /// `y = a ∘ b` for a run, or a part of it. At most one operand is repeated, and one stretched.
    pub(crate) fn run(
        &mut self,
        operation: Operation,
        y: &mut [f32],
        a: Operand<'_>,
        b: Operand<'_>,
    ) {
        if y.len() < SHORT {
            let each = y.iter_mut().enumerate();
            return each.for_each(|(i, y)| *y = operation.of(a.get(i, *y), b.get(i, *y)));
        }
        let stretches = |operand| matches!(operand, Operand::Stretched(..));
        let n = match (a, b) {
            (Operand::Repeated(row, phase), _) | (_, Operand::Repeated(row, phase)) => {
                self.write_out(row, phase, y.len())
            }
            _ if stretches(a) || stretches(b) => TILE,
            _ => return operation.run(self.isa, y, a, b),
        };
        // Only built if needed.
        let mut stretched;
        let stretched: &mut [f32] = if stretches(a) || stretches(b) {
            stretched = [0.0; TILE];
            &mut stretched
        } else {
            &mut []
        };
        for (i, y) in y.chunks_mut(n).enumerate() {
            let (start, len) = (i * n, y.len());
            [a, b].into_iter().for_each(|operand| operand.stretch(start, len, stretched));
            let repeated = self.tile.as_ref().map_or(&[][..], |tile| &tile[..]);
            let tiles = [repeated, &*stretched];
            let [a, b] = [a, b].map(|operand| operand.piece(start, len, tiles));
            operation.run(self.isa, y, a, b);
        }
    }

    /// Writes the row to the tile as often as it fits, or is needed for `len` elements; returns
    /// the length after which it must be used again from its start.
    fn write_out(&mut self, row: &[f32], phase: usize, len: usize) -> usize {
        let n = TILE.min(len.next_multiple_of(row.len())) / row.len() * row.len();
        let (before, from) = row.split_at(phase);
        let tile = match &mut self.tile {
            Some(tile) => tile,
            none => none.insert([0.0; TILE]),
        };
        tile[..from.len()].copy_from_slice(from);
        tile[from.len()..row.len()].copy_from_slice(before);
        let mut written = row.len();
        while written < n {
            let more = written.min(n - written);
            tile.copy_within(..more, written);
            written += more;
        }
        n
    }
}
