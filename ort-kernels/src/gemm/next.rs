//! What tiles prefetch: the panels of B after the current ones.

use super::element::line_len;
use super::step::Step;
use super::{Element, Panels, Slice, Stored};

/// Rows of B whose stride is a multiple of this many elements conflict even in a second-level cache.
const PAGE: usize = 1024;

/// The part of B to prefetch while the current panels are used.
pub(super) enum Next<'a, T> {
    /// A panel.
    Panel(Stored<'a, T>),
    /// `lines` lines of each row, `apart` elements apart, from which panels will be written.
    Rows { data: &'a [T], apart: usize, lines: usize },
    /// Unknown, or would be evicted before it is read.
    Unknown,
}

/// One of `n_passes` tiles of `k` steps with a panel of a step, and which one that is.
pub(super) struct Turn {
    pub(super) k: usize,
    pub(super) panel: usize,
    pub(super) pass: usize,
    pub(super) n_passes: usize,
}

impl<'a, T: Element> Next<'a, T> {
    pub(super) fn new(b: &'a impl Panels<T>, step: &Step) -> Self {
        let Slice { k, column, nr, .. } = &step.slice;
        match (b.stored(&step.slice), b.as_rows()) {
            (Some(panel), _) => Self::Panel(panel),
            (None, Some(b)) if !b.row_stride.is_multiple_of(PAGE) => Self::Rows {
                data: b.from(k.start, *column),
                apart: b.row_stride,
                lines: (b.columns - column).min(step.panels * nr).div_ceil(line_len::<T>()),
            },
            _ => Self::Unknown,
        }
    }

    /// The bytes that a tile prefetches: a line for each of its steps, and the distance between lines.
    pub(super) fn share(&self, turn: &Turn) -> Option<(&'a [u8], usize)> {
        match *self {
            Self::Panel(panel) => {
                let panel = panel.bytes();
                let apart = panel.len().div_ceil((turn.k * turn.n_passes).max(1));
                let rest = panel.get(turn.pass * turn.k * apart..).filter(|rest| !rest.is_empty());
                rest.map(|rest| (rest, apart))
            }
            Self::Rows { data, apart, lines } => {
                let line = turn.panel * turn.n_passes + turn.pass;
                let rest = (line < lines).then(|| data.get(line * line_len::<T>()..)).flatten();
                rest.map(|rest| (bytemuck::cast_slice(rest), apart * size_of::<T>()))
            }
            Self::Unknown => None,
        }
    }
}
