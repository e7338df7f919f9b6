//! Groups of equal elements, found by hashing, where there are few of them.

use std::hash::{BuildHasher, RandomState};

use ort_tensor::{TensorError, filled};

use super::keyed::Keyed;

/// The most groups of a table.
pub(super) const FEW: usize = 1 << 12;

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
        let mut at = self.slot(x[i].key().into());
        while self.slots[at] > 0 {
            let group = usize::from(self.slots[at] - 1);
            if x[self.first[group]].key() == x[i].key() {
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
    fn slot(&self, key: u128) -> usize {
        let key = (key >> 64) as u64 ^ (key as u64).rotate_left(32);
        let product = u128::from(key ^ self.offset) * u128::from(self.factor);
        ((product >> 64) as u64 ^ product as u64) as usize & (self.slots.len() - 1)
    }

    /// The first element of each group.
    pub(super) fn into_first(mut self) -> Vec<usize> {
        self.first.truncate(self.n);
        self.first
    }
}
