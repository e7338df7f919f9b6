//! Whole numbers of a small range, looked up by subtracting the least.

use ort_tensor::{TensorError, filled, with_room};

/// The index of each key of a list, which are whole numbers between the least and the greatest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    first: i64,
    /// For each number from the first on its index, or [`NONE`].
    places: Vec<u32>,
    /// The index of NaN.
    nan: u32,
}

const NONE: u32 = u32::MAX;

/// Whole numbers of less than this size are exact in every arithmetic here.
const EXACT: u64 = 1 << 53;

impl Table {
    /// The most numbers that a table of `n` keys covers: it takes about as much memory as a hash map of them.
    const fn most(n: usize) -> usize {
        n.saturating_mul(4).saturating_add(256)
    }

    /// From `keys`, of which `None` stands for NaN. A repeated key has its last index. `None` if their range is too
    /// large.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn new(keys: &[Option<i64>]) -> Result<Option<Self>, TensorError> {
        let numbers = || keys.iter().flatten().copied();
        let (first, last) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
        let Some(len) = usize::try_from(last.abs_diff(first)).ok().and_then(|n| n.checked_add(1))
        else {
            return Ok(None);
        };
        // A smaller number of keys makes all indices fit.
        if len > Self::most(keys.len()) || u32::try_from(keys.len()).is_err() {
            return Ok(None);
        }
        let mut table = Self { first, places: filled(NONE, len)?, nan: NONE };
        for (place, key) in (0_u32..).zip(keys) {
            match key {
                Some(key) => {
                    let at = table.position(*key).and_then(|at| table.places.get_mut(at));
                    at.into_iter().for_each(|at| *at = place);
                }
                None => table.nan = place,
            }
        }
        Ok(Some(table))
    }

    /// The same from floats. `None` also if one is no whole number.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn of_floats(
        keys: impl ExactSizeIterator<Item = f64>,
    ) -> Result<Option<Self>, TensorError> {
        let mut numbers = with_room(keys.len())?;
        for key in keys {
            match exact(key).filter(|key| key.unsigned_abs() < EXACT) {
                None if !key.is_nan() => return Ok(None),
                number => numbers.push(number),
            }
        }
        Self::new(&numbers)
    }

    /// The index of a number.
    #[inline]
    pub(super) fn find(&self, x: i64) -> Option<usize> {
        place(*self.places.get(self.position(x)?)?)
    }

    /// The index of a float: NaN is NaN, −0 is 0.
    #[inline]
    pub(super) fn find_float(&self, x: f64) -> Option<usize> {
        match exact(x) {
            Some(x) => self.find(x),
            None if x.is_nan() => place(self.nan),
            None => None,
        }
    }

    /// Where the number is in the table, if it is not beyond.
    #[inline]
    fn position(&self, x: i64) -> Option<usize> {
        // What is less than the first wraps around, to beyond the longest table.
        usize::try_from(x.wrapping_sub(self.first).cast_unsigned()).ok()
    }
}

#[inline]
fn place(place: u32) -> Option<usize> {
    if place == NONE { None } else { usize::try_from(place).ok() }
}

/// The integer of the same value. That of 2⁶³ is i64::MAX, which is in no table of floats.
#[inline]
fn exact(x: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "what changes is no whole number")]
    let integer = x as i64;
    #[expect(clippy::cast_precision_loss, reason = "only a rounded float gives another one")]
    (integer as f64 == x).then_some(integer)
}
