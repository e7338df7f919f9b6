//! Strings that are copied one by one: counted like other memory, though their sizes are not known in advance.
//!
//! Generic element moves see a string as a [`Text`], whose `clone` allocates with a check. A clone
//! cannot fail, so once an allocation is denied, it and those that follow are empty, and [`refused`]
//! reports the error at the end.

use std::cell::{Cell, RefCell};

use bytemuck::TransparentWrapper;

use crate::TensorError;
use crate::ending::{Pace, go_on};
use crate::room::charge;

/// A thread checks for cancellation after this many bytes, of which each copy has [`CHUNK`] in addition to its text.
const PERIOD: usize = 1 << 20;
/// What the allocator takes for a short text, in bytes.
const CHUNK: usize = 32;

thread_local! {
    static N_BYTES: Cell<usize> = const { Cell::new(0) };
    static IS_REFUSED: Cell<bool> = const { Cell::new(false) };
    static REFUSAL: RefCell<Option<TensorError>> = const { RefCell::new(None) };
}

/// A string whose copies are counted.
#[derive(Debug, Default, PartialEq, TransparentWrapper)]
#[repr(transparent)]
pub struct Text(String);

impl Clone for Text {
    fn clone(&self) -> Self {
        if IS_REFUSED.get() {
            return Self::default();
        }
        match text_of(&[&self.0]) {
            Ok(text) => Self(text),
            Err(error) => {
                REFUSAL.replace(Some(error));
                IS_REFUSED.set(true);
                Self::default()
            }
        }
    }
}

impl Text {
    /// A view of strings, to read.
    pub fn of(texts: &[String]) -> &[Self] {
        Self::wrap_slice(texts)
    }

    /// A view of strings, to write.
    pub fn of_mut(texts: &mut [String]) -> &mut [Self] {
        Self::wrap_slice_mut(texts)
    }
}

/// The concatenation of `parts`, in memory that is counted until the end of the allowance.
///
/// # Errors
/// If there is no memory for it, or, checked every now and then, if the run was cancelled.
pub fn text_of(parts: &[&str]) -> Result<String, TensorError> {
    let len = parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
    let n_bytes = taken_by(len);
    let copied = N_BYTES.get().saturating_add(len).saturating_add(CHUNK);
    N_BYTES.set(copied % PERIOD);
    if copied >= PERIOD {
        go_on()?;
    }
    charge(n_bytes)?;
    let mut text = String::new();
    text.try_reserve_exact(len).map_err(|_| TensorError::NoMemory { n_bytes, limit: None })?;
    text.extend(parts.iter().copied());
    Ok(text)
}

/// Copies `texts` to the strings of `y`, up to the shorter end. Their memory is counted at once, before the first copy,
/// until the end of the allowance.
///
/// # Errors
/// If there is no memory for it, or the run was cancelled.
pub fn copy_texts<'a>(
    texts: impl Iterator<Item = &'a str> + Clone,
    y: &mut [String],
) -> Result<(), TensorError> {
    let sizes = texts.clone().take(y.len()).map(|text| taken_by(text.len()));
    charge(sizes.fold(0, usize::saturating_add))?;
    let mut pace = Pace::new();
    for (y, text) in y.iter_mut().zip(texts) {
        pace.go(taken_by(text.len()))?;
        y.clear();
        let n_bytes = taken_by(text.len());
        y.try_reserve_exact(text.len())
            .map_err(|_| TensorError::NoMemory { n_bytes, limit: None })?;
        y.push_str(text);
    }
    Ok(())
}

/// The bytes that a text of this length takes from the allocator.
const fn taken_by(len: usize) -> usize {
    if len == 0 { 0 } else { len.saturating_add(CHUNK) }
}

/// Whether all copies on this thread since the last call succeeded.
///
/// # Errors
/// The error of the first copy that failed.
pub fn refused() -> Result<(), TensorError> {
    if IS_REFUSED.replace(false) { REFUSAL.take().map_or(Ok(()), Err) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tensor, move_elements, within};

    #[test]
    fn copies_of_strings_fail_one_by_one() {
        let x = Tensor::from_strings(&[1], vec!["0123456789".to_owned()]).unwrap();
        let fill = |n: usize| {
            let mut y = Tensor::zeros(x.dtype(), &[n])?;
            let moved = move_elements!(x.view() => y.view_mut(), |src, dst| {
                dst.iter_mut().for_each(|text| text.clone_from(&src[0]));
            });
            moved.map(|()| y)
        };
        let limit = 1000;
        assert!(within(limit, limit, || fill(10)).is_ok());
        let error = within(limit, limit, || fill(35)).unwrap_err();
        let expected = TensorError::NoMemory { n_bytes: 10 + CHUNK, limit: Some(limit) };
        assert_eq!(error, expected);
        // The error is cleared by then.
        assert_eq!(fill(2).unwrap().view().as_strings().unwrap(), ["0123456789", "0123456789"]);
    }
    #[test]
    fn copies_of_many_strings_are_counted_at_once() {
        let texts = ["0123456789", "", "a"];
        let copied = |y: &mut [String]| copy_texts(texts.iter().copied(), y);
        let limit = 11 + 2 * CHUNK;
        let mut y = vec![String::new(), "old".to_owned(), String::new()];
        assert_eq!(within(limit, limit, || copied(&mut y)), Ok(()));
        assert_eq!(y, texts);
        let error = TensorError::NoMemory { n_bytes: limit, limit: Some(limit - 1) };
        assert_eq!(within(limit - 1, limit - 1, || copied(&mut y)), Err(error));
        assert_eq!(within(limit - 1, limit - 1, || copied(&mut y[..2])), Ok(()));
        assert_eq!(copied(&mut []), Ok(()));
    }
}
