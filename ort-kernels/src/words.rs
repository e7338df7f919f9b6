//! Packing of columns of bytes into panels of words: four bytes of each column together.
//!
//! ```text
//! panel[q·nr + j] = word(column j, bytes 4q to 4q + 3)
//! ```
//! Reads a cache line of each column at a time: words a column apart share few sets of a cache.

/// Bytes per word.
pub(crate) const WORD: usize = 4;
/// The maximum number of columns per panel.
pub(crate) const MAX_COLUMNS: usize = 32;
/// Words per cache line.
const LINE: usize = 16;

/// Writes a panel of `nr` columns. `columns` are at most as many, all of the same length; `pad` fills
/// their last word; words of missing columns are zeros.
///
/// # Panics
/// If there are more than [`MAX_COLUMNS`], or the panel is longer than the columns.
#[inline(always)]
pub(crate) fn interleave<'a>(
    columns: impl Iterator<Item = &'a [u8]> + Clone,
    pad: u8,
    word: impl Fn(u32) -> u32,
    (nr, panel): (usize, &mut [[u8; WORD]]),
) {
    let mut words = [[0; LINE]; MAX_COLUMNS];
    for (line, panel) in panel.chunks_mut(LINE * nr).enumerate() {
        for (words, column) in words[..nr].iter_mut().zip(columns.clone()) {
            let bytes = &column[line * LINE * WORD..];
            let (whole, rest) = bytes[..bytes.len().min(LINE * WORD)].as_chunks();
            for (to, bytes) in words.iter_mut().zip(whole) {
                *to = word(u32::from_le_bytes(*bytes));
            }
            if !rest.is_empty() {
                let byte = |i| rest.get(i).copied().unwrap_or(pad);
                words[whole.len()] = word(u32::from_le_bytes(std::array::from_fn(byte)));
            }
        }
        for (q, row) in panel.chunks_exact_mut(nr).enumerate() {
            for (to, words) in row.iter_mut().zip(&words) {
                *to = words[q].to_le_bytes();
            }
        }
    }
}
