//! Distinct ids for values and nodes: four bytes, with a niche so that `Option` costs nothing; and maps by them.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::num::NonZeroU32;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The id of the slot `index`; `None` beyond 2^32 − 2 slots.
            pub fn new(index: usize) -> Option<Self> {
                u32::try_from(index).ok()?.checked_add(1).and_then(NonZeroU32::new).map(Self)
            }

            /// The slot in the graph's table.
            #[expect(clippy::as_conversions, reason = "u32 fits usize on every supported target")]
            pub const fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.index())
            }
        }
    };
}

id! {
    /// A value of one graph.
    ValueId, "v"
}
id! {
    /// A node of one graph.
    NodeId, "n"
}

/// A map by [`ValueId`] or [`NodeId`].
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// A set of [`ValueId`] or [`NodeId`].
pub type IdSet<K> = HashSet<K, BuildHasherDefault<IdHasher>>;

/// The hash of one id: its number times an odd constant. Ids are numbers in a row that no file chooses, so nothing can
/// make them collide.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl IdHasher {
    /// 2⁶⁴ / φ, which spreads numbers in a row most evenly (Knuth, The Art of Computer Programming, 6.4).
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
}

impl Hasher for IdHasher {
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(Self::FACTOR);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_by_id_hold_what_is_put_there() {
        let ids = || (0..1000).filter_map(ValueId::new);
        let map: IdMap<ValueId, usize> = ids().map(|id| (id, id.index())).collect();
        assert_eq!(map.len(), 1000);
        assert!(ids().all(|id| map.get(&id) == Some(&id.index())));
        assert_eq!(map.get(&ValueId::new(1000).unwrap()), None);
    }
}
