//! Groups of equal elements, found by hashing, where there are few of them.

use std::hash::{BuildHasher, RandomState};

use ort_tensor::{Bool, Complex, Number, TensorError, bf16, f16, filled};

use crate::order::Sortable;

/// The most groups of a table.
pub(super) const FEW: usize = 1 << 12;

/// A plain element whose equals have the same key.
pub(super) trait Keyed: Sortable + Copy {
    fn key(self) -> u64;
}

macro_rules! keyed {
    ($($ty:ty: |$x:ident| $key:expr;)*) => { $(
        impl Keyed for $ty {
            fn key(self) -> u64 {
                let $x = self;
                $key
            }
        }
    )* };
}

keyed! {
    i8: |x| i64::from(x).cast_unsigned();
    i16: |x| i64::from(x).cast_unsigned();
    i32: |x| i64::from(x).cast_unsigned();
    i64: |x| x.cast_unsigned();
    u8: |x| u64::from(x);
    u16: |x| u64::from(x);
    u32: |x| u64::from(x);
    u64: |x| x;
    f16: |x| float_key(f64::from(x));
    bf16: |x| float_key(f64::from(x));
    f32: |x| float_key(f64::from(x));
    f64: |x| float_key(x);
    Bool: |x| u64::from(x.get());
    Complex<f32>: |x| complex_key(x);
    Complex<f64>: |x| complex_key(x);
}

/// One key for all NaNs, and one for both zeros.
fn float_key(x: f64) -> u64 {
    if x.is_nan() { u64::MAX } else { (x + 0.0).to_bits() }
}

fn complex_key<T: Number + Into<f64>>(x: Complex<T>) -> u64 {
    float_key(x.re().into()).rotate_left(32) ^ float_key(x.im().into())
}

/// A hash table of groups, whose elements are elsewhere.
pub(super) struct Table {
    /// Random, so that nobody can choose elements that share a slot.
    offset: u64,
    factor: u64,
    /// A group, plus 1, is in the slot of its key, or in the next one that was free. A power of two, at most half of which
    /// are in use.
    slots: Vec<u16>,
    /// The first element of each group.
    first: Vec<usize>,
    n: usize,
}

impl Table {
    /// Without groups, for at most [`FEW`] of so many elements.
    pub(super) fn new(n_elements: usize) -> Result<Self, TensorError> {
        let random = RandomState::new();
        let [offset, factor] = [0, 1].map(|i| random.hash_one(i) | 1);
        let most = FEW.min(n_elements);
        let slots = filled(0, (2 * most).next_power_of_two())?;
        Ok(Self { offset, factor, slots, first: filled(0, most)?, n: 0 })
    }

    /// The group of an element, a new one if none is equal; `None` if there is no room for it.
    pub(super) fn group<T: Keyed>(&mut self, x: &[T], i: usize) -> Option<usize> {
        let mut at = self.slot(x[i].key());
        while self.slots[at] > 0 {
            let group = usize::from(self.slots[at] - 1);
            if x[self.first[group]].order(&x[i]).is_eq() {
                return Some(group);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        let group = self.n;
        *self.first.get_mut(group)? = i;
        self.n += 1;
        self.slots[at] = u16::try_from(self.n).ok()?;
        Some(group)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low bits choose a slot")]
    fn slot(&self, key: u64) -> usize {
        let product = u128::from(key ^ self.offset) * u128::from(self.factor);
        ((product >> 64) as u64 ^ product as u64) as usize & (self.slots.len() - 1)
    }

    /// The first element of each group.
    pub(super) fn into_first(mut self) -> Vec<usize> {
        self.first.truncate(self.n);
        self.first
    }
}
