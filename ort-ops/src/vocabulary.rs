//! Lists of keys that elements are looked up in.
//!
//! Numbers whose range is small are looked up in a table of that range, other keys in a hash map.

// collects are bounded: as long as the file's lists

use std::collections::HashMap;

use foldhash::fast::RandomState;
use ort_graph::{NodeSpec, OpError};
use ort_tensor::{
    DType, Number, Pace, Tensor, TensorError, TensorView, TensorViewMut, collected, move_elements,
    with_dtype, with_room,
};

use crate::elementwise::unsupported;
use table::Table;

mod table;

/// The index of each key of a list. Numbers are compared by value: −0 equals 0, NaN equals NaN, and integers of
/// different widths are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vocabulary {
    dtype: DType,
    /// The number of keys, which is also the index of elements that are none.
    n_keys: usize,
    places: Places,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Places {
    Strings(HashMap<String, usize, RandomState>),
    Numbers(HashMap<u64, usize, RandomState>),
    Table(Table),
}

/// How many indices are found before they are used: few enough for the stack and the first cache.
const BLOCK: usize = 256;

impl Vocabulary {
    /// From the strings, integers or floats `keys`. A repeated key has its last index.
    ///
    /// # Errors
    /// If the keys are of another type.
    pub(crate) fn new(keys: TensorView<'_>) -> Result<Self, OpError> {
        let dtype = keys.dtype();
        let places = if dtype == DType::String {
            Places::Strings(keys.as_strings()?.iter().cloned().zip(0..).collect())
        } else if let Some(table) = table_of(keys)? {
            Places::Table(table)
        } else {
            Places::Numbers(number_keys(keys)?.into_iter().zip(0..).collect())
        };
        Ok(Self { dtype, n_keys: keys.len(), places })
    }

    /// The type of the keys.
    pub(crate) const fn dtype(&self) -> DType {
        self.dtype
    }

    /// The index of each element of `x`, if it is a key.
    ///
    /// # Errors
    /// If elements and keys are of different kinds, such as strings and numbers.
    pub(crate) fn find(&self, x: TensorView<'_>) -> Result<Vec<Option<usize>>, OpError> {
        let mut found = with_room(x.len())?;
        let known = |&place: &usize| Some(place).filter(|&place| place < self.n_keys);
        self.find_blocks(x, |places| {
            // bounded: the vector has room for all
            found.extend(places.iter().map(known));
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `write` with each item of `y` and the index of the element of `x` at its position: the number of
    /// keys, if it is none.
    ///
    /// # Errors
    /// If elements and keys are of different kinds, or the run was cancelled.
    pub(crate) fn find_each<T>(
        &self,
        x: TensorView<'_>,
        y: &mut [T],
        mut write: impl FnMut(&mut T, usize),
    ) -> Result<(), TensorError> {
        let mut rest = y;
        self.find_blocks(x, |places| {
            let y = rest.split_off_mut(..places.len()).unwrap_or_default();
            y.iter_mut().zip(places).for_each(|(y, &place)| write(y, place));
            Ok(())
        })
    }

    /// Calls `f` with the indices of the elements of `x`, as in `find_each`, a block after the other.
    ///
    /// # Errors
    /// Those of `find_each` and of `f`.
    pub(crate) fn find_blocks(
        &self,
        x: TensorView<'_>,
        f: impl FnMut(&[usize]) -> Result<(), TensorError>,
    ) -> Result<(), TensorError> {
        in_blocks(x.len(), |at, places| self.find_block(x, at, places), f)
    }

    /// As `find_blocks` for floats among integers: truncated toward zero first. NaN and values out of the range of
    /// int64 are unknown.
    ///
    /// # Errors
    /// Those of `find_blocks`.
    pub(crate) fn find_truncated(
        &self,
        x: TensorView<'_>,
        f: impl FnMut(&[usize]) -> Result<(), TensorError>,
    ) -> Result<(), TensorError> {
        let find = |at: usize, places: &mut [usize]| {
            with_dtype!(x.dtype(), float, T => {
                if self.dtype.is_integer() {
                    let x = x.as_slice::<T>()?[at..].iter();
                    self.find_integers(x.map(|&x| whole(Number::to_f64(x))), places);
                    return Ok(());
                }
            }, else => {});
            Err(self.mismatch(x))
        };
        in_blocks(x.len(), find, f)
    }

    /// The indices of the elements of `x` from `at` on, as many as `places` has.
    fn find_block(
        &self,
        x: TensorView<'_>,
        at: usize,
        places: &mut [usize],
    ) -> Result<(), TensorError> {
        if let Places::Strings(keys) = &self.places {
            for (place, x) in places.iter_mut().zip(&x.as_strings()?[at..]) {
                *place = keys.get(x.as_str()).copied().unwrap_or(self.n_keys);
            }
            return Ok(());
        }
        if self.dtype.is_integer() {
            with_dtype!(x.dtype(), [i8, i16, i32, i64, u8, u16, u32], T => {
                let x = x.as_slice::<T>()?[at..].iter();
                self.find_integers(x.map(|&x| Some(integer(x))), places);
                return Ok(());
            }, else => {});
        } else {
            with_dtype!(x.dtype(), [f32, f64], T => {
                self.find_floats(x.as_slice::<T>()?[at..].iter().map(|&x| Number::to_f64(x)), places);
                return Ok(());
            }, else => {});
        }
        Err(self.mismatch(x))
    }

    fn find_integers(&self, x: impl Iterator<Item = Option<i64>>, places: &mut [usize]) {
        let unknown = self.n_keys;
        let places = places.iter_mut().zip(x);
        match &self.places {
            Places::Table(keys) => places.for_each(|(place, x)| {
                *place = x.map_or(keys.unknown(), |x| keys.find(x));
            }),
            Places::Numbers(keys) => places.for_each(|(place, x)| {
                *place = x.and_then(|x| keys.get(&integer_key(x)).copied()).unwrap_or(unknown);
            }),
            Places::Strings(_) => places.for_each(|(place, _)| *place = unknown),
        }
    }

    fn find_floats(&self, x: impl Iterator<Item = f64>, places: &mut [usize]) {
        let unknown = self.n_keys;
        let places = places.iter_mut().zip(x);
        match &self.places {
            Places::Table(keys) => places.for_each(|(place, x)| {
                *place = keys.find_float(x);
            }),
            Places::Numbers(keys) => places.for_each(|(place, x)| {
                *place = keys.get(&float_key(x)).copied().unwrap_or(unknown);
            }),
            Places::Strings(_) => places.for_each(|(place, _)| *place = unknown),
        }
    }

    fn mismatch(&self, x: TensorView<'_>) -> TensorError {
        TensorError::DType { expected: self.dtype, found: x.dtype() }
    }
}

/// Calls `find` with the start and the indices, to write, of each block of `n` elements, and then `f` with them.
fn in_blocks(
    n: usize,
    find: impl Fn(usize, &mut [usize]) -> Result<(), TensorError>,
    mut f: impl FnMut(&[usize]) -> Result<(), TensorError>,
) -> Result<(), TensorError> {
    let (mut places, mut pace) = ([0; BLOCK], Pace::new());
    // The types of an empty tensor are checked too.
    for at in (0..n.max(1)).step_by(BLOCK) {
        let places = &mut places[..(n - at).min(BLOCK)];
        pace.go(places.len())?;
        find(at, places)?;
        f(places)?;
    }
    Ok(())
}

/// The list in one of two attributes, of integers or of strings.
///
/// # Errors
/// If both are present, or none is.
pub(crate) fn read_keys(
    spec: &NodeSpec<'_>,
    integers: &'static str,
    strings: &'static str,
) -> Result<Tensor, OpError> {
    match (spec.ints(integers)?, spec.strings(strings)?) {
        (Some(keys), None) => Ok(Tensor::from_slice(&[keys.len()], keys)?),
        (None, Some(keys)) => Ok(Tensor::from_strings(&[keys.len()], keys.to_vec())?),
        (None, None) => Err(OpError::MissingAttribute { name: integers }),
        (Some(keys), Some(_)) => {
            Err(OpError::AttributeValue { name: integers, found: format!("{keys:?}") })
        }
    }
}

/// The keys as a table, if they are whole numbers of a small range.
fn table_of(keys: TensorView<'_>) -> Result<Option<Table>, OpError> {
    with_dtype!(keys.dtype(), [i8, i16, i32, i64, u8, u16, u32], T => {
        let keys = collected(keys.as_slice::<T>()?.iter().map(|&key| Some(integer(key))))?;
        return Ok(Table::new(&keys)?);
    }, else => {});
    with_dtype!(keys.dtype(), [f32, f64], T => {
        Ok(Table::of_floats(keys.as_slice::<T>()?.iter().map(|&key| Number::to_f64(key)))?)
    }, else => Err(unsupported(0, keys.dtype())))
}

/// The integer toward zero; `None` for NaN and out of range of int64.
fn whole(x: f64) -> Option<i64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "truncation is intended")]
    (-BEYOND..BEYOND).contains(&x).then_some(x as i64)
}

/// Keys that are equal for equal numbers of one kind.
fn number_keys(x: TensorView<'_>) -> Result<Vec<u64>, OpError> {
    with_dtype!(x.dtype(), [i8, i16, i32, i64, u8, u16, u32], T => {
        return Ok(collected(x.as_slice::<T>()?.iter().map(|&x| integer_key(x)))?);
    }, else => {});
    with_dtype!(x.dtype(), [f32, f64], T => {
        Ok(collected(x.as_slice::<T>()?.iter().map(|&x| float_key(Number::to_f64(x))))?)
    }, else => Err(unsupported(0, x.dtype())))
}

fn integer(x: impl Into<i64>) -> i64 {
    x.into()
}

fn integer_key(x: impl Into<i64>) -> u64 {
    integer(x).cast_unsigned()
}

fn float_key(x: f64) -> u64 {
    // Adding 0 makes −0 positive.
    if x.is_nan() { f64::NAN.to_bits() } else { (x + 0.0).to_bits() }
}

/// `y[i] = values[places[i]]`, and zero or an empty string where there is no index.
///
/// # Errors
/// If the element types differ.
pub(crate) fn pick(
    values: TensorView<'_>,
    places: &[Option<usize>],
    y: TensorViewMut<'_>,
) -> Result<(), TensorError> {
    move_elements!(values => y, |src, dst| {
        for (y, place) in dst.iter_mut().zip(places) {
            *y = place.and_then(|place| src.get(place)).cloned().unwrap_or_default();
        }
    })
}

#[cfg(test)]
mod tests;
