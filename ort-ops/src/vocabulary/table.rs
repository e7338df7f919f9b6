//! Whole numbers of a small range, looked up by subtracting the least.

use ort_tensor::{TensorError, filled, with_room};

/// The index of each key of a list, which are whole numbers between the least and the greatest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    first: i64,
    /// The index of each number from the first on.
    places: Vec<u32>,
    /// The index of NaN.
    nan: u32,
    /// The index of what is no key: the number of keys.
    unknown: u32,
}

/// 1.5·2⁵². A float of less than 2⁵¹ plus this is rounded to an integer, which is in the lower bits.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

/// Floats of less than this size are looked up exactly.
const EXACT: u64 = 1 << 51;

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
        let Some(unknown) =
            u32::try_from(keys.len()).ok().filter(|_| len <= Self::most(keys.len()))
        else {
            return Ok(None);
        };
        let mut table = Self { first, places: filled(unknown, len)?, nan: unknown, unknown };
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

    /// The index of what is no key.
    #[inline]
    pub(super) const fn unknown(&self) -> usize {
        self.unknown as usize
    }

    /// The index of a number.
    #[inline]
    pub(super) fn find(&self, x: i64) -> usize {
        let place = self.position(x).and_then(|at| self.places.get(at));
        place.map_or(self.unknown(), |&place| place as usize)
    }

    /// The index of a float: NaN is NaN, −0 is 0.
    #[inline]
    pub(super) fn find_float(&self, x: f64) -> usize {
        match exact(x) {
            Some(x) => self.find(x),
            None if x.is_nan() => self.nan as usize,
            None => self.unknown(),
        }
    }

    /// Where the number is in the table, if it is not beyond.
    #[inline]
    fn position(&self, x: i64) -> Option<usize> {
        // What is less than the first wraps around, to beyond the longest table.
        usize::try_from(x.wrapping_sub(self.first).cast_unsigned()).ok()
    }
}

/// The integer of the same value; any other of at least [`EXACT`] in size, for floats of such a size.
#[inline]
fn exact(x: f64) -> Option<i64> {
    let rounded = x + ROUNDING;
    let integer = rounded.to_bits().wrapping_sub(ROUNDING.to_bits()).cast_signed();
    (rounded - ROUNDING == x).then_some(integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_exact_integers_or_beyond() {
        let limit = 2_251_799_813_685_248_f64;
        for x in [0.0, -0.0, 1.0, -1.0, 1e9, -1e9, limit - 1.0, 1.0 - limit] {
            #[expect(clippy::cast_possible_truncation, reason = "an integer")]
            let integer = x as i64;
            assert_eq!(exact(x), Some(integer), "{x}");
        }
        for x in
            [0.5, -0.5, 1e-300, 0.499_999_999_999_999_94, 1.0 + f64::EPSILON, limit - 0.5, f64::NAN]
        {
            assert_eq!(exact(x), None, "{x}");
        }
        let powers = (51..1024).map(|power| f64::powi(2.0, power));
        let large = powers.chain([f64::INFINITY, f64::MAX, limit * 1.5, limit * 1.25, limit + 0.5]);
        for x in large.flat_map(|x| [x, -x]) {
            assert!(exact(x).is_none_or(|integer| integer.unsigned_abs() >= EXACT), "{x}");
        }
    }
}
