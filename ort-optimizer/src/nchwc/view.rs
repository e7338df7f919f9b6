//! Which Reshapes give NCHWc data another view without moving it.
//!
//! ONNX Runtime adds values in NCHWc as `[N, C/B, H, W, B]`, so that one number per channel can be broadcast. It
//! writes the shapes `[0, -1, 0, 0, B]` and `[0, -1, 0, 0]`, or with the channels instead of the −1; known dimensions
//! may replace the zeros.

use ort_graph::Dim;

use super::classes::Known;

/// A view of data in NCHWc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// `[N, C/B, H, W, B]`, of this B.
    Split(usize),
    /// `[N, C, H, W]`.
    Merged,
}

impl View {
    /// The view that a Reshape to `shape` gives data of another view with the dimensions `from`, and what it implies
    /// about the channels.
    pub(super) fn of(
        shape: &[i64],
        takes_zero: bool,
        from: Option<&[Dim]>,
    ) -> Option<(View, Known)> {
        let &[n, c, h, w, ref rest @ ..] = shape else { return None };
        let is_kept = |(axis, dim): (usize, i64)| match dim {
            0 => !takes_zero,
            // There is at most one, and the others determine it.
            -1 => true,
            _ => from.and_then(|from| from.get(axis)?.known()) == usize::try_from(dim).ok(),
        };
        if ![(0, n), (2, h), (3, w)].into_iter().all(is_kept) || c == 0 {
            return None;
        }
        let count = usize::try_from(c).ok();
        match *rest {
            [] => Some((View::Merged, Known { padded: count, named: None })),
            [block] if block > 0 => {
                let block = usize::try_from(block).ok()?;
                let padded = count.and_then(|count| count.checked_mul(block));
                Some((View::Split(block), Known { padded, named: None }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_keep_all_but_the_channels() {
        let dims = [1, 80, 6, 7].map(Dim::Known);
        let view = |shape: &[i64]| View::of(shape, false, Some(&dims));
        let split = |padded| Some((View::Split(16), Known { padded, named: None }));
        let merged = |padded| Some((View::Merged, Known { padded, named: None }));
        for (shape, expected) in [
            (&[0, -1, 0, 0, 16][..], split(None)),
            (&[0, 5, 0, 0, 16], split(Some(80))),
            (&[1, 5, 6, -1, 16], split(Some(80))),
            (&[0, -1, 0, 0], merged(None)),
            (&[-1, 80, 6, 7], merged(Some(80))),
            (&[0, 0, 0, 0], None),
            (&[0, 5, 7, 0, 16], None),
            (&[0, -1, 0, 0, 0], None),
            (&[0, -1, 0], None),
            (&[0, -1, 0, 0, 8, 2], None),
        ] {
            assert_eq!(view(shape), expected, "{shape:?}");
        }
        assert_eq!(View::of(&[0, -1, 0, 0], true, Some(&dims)), None);
        assert_eq!(View::of(&[1, -1, 0, 0], false, None), None);
    }
}
