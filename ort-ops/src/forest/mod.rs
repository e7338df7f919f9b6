//! Decision trees: one compact array of branches, checked once, walked without lookups.
//!
//! A sample goes from a root to a leaf, branch by branch; the leaf votes for targets. Branches may
//! share their children (a chain of comparisons can lead to one place), but there are no cycles: a forest is only
//! created after this check, so that every walk terminates.

// collects are bounded: as long as the file's lists

mod attrs;
mod by_id;
mod by_index;
mod vote;

use ort_graph::OpError;

pub(crate) use attrs::{read_base, read_n_targets};
pub(crate) use by_id::{Names, read_by_id};
pub(crate) use by_index::read_by_index;
pub use vote::{Aggregate, Tally};

/// The test of a branch on its feature.
///
/// Source: ONNX ML operator set, `nodes_modes` of `TreeEnsemble-5`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// `x ≤ threshold`.
    Leq,
    /// `x < threshold`.
    Lt,
    /// `x ≥ threshold`.
    Gte,
    /// `x > threshold`.
    Gt,
    /// `x = threshold`.
    Eq,
    /// `x ≠ threshold`.
    Neq,
    /// `x` is in the set of this number.
    Member(u32),
}

/// Where a walk goes next: to a branch or to a leaf, in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child(i32);

/// A node by its position among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// An inner node.
    Branch(usize),
    /// A leaf.
    Leaf(usize),
}

impl Child {
    /// The reference to a node.
    ///
    /// # Errors
    /// If there are more nodes than a tree can have.
    pub(crate) fn to(node: Node) -> Result<Self, OpError> {
        let index = |index: usize| i32::try_from(index).map_err(|_| OpError::TooLarge);
        Ok(match node {
            Node::Branch(at) => Self(index(at)?),
            Node::Leaf(at) => Self(!index(at)?),
        })
    }

    /// The node that it leads to.
    pub const fn node(self) -> Node {
        match self.0 {
            leaf @ ..0 => Node::Leaf((!leaf).cast_unsigned() as usize),
            branch => Node::Branch(branch.cast_unsigned() as usize),
        }
    }
}

/// An inner node, in 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Branch {
    /// What the feature is compared with.
    pub threshold: f64,
    /// The feature that is tested.
    pub feature: u32,
    /// The comparison.
    pub test: Test,
    /// Whether NaN, a missing value, always passes.
    pub is_nan_true: bool,
    /// Where to go if the feature passes.
    pub if_true: Child,
    /// Where to go if it does not.
    pub if_false: Child,
}

/// What a leaf adds to a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vote {
    /// The target.
    pub target: u32,
    /// How much is added.
    pub weight: f64,
}

/// Trees that vote together.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    branches: Vec<Branch>,
    /// The sets of [`Test::Member`], each sorted.
    sets: Vec<Vec<f64>>,
    /// Leaf `i` has the votes from `first_votes[i]` to `first_votes[i + 1]`.
    first_votes: Vec<usize>,
    votes: Vec<Vote>,
    roots: Vec<Child>,
    n_features: usize,
    n_targets: usize,
}

/// The parts of a forest as they are read, unchecked.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub branches: Vec<Branch>,
    pub sets: Vec<Vec<f64>>,
    /// Each with its leaf; those of a leaf are counted in this order.
    pub votes: Vec<(usize, Vote)>,
    pub n_leaves: usize,
    pub roots: Vec<Child>,
    pub n_targets: usize,
}

impl Forest {
    /// A forest with valid indices and without cycles.
    ///
    /// # Errors
    /// If a child, set or target does not exist, or there is a cycle.
    pub(crate) fn new(parts: Parts) -> Result<Self, OpError> {
        let Parts { branches, mut sets, mut votes, n_leaves, roots, n_targets } = parts;
        let children = branches.iter().flat_map(|branch| [branch.if_true, branch.if_false]);
        for child in children.chain(roots.iter().copied()) {
            let (at, len) = match child.node() {
                Node::Branch(at) => (at, branches.len()),
                Node::Leaf(at) => (at, n_leaves),
            };
            in_range("the nodes of a tree", at, len)?;
        }
        for (leaf, vote) in &votes {
            in_range("the leaves of a tree", *leaf, n_leaves)?;
            in_range("the targets of a tree", vote.target as usize, n_targets)?;
        }
        for branch in &branches {
            if let Test::Member(set) = branch.test {
                in_range("the sets of a tree", set as usize, sets.len())?;
            }
        }
        if has_cycle(&branches) {
            return Err(OpError::Unsupported { what: "a tree with a cycle" });
        }
        sets.iter_mut().for_each(|set| set.sort_by(f64::total_cmp));
        votes.sort_by_key(|(leaf, _)| *leaf);
        // bounded: by the attributes of the node
        let mut first_votes = vec![0; n_leaves + 1];
        votes.iter().for_each(|(leaf, _)| first_votes[leaf + 1] += 1);
        (0..n_leaves).for_each(|leaf| first_votes[leaf + 1] += first_votes[leaf]);
        let n_features = branches.iter().map(|branch| branch.feature as usize + 1).max();
        Ok(Self {
            n_features: n_features.unwrap_or(0),
            votes: votes.into_iter().map(|(_, vote)| vote).collect(),
            branches,
            sets,
            first_votes,
            roots,
            n_targets,
        })
    }

    /// How many targets there are to vote for.
    pub const fn n_targets(&self) -> usize {
        self.n_targets
    }

    /// How many trees there are.
    pub const fn n_trees(&self) -> usize {
        self.roots.len()
    }

    /// About the operations for a sample.
    pub(crate) const fn cost(&self) -> usize {
        /// The usual depth of a tree.
        const DEPTH: usize = 16;
        self.roots.len().saturating_mul(DEPTH).saturating_add(self.n_targets)
    }

    /// The first node of each tree.
    pub fn roots(&self) -> &[Child] {
        &self.roots
    }

    /// The inner nodes of all trees, without cycles.
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// The members of a set that a branch tests for, in ascending order and without NaN.
    pub fn set(&self, set: u32) -> &[f64] {
        &self.sets[set as usize]
    }

    /// The votes of each leaf.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = &[Vote]> {
        (1..self.first_votes.len()).map(|leaf| self.votes_of(leaf - 1))
    }

    /// The votes of all leaves.
    pub(crate) fn all_votes(&self) -> &[Vote] {
        &self.votes
    }

    /// Checks that samples have every feature that a branch tests.
    ///
    /// # Errors
    /// If they have fewer.
    pub fn expect_features(&self, n_features: usize) -> Result<(), OpError> {
        if n_features >= self.n_features {
            return Ok(());
        }
        let what = "the features of a sample and those of the trees";
        Err(OpError::Shapes { what, left: vec![n_features], right: vec![self.n_features] })
    }

    /// The votes of each tree for a sample, which has all features.
    pub(crate) fn votes<'a>(&'a self, sample: &'a [f64]) -> impl Iterator<Item = &'a [Vote]> {
        self.roots.iter().map(|&root| self.leaf_votes(root, sample))
    }

    fn leaf_votes(&self, root: Child, sample: &[f64]) -> &[Vote] {
        let mut child = root;
        loop {
            match child.node() {
                Node::Branch(at) => {
                    let branch = &self.branches[at];
                    let x = sample[branch.feature as usize];
                    let is_true = self.passes(branch, x) || (branch.is_nan_true && x.is_nan());
                    child = if is_true { branch.if_true } else { branch.if_false };
                }
                Node::Leaf(at) => return self.votes_of(at),
            }
        }
    }

    fn votes_of(&self, leaf: usize) -> &[Vote] {
        &self.votes[self.first_votes[leaf]..self.first_votes[leaf + 1]]
    }

    #[expect(clippy::float_cmp, reason = "the branch tests for equality")]
    fn passes(&self, branch: &Branch, x: f64) -> bool {
        match branch.test {
            Test::Leq => x <= branch.threshold,
            Test::Lt => x < branch.threshold,
            Test::Gte => x >= branch.threshold,
            Test::Gt => x > branch.threshold,
            Test::Eq => x == branch.threshold,
            Test::Neq => x != branch.threshold,
            Test::Member(set) => {
                // Adding zero makes -0 the same as 0, here and in the set.
                self.sets[set as usize]
                    .binary_search_by(|member| member.total_cmp(&(x + 0.0)))
                    .is_ok()
            }
        }
    }
}

/// Checks that `at` is one of `len` positions.
///
/// # Errors
/// If it is not.
fn in_range(what: &'static str, at: usize, len: usize) -> Result<(), OpError> {
    let index = i64::try_from(at).unwrap_or(i64::MAX);
    if at < len { Ok(()) } else { Err(OpError::Index { what, index, len }) }
}

/// Whether the branches have a cycle. Depth first, without recursion: a branch is open while its descendants are
/// visited, and closed afterwards.
fn has_cycle(branches: &[Branch]) -> bool {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Never,
        Open,
        Closed,
    }
    // bounded: as long as an attribute
    let mut seen = vec![Seen::Never; branches.len()];
    let mut path: Vec<usize> = Vec::new();
    for start in 0..branches.len() {
        path.push(start);
        while let Some(&at) = path.last() {
            if seen[at] != Seen::Never {
                seen[at] = Seen::Closed;
                path.pop();
                continue;
            }
            seen[at] = Seen::Open;
            for child in [branches[at].if_true, branches[at].if_false] {
                let Node::Branch(child) = child.node() else { continue };
                match seen[child] {
                    Seen::Never => path.push(child),
                    Seen::Open => return true,
                    Seen::Closed => {}
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests;
