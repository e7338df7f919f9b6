//! A padded axis as segments: stretches of the output that are stretches of the input, walked
//! forwards, backwards, or standing still.

use super::{Mode, Padded};

/// `n` entries of the output from `to` on are those of the input at `from`, `from + step`, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) to: usize,
    pub(super) from: usize,
    pub(super) n: usize,
    /// −1, 0 or 1.
    pub(super) step: isize,
}

/// The segments of an axis. What they leave out is the border of the constant mode.
pub(super) fn segments(mode: Mode, axis: Padded) -> Vec<Segment> {
    let Padded { start, end, front, back } = axis;
    let n = end - start;
    let kept = Segment { to: front, from: start, n, step: 1 };
    if mode == Mode::Constant {
        return vec![kept];
    }
    if n == 0 {
        return vec![];
    }
    let mut found: Vec<Segment> = Vec::new();
    for to in 0..front + n + back {
        let from = start + source(mode, n, front, to);
        let step = found.last().and_then(|last| step_to(last, from));
        match (found.last_mut(), step) {
            (Some(last), Some(step)) => *last = Segment { n: last.n + 1, step, ..*last },
            _ => found.push(Segment { to, from, n: 1, step: 1 }),
        }
    }
    found
}

/// The step with which the segment goes on at `from`, if it does: its second entry decides.
fn step_to(segment: &Segment, from: usize) -> Option<isize> {
    let last = segment.from.wrapping_add_signed(segment.step * (segment.n - 1).cast_signed());
    let step = from.cast_signed() - last.cast_signed();
    let fits = if segment.n == 1 { step.unsigned_abs() <= 1 } else { step == segment.step };
    fits.then_some(step)
}

/// Which of `n` entries is at `to` of the padded axis, that has `front` entries before them.
fn source(mode: Mode, n: usize, front: usize, to: usize) -> usize {
    // `to − front` modulo `period`, without going below zero.
    let modulo = |period: usize| (to % period + period - front % period) % period;
    match mode {
        Mode::Constant | Mode::Edge => to.saturating_sub(front).min(n - 1),
        Mode::Wrap => modulo(n),
        Mode::Reflect if n == 1 => 0,
        Mode::Reflect => {
            let i = modulo(2 * (n - 1));
            i.min(2 * (n - 1) - i)
        }
    }
}
