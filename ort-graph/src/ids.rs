//! Distinct ids for values and nodes: four bytes, with a niche so that `Option` costs nothing.

use std::fmt;
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
