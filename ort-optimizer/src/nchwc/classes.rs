//! Which values in NCHWc have the same channels.

/// Classes of values that have the same channels: disjoint sets that can be joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    parents: Vec<usize>,
    known: Vec<Known>,
}

/// What is known of the channels of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// How many there are with the padding.
    pub(super) padded: Option<usize>,
    /// The most channels without padding that any node states.
    pub(super) named: Option<usize>,
}

/// Two different numbers of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict;

impl Conflict {
    pub(super) const WHAT: &'static str = "it implies two different numbers of channels";
}

impl Classes {
    /// A new class.
    pub(super) fn add(&mut self, known: Known) -> usize {
        self.parents.push(self.parents.len());
        self.known.push(known);
        self.parents.len() - 1
    }

    /// The number of the class that `class` has become part of.
    pub(super) fn root(&self, mut class: usize) -> usize {
        while self.parents[class] != class {
            class = self.parents[class];
        }
        class
    }

    pub(super) fn known(&self, class: usize) -> Known {
        self.known[self.root(class)]
    }

    /// Merges two classes.
    pub(super) fn join(&mut self, a: usize, b: usize) -> Result<(), Conflict> {
        let (a, b) = (self.root(a), self.root(b));
        self.learn(a, self.known[b])?;
        self.learn(b, self.known[a])?;
        // Values are visited in order, so paths to the oldest stay short.
        self.parents[a.max(b)] = a.min(b);
        Ok(())
    }

    /// Adds to what is known of a class.
    pub(super) fn learn(&mut self, class: usize, known: Known) -> Result<(), Conflict> {
        let class = self.root(class);
        let own = &mut self.known[class];
        match (own.padded, known.padded) {
            (Some(a), Some(b)) if a != b => return Err(Conflict),
            (own_padded, padded) => own.padded = own_padded.or(padded),
        }
        own.named = own.named.max(known.named);
        Ok(())
    }
}

impl Known {
    pub(super) const fn padded(n: usize) -> Self {
        Self { padded: Some(n), named: None }
    }

    /// How many channels there are with the padding, for blocks of this size.
    pub(super) fn padded_to(self, block: usize) -> Option<usize> {
        self.padded.or_else(|| self.named?.checked_next_multiple_of(block))
    }
}
