//! Dimensions that may not be known before the first run.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

/// One dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// This many elements.
    Known(usize),
    /// The same number wherever the name occurs.
    Symbol(Arc<str>),
    /// Nothing is known.
    Unknown,
}

/// The dimensions of a tensor, outermost first.
pub type Dims = SmallVec<[Dim; 4]>;

impl Dim {
    /// The number, if it is known.
    pub const fn known(&self) -> Option<usize> {
        match self {
            Dim::Known(n) => Some(*n),
            Dim::Symbol(_) | Dim::Unknown => None,
        }
    }

    /// Whether the two are provably the same number.
    pub fn equals(&self, other: &Dim) -> bool {
        self == other && *self != Dim::Unknown
    }

    /// Whether two shapes are provably the same.
    pub fn all_equal(a: &[Dim], b: &[Dim]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
    }

    /// What is known if both hold; `None` if they contradict each other.
    pub fn unify(&self, other: &Dim) -> Option<Dim> {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => (a == b).then_some(Dim::Known(*a)),
            (Dim::Known(n), _) | (_, Dim::Known(n)) => Some(Dim::Known(*n)),
            (Dim::Symbol(name), _) | (_, Dim::Symbol(name)) => Some(Dim::Symbol(name.clone())),
            _ => Some(Dim::Unknown),
        }
    }

    /// `f(self, other)` where both are known, else unknown. `None` from `f` is unknown, too.
    pub fn zip(&self, other: &Dim, f: impl FnOnce(usize, usize) -> Option<usize>) -> Dim {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => f(*a, *b).map_or(Dim::Unknown, Dim::Known),
            _ => Dim::Unknown,
        }
    }

    /// `f(self)` where it is known, else unknown.
    pub fn map(&self, f: impl FnOnce(usize) -> Option<usize>) -> Dim {
        self.known().and_then(f).map_or(Dim::Unknown, Dim::Known)
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Self {
        Dim::Known(n)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(n) => n.fmt(f),
            Dim::Symbol(name) => f.write_str(name),
            Dim::Unknown => f.write_str("?"),
        }
    }
}
