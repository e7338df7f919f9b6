//! A padded axis as segments: ranges of the output copied from ranges of the input, forwards, backwards, or repeating
//! one entry.

use super::{Mode, Padded};
use ort_tensor::{Room, TensorError};

/// `n` entries of the output from `to` on are those of the input at `from`, `from + step`, …, or
/// all the value of the constant mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first entry of the output.
    pub to: usize,
    /// The first entry of the input.
    pub from: usize,
    /// How many entries there are.
    pub n: usize,
    /// −1, 0 or 1.
    pub step: isize,
    /// Whether all are the value of the constant mode.
    pub is_value: bool,
}

impl Segment {
    /// The same entries as segments of at most `most`, which is not 0.
    pub(super) fn parts(self, most: usize) -> impl Iterator<Item = Segment> {
        (0..self.n).step_by(most).map(move |i| Segment {
            to: self.to + i,
            from: self.from.wrapping_add_signed(self.step * i.cast_signed()),
            n: most.min(self.n - i),
            ..self
        })
    }
}

/// The segments of an axis; none if it is empty.
pub(super) fn segments(mode: Mode, axis: Padded) -> Result<Vec<Segment>, TensorError> {
    let Padded { start, end, front, back } = axis;
    let n = end - start;
    let is_value = mode == Mode::Constant;
    if n == 0 && !is_value {
        return Ok(Vec::new());
    }
    let mut found = Room::new();
    let border = |found: &mut Room<Segment>, range: std::ops::Range<usize>| {
        let mut to = range.start;
        while to < range.end {
            let (from, step, most) = stretch(mode, n, front, to);
            let n = most.min(range.end - to);
            found.push(Segment { to, from: start + from, n, step, is_value })?;
            to += n;
        }
        Ok(())
    };
    border(&mut found, 0..front)?;
    found.push(Segment { to: front, from: start, n, step: 1, is_value: false })?;
    border(&mut found, front + n..front + n + back)?;
    Ok(found.into_vec())
}

/// The entry of `n` at `to` of the padded axis, which has `front` entries before them; the step to the next one, and
/// the number of entries with this step.
fn stretch(mode: Mode, n: usize, front: usize, to: usize) -> (usize, isize, usize) {
    // `to − front` modulo `period`, without going below zero.
    let modulo = |period: usize| (to % period + period - front % period) % period;
    match mode {
        Mode::Wrap if n > 1 => (modulo(n), 1, n - modulo(n)),
        Mode::Reflect if n > 1 => match modulo(2 * (n - 1)) {
            forth if forth < n - 1 => (forth, 1, n - 1 - forth),
            back => (2 * (n - 1) - back, -1, 2 * (n - 1) - back),
        },
        _ if to < front => (0, 0, usize::MAX),
        _ => (n.saturating_sub(1), 0, usize::MAX),
    }
}
