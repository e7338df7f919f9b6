//! Texts that are copied one by one: counted like other memory, though their sizes are not known before.
//!
//! What moves elements of any type sees a text as a [`Text`], whose `clone` asks for its memory. A copy cannot
//! fail, so one for which there is none stays empty, those that follow too, and [`refused`] tells when all
//! is done.

use std::cell::{Cell, RefCell};

use bytemuck::TransparentWrapper;

use crate::TensorError;
use crate::ending::go_on;
use crate::room::charge;

/// After so many copies a thread checks whether the run has ended.
const PERIOD: u32 = 1 << 12;

thread_local! {
    static N_COPIES: Cell<u32> = const { Cell::new(0) };
    static IS_REFUSED: Cell<bool> = const { Cell::new(false) };
    static REFUSAL: RefCell<Option<TensorError>> = const { RefCell::new(None) };
}

/// A text whose copies are counted.
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
    /// The same texts, to read.
    pub fn of(texts: &[String]) -> &[Self] {
        Self::wrap_slice(texts)
    }

    /// The same texts, to write.
    pub fn of_mut(texts: &mut [String]) -> &mut [Self] {
        Self::wrap_slice_mut(texts)
    }
}

/// These texts as one, in memory that is counted to the end of the allowance.
///
/// # Errors
/// If there is no memory for it, or, every now and then, if the run has ended.
pub fn text_of(parts: &[&str]) -> Result<String, TensorError> {
    let n = N_COPIES.get().wrapping_add(1);
    N_COPIES.set(n);
    if n.is_multiple_of(PERIOD) {
        go_on()?;
    }
    charge(parts.iter().map(|part| part.len()).sum())?;
    Ok(parts.concat())
}

/// That all copies on this thread since it was last called were made.
///
/// # Errors
/// The first that was refused: why.
pub fn refused() -> Result<(), TensorError> {
    if IS_REFUSED.replace(false) { REFUSAL.take().map_or(Ok(()), Err) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tensor, move_elements, within};

    #[test]
    fn copies_of_texts_are_refused_one_by_one() {
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
        let expected = TensorError::NoMemory { n_bytes: 10, limit: Some(limit) };
        assert_eq!(error, expected);
        // And is forgotten then.
        assert_eq!(fill(2).unwrap().view().as_strings().unwrap(), ["0123456789", "0123456789"]);
    }
}
