//! Pad of elements of any width, on all threads. Rows are those of the innermost padded axis, whose entries are runs of
//! the axes after it; each row is assembled from segments of an input row.

mod outer;

use std::borrow::Cow;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError, Operator};
use ort_ops::infer::int_values;
use ort_ops::ops::pad::{Layout, Mode, Pad, Segment};
use ort_tensor::{DType, Inputs, Shape, TensorViewMut, collected, n_elements};
use smallvec::SmallVec;

use self::outer::Outer;
use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;
use crate::places::{BYTE, PLACE};
use crate::run::{Run, by_run};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Marks a row filled with the constant value.
const VALUE: usize = usize::MAX;

#[derive(Debug)]
struct PadKernel {
    op: Pad,
    dtype: DType,
    /// Bytes per element.
    width: usize,
    /// The pads and the axes, if they are constant.
    pads: Option<(Vec<i64>, Option<Vec<i64>>)>,
    /// The value of constant mode, if input 2 is absent.
    value: SmallVec<[u8; 16]>,
}

/// The copy for one signature of shapes and pads.
#[derive(Clone, Debug)]
struct State {
    shape: Shape,
    /// For each entry of the axes before the rows, its byte offset in the input, or [`VALUE`].
    outer: Vec<Vec<usize>>,
    /// The segments of a row, in entries.
    segments: Vec<Segment>,
    /// Entries per row.
    n: usize,
    /// Bytes per entry.
    entry: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let (Some(op), Some(dtype)) = (compiler.op::<Pad>().cloned(), dtype) else { return Ok(None) };
    let Some(width) = dtype.word_bytes() else { return Ok(None) };
    let ints = |index: usize| -> Result<Option<Vec<i64>>, OpError> {
        Ok(compiler.constant(index).map(|x| int_values(x.view())).transpose()?)
    };
    let pads = if op.pads.is_some() { op.pads.clone() } else { ints(1)? };
    let pads = match (pads, compiler.fact(3), ints(3)?) {
        (Some(_), Some(_), None) => None,
        (pads, _, axes) => pads.map(|pads| (pads, axes)),
    };
    let value = op.fill(dtype, Inputs::new(&[]))?;
    let value = SmallVec::from_slice(value.view().as_bytes().unwrap_or_default());
    Ok(Some(Box::new(PadKernel { op, dtype, width, pads, value })))
}

impl State {
    fn new(x: &[usize], layout: Layout, width: usize) -> Result<Self, KernelError> {
        let Layout { shape, mut segments } = layout;
        let is_padded = |axis: usize| match segments[axis][..] {
            [Segment { n, is_value, .. }] => is_value || n != x[axis],
            _ => true,
        };
        if segments.is_empty() {
            let (outer, segments) = (Vec::new(), Vec::new());
            return Ok(Self { shape, outer, segments, n: 1, entry: width });
        }
        let axis = (0..x.len()).rfind(|&axis| is_padded(axis)).unwrap_or(0);
        // The size of an existing tensor does not overflow.
        let n_bytes = |axis: usize| n_elements(&x[axis..]).unwrap_or(0).saturating_mul(width);
        let mut outer = Vec::new();
        for (i, segments) in segments[..axis].iter().enumerate() {
            let stride = n_bytes(i + 1);
            let entries = segments.iter().flat_map(|segment| {
                let Segment { from, n, step, is_value, .. } = *segment;
                let from =
                    move |i: usize| from.wrapping_add_signed(step * i.cast_signed()) * stride;
                (0..n).map(move |i| if is_value { VALUE } else { from(i) })
            });
            outer.push(collected(entries)?);
        }
        let (n, entry) = (shape[axis], n_bytes(axis + 1));
        Ok(Self { shape, outer, segments: segments.swap_remove(axis), n, entry })
    }
}

impl Kernel for PadKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ..] = shapes else { return Err(KernelError::ForeignState) };
        let state = self.pads.as_ref().filter(|_| !x.is_empty()).map(|(pads, axes)| {
            State::new(x, self.op.layout(x, pads, axes.as_deref())?, self.width)
        });
        Ok(Prepared::new(state.transpose()?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        if x.shape().is_empty() {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        }
        let state: &Option<State> = prepared.state()?;
        let state = match state {
            Some(state) => Cow::Borrowed(state),
            None => {
                let pads = match &self.op.pads {
                    Some(pads) => pads.clone(),
                    None => int_values(io.inputs.tensor(1)?)?,
                };
                let axes = io.inputs.optional_tensor(3)?.map(int_values).transpose()?;
                let layout = self.op.layout(x.shape(), &pads, axes.as_deref())?;
                Cow::Owned(State::new(x.shape(), layout, self.width)?)
            }
        };
        let y = io.outputs[0].tensor(self.dtype, &state.shape)?;
        let y = TensorViewMut::into_bytes(y).ok_or(KernelError::ForeignState)?;
        if y.is_empty() {
            return Ok(());
        }
        let given = io.inputs.optional_tensor(2)?.and_then(|value| value.as_bytes());
        let value = given.unwrap_or(&self.value);
        if self.op.mode == Mode::Constant && value.len() != self.width {
            return Err(OpError::InputValue { index: 2, what: "the value is not a scalar" }.into());
        }
        let x = x.as_bytes().ok_or(KernelError::ForeignState)?;
        let rows = Rows { len: state.entry, cost: PLACE + state.entry.saturating_mul(BYTE) };
        rows.for_each(io.threads, y, |start, y| {
            by_run!(state.entry => write_piece(&state, x, value, (start / state.entry, y)));
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        "pad"
    }
}

/// Writes the entries starting at `first`, counted over all rows.
fn write_piece(
    run: impl Run,
    state: &State,
    x: &[u8],
    value: &[u8],
    (first, mut y): (usize, &mut [u8]),
) {
    let entry = run.len();
    let mut rows = Outer::new(state, first / state.n);
    let mut at = first % state.n;
    let framed = Framed::new(&state.segments, entry);
    while !y.is_empty() {
        if let (0, Some(framed)) = (at, &framed) {
            let (whole, rest) = y.split_at_mut(y.len() / (state.n * entry) * (state.n * entry));
            for row in whole.chunks_exact_mut(state.n * entry) {
                framed.write((x, rows.origin()), value, row);
                rows.advance();
            }
            if rest.is_empty() {
                return;
            }
            y = rest;
        }
        let end = state.n.min(at + y.len() / entry);
        let (row, rest) = y.split_at_mut((end - at) * entry);
        match rows.origin() {
            VALUE => fill(row, value),
            origin => {
                for segment in &state.segments {
                    let (from, to) = (segment.to.max(at), end.min(segment.to + segment.n));
                    if from < to {
                        let y = &mut row[(from - at) * entry..(to - at) * entry];
                        write_segment(run, segment, (x, origin), value, (from - segment.to, y));
                    }
                }
            }
        }
        rows.advance();
        (at, y) = (0, rest);
    }
}

/// Rows of one copy with values around it, which are most.
#[derive(Clone, Copy)]
struct Framed {
    /// Bytes of values before the copy, and of the copy.
    before: usize,
    copied: usize,
    /// Where the copy starts in a row of the input.
    from: usize,
}

impl Framed {
    fn new(segments: &[Segment], entry: usize) -> Option<Self> {
        let copies = segments.iter().filter(|segment| !segment.is_value);
        let mut copies = copies.filter(|segment| segment.n > 0);
        let (Some(copy), None) = (copies.next(), copies.next()) else { return None };
        let (before, copied, from) = (copy.to * entry, copy.n * entry, copy.from * entry);
        (copy.step == 1).then_some(Self { before, copied, from })
    }

    /// Writes the row with this offset.
    #[inline]
    fn write(&self, (x, origin): (&[u8], usize), value: &[u8], row: &mut [u8]) {
        if origin == VALUE {
            return fill(row, value);
        }
        let (before, row) = row.split_at_mut(self.before);
        let (copied, after) = row.split_at_mut(self.copied);
        fill(before, value);
        copied.copy_from_slice(&x[origin + self.from..][..self.copied]);
        fill(after, value);
    }
}

/// Writes entries of a segment starting at `skipped`, in a row with offset `origin`.
fn write_segment(
    run: impl Run,
    segment: &Segment,
    (x, origin): (&[u8], usize),
    value: &[u8],
    (skipped, y): (usize, &mut [u8]),
) {
    if segment.is_value {
        return fill(y, value);
    }
    let (entry, step) = (run.len(), segment.step);
    let mut from = origin + segment.from.wrapping_add_signed(step * skipped.cast_signed()) * entry;
    if step == 1 {
        return y.copy_from_slice(&x[from..from + y.len()]);
    }
    for at in (0..y.len()).step_by(entry) {
        run.copy(&x[from..], &mut y[at..]);
        from = from.wrapping_add_signed(step * entry.cast_signed());
    }
}

/// Fills `y` with repetitions of the value.
fn fill(y: &mut [u8], value: &[u8]) {
    match value.len() {
        _ if y.is_empty() => return,
        2 => return fill_words::<2>(y, value),
        4 => return fill_words::<4>(y, value),
        8 => return fill_words::<8>(y, value),
        _ => {}
    }
    if value.iter().all(|byte| *byte == value[0]) {
        return y.fill(value[0]);
    }
    y[..value.len()].copy_from_slice(value);
    let mut n = value.len();
    while n < y.len() {
        let more = n.min(y.len() - n);
        y.copy_within(..more, n);
        n += more;
    }
}

/// The same of a value of `N` bytes: a row has few of them at its ends.
#[inline]
fn fill_words<const N: usize>(y: &mut [u8], value: &[u8]) {
    if let Some(&word) = value.first_chunk::<N>() {
        for y in y.as_chunks_mut::<N>().0 {
            *y = word;
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Complex, Tensor, f16};

    use crate::case::{Case, bytes, exact, floats};

    const CASES: [(&[usize], &[i64]); 12] = [
        (&[7], &[2, 3]),
        (&[7], &[-2, 3]),
        (&[3, 4, 5], &[0, 1, 2, 0, 2, 1]),
        (&[3, 4, 5], &[1, 0, 0, 2, 0, 0]),
        (&[3, 4, 5], &[0, 1, 0, 0, -1, 0]),
        (&[3, 4, 5], &[0; 6]),
        (&[3, 1, 5], &[2, 4, 0, 0, 3, -3]),
        (&[2, 3], &[0, 20, 0, 15]),
        (&[2, 3], &[0, -1, 0, -2]),
        // Large enough for several threads.
        (&[1, 30, 101, 103], &[0, 0, 2, 2, 0, 0, 2, 2]),
        (&[400_000], &[100, 300_000]),
        (&[50, 70, 90], &[3, 0, 0, 0, 2, 0]),
    ];

    #[test]
    fn every_mode_pads_its_border() {
        let of_width: [fn(&[usize]) -> Tensor; 5] = [
            |shape| bytes(shape, |byte| byte),
            |shape| bytes(shape, f16::from),
            floats,
            |shape| bytes(shape, i64::from),
            |shape| bytes(shape, |byte| Complex::new(f64::from(byte), 1.0)),
        ];
        for (shape, pads) in CASES {
            let pads = Tensor::from_slice(&[pads.len()], pads).unwrap();
            for (mode, x) in ["constant", "reflect", "edge", "wrap"]
                .into_iter()
                .flat_map(|mode| of_width.map(|of| (mode, of(shape))))
            {
                let case = Case::new("Pad", 25).attr("mode", Attr::String(mode.into()));
                case.input(x).weight(pads.clone()).check(exact);
            }
        }
    }

    #[test]
    fn axes_may_be_chosen_and_the_value_given() {
        let pads = || Tensor::from_slice(&[2], &[3_i64, 1]).unwrap();
        let axes = || Tensor::from_slice(&[1], &[-2_i64]).unwrap();
        for value in [f32::NEG_INFINITY, 0.0, 1.5] {
            let case = || Case::new("Pad", 18).input(floats(&[3, 4, 5]));
            let value = || Tensor::scalar(value);
            case().weight(pads()).input(value()).weight(axes()).check(exact);
            case().input(pads()).weight(value()).constant(axes()).check(exact);
        }
        let old = Case::new("Pad", 2).attr("pads", Attr::Ints(vec![0, 0, 1, 0]));
        old.attr("value", Attr::Float(7.0)).input(floats(&[3, 2])).check(exact);
        let pads = Tensor::from_slice(&[4], &[1_i64, 0, 0, 0]).unwrap();
        Case::new("Pad", 25).input(floats(&[0, 2])).weight(pads).check(exact);
        let pads = Tensor::zeros(ort_tensor::DType::I64, &[0]).unwrap();
        Case::new("Pad", 25).input(floats(&[])).weight(pads).check(exact);
    }

    #[test]
    fn mismatched_shapes_are_an_error() {
        let pads = |n: usize| Tensor::from_slice(&[n], &vec![-2_i64; n]).unwrap();
        let case = || Case::new("Pad", 18).input(floats(&[3, 3]));
        assert!(case().input(pads(3)).error().to_string().contains("pads"));
        assert!(case().input(pads(4)).error().to_string().contains("removed"));
        let value = floats(&[2]);
        let pads = Tensor::from_slice(&[4], &[1_i64; 4]).unwrap();
        assert!(case().input(pads).input(value).error().to_string().contains("scalar"));
    }
}
