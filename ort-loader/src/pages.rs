//! Pages: their size, and which of them a range of a file covers.

use std::ops::Range;

/// The system's page size in bytes.
#[cfg(unix)]
pub(crate) fn page_size() -> usize {
    rustix::param::page_size()
}

/// Pages are not used on such systems; any power of two will do.
#[cfg(not(unix))]
pub(crate) const fn page_size() -> usize {
    4096
}

/// The part of `range` that consists of whole pages of a file with `len` bytes. The file's last
/// page counts as whole although it is partly filled.
pub(crate) fn whole_pages(range: Range<usize>, len: usize, page: usize) -> Range<usize> {
    let start = range.start.next_multiple_of(page);
    let end = if range.end == len { len } else { range.end / page * page };
    start.min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_are_covered() {
        for (range, pages) in [
            (0..0, 0..0),
            (0..10, 0..10),
            (0..9, 0..8),
            (1..9, 4..8),
            (3..5, 4..4),
            (1..3, 0..0),
            (4..8, 4..8),
            (5..10, 8..10),
            (9..10, 10..10),
            (10..10, 10..10),
        ] {
            assert_eq!(whole_pages(range.clone(), 10, 4), pages, "{range:?}");
        }
    }
}
