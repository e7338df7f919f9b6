//! Branch-free walks of samples through decision trees.
//!
//! ```text
//! repeat as often as the tree is deep:
//!     at ← child(at) + (key of column(at) > threshold(at))
//! ```
//!
//! **Keys.** Numbers are compared as integers in the same order ([`Key`]), among which NaN comes
//! before or after all numbers, as the column requires. So each test of a tree is one comparison.
//!
//! **Nodes.** The two children of a node are adjacent. A leaf leads to itself, so that walks of different
//! length can continue together; in one step of [`LANES`] walks, none waits for another.

/// Walks that continue together.
pub const LANES: usize = 8;
/// Steps between checks whether all walks have ended.
const STRIDE: u32 = 4;

/// A number as an integer: `a < b` if and only if `key(a) < key(b)`, except that −0 precedes 0.
pub trait Key: Copy + Ord + Default + bytemuck::Pod + Send + Sync + std::fmt::Debug {
    /// The threshold that no key passes, used only by leaves.
    const NOTHING: Self;
    /// NaN as the first key: it passes every threshold but [`Key::NOTHING`].
    const NAN_FIRST: Self;
    /// The threshold that every number passes, but not [`Key::NAN_LAST`].
    const NUMBERS: Self;
    /// NaN as the last key.
    const NAN_LAST: Self;
    /// The threshold that every key passes.
    const EVERYTHING: Self;

    /// The key of a number; `nan` for NaN.
    fn of(x: f64, nan: Self) -> Self;

    /// The greatest key of a number that is at most `limit`, which must not be NaN.
    fn at_most(limit: f64) -> Self;

    /// The greatest key of a number below `limit`, which must not be NaN.
    fn below(limit: f64) -> Self;

    /// The previous key; undefined for the least.
    #[must_use]
    fn previous(self) -> Self;
}

macro_rules! keys {
    ($($key:ty: $narrow:expr, $widen:expr;)+) => {$(
        impl Key for $key {
            const NOTHING: Self = Self::MIN;
            const NAN_FIRST: Self = Self::MIN + 1;
            const NUMBERS: Self = Self::MAX - 1;
            const NAN_LAST: Self = Self::MAX;
            const EVERYTHING: Self = Self::MAX;

            #[inline(always)]
            fn of(x: f64, nan: Self) -> Self {
                let x = $narrow(x);
                let bits = x.to_bits().cast_signed();
                // For negative numbers, a greater number has smaller bits without the sign.
                let key = bits ^ (bits >> (Self::BITS - 1) & Self::MAX);
                if x.is_nan() { nan } else { key }
            }

            fn at_most(limit: f64) -> Self {
                let nearest = $widen($narrow(limit));
                if nearest > limit { before(nearest) } else { Self::of(nearest + 0.0, 0) }
            }

            fn below(limit: f64) -> Self {
                let nearest = $widen($narrow(limit));
                if nearest < limit { Self::of(nearest + 0.0, 0) } else { before(nearest) }
            }

            fn previous(self) -> Self {
                self - 1
            }
        }
    )+};
}
keys! {
    i32: narrow, f64::from;
    i64: std::convert::identity, std::convert::identity;
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "four-byte keys represent f32")]
const fn narrow(x: f64) -> f32 {
    x as f32
}

/// The key before that of `x`, which must not be NaN; −0 and 0 are the same number.
fn before<K: Key>(x: f64) -> K {
    K::previous(K::of(if x == 0.0 { -0.0 } else { x }, K::NOTHING))
}

/// A node, which compares the key of a column with a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<K> {
    /// The greatest key that goes to the first child; greater ones go to the second.
    pub threshold: K,
    /// The column that is compared.
    pub column: u32,
    /// The index of the first child; the second follows it. Modulo 2³².
    pub child: u32,
}

impl<K: Key> Node<K> {
    /// A leaf at index `at`: walks stay there.
    pub const fn leaf(at: u32) -> Self {
        Self { threshold: K::NOTHING, column: 0, child: at.wrapping_sub(1) }
    }

    /// A node from which all walks go to `to`.
    pub const fn forward(to: u32) -> Self {
        Self { threshold: K::EVERYTHING, column: 0, child: to }
    }

    fn is_leaf(&self) -> bool {
        self.threshold == K::NOTHING
    }

    #[inline(always)]
    fn next(&self, key: K) -> u32 {
        self.child.wrapping_add(u32::from(key > self.threshold))
    }
}

/// The root of a tree, and the minimum and maximum number of steps to a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The index of its first node.
    pub root: u32,
    /// The minimum length of a walk.
    pub shortest: u32,
    /// The maximum length of a walk.
    pub longest: u32,
}

/// The indices of the leaves that [`LANES`] samples reach in one tree. `keys[column][sample]`.
///
/// # Panics
/// If a node refers outside `nodes` or to a missing column.
pub fn walk_samples<K: Key>(nodes: &[Node<K>], tree: Tree, keys: &[[K; LANES]]) -> [u32; LANES] {
    let steps = (tree.shortest, tree.longest);
    walk(nodes, [tree.root; LANES], steps, |lane, column| keys[column][lane])
}

/// The index of the leaf that one sample reaches in each tree. `keys[column]`.
///
/// # Panics
/// If a node refers outside `nodes` or to a missing column, or the number of `leaves` differs
/// from that of trees.
pub fn walk_trees<K: Key>(nodes: &[Node<K>], trees: &[Tree], keys: &[K], leaves: &mut [u32]) {
    assert_eq!(trees.len(), leaves.len(), "one leaf per tree");
    for (trees, leaves) in trees.chunks(LANES).zip(leaves.chunks_mut(LANES)) {
        let (mut roots, mut steps) = ([trees[0].root; LANES], (u32::MAX, 0));
        for (root, tree) in roots.iter_mut().zip(trees) {
            *root = tree.root;
            steps = (tree.shortest.min(steps.0), tree.longest.max(steps.1));
        }
        let ends = walk(nodes, roots, steps, |_, column| keys[column]);
        leaves.copy_from_slice(&ends[..trees.len()]);
    }
}

/// Walks starting at `at`; their lengths are within `steps`.
#[inline(always)]
fn walk<K: Key>(
    nodes: &[Node<K>],
    mut at: [u32; LANES],
    (shortest, longest): (u32, u32),
    key: impl Fn(usize, usize) -> K,
) -> [u32; LANES] {
    let step = |at: &mut [u32; LANES]| {
        for (lane, at) in at.iter_mut().enumerate() {
            let node = &nodes[*at as usize];
            *at = node.next(key(lane, node.column as usize));
        }
    };
    (0..shortest).for_each(|_| step(&mut at));
    let mut left = longest - shortest;
    while left > 0 && !at.iter().all(|&at| nodes[at as usize].is_leaf()) {
        (0..STRIDE.min(left)).for_each(|_| step(&mut at));
        left -= STRIDE.min(left);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in ascending order, exact in both types.
    const NUMBERS: [f64; 9] =
        [f64::NEG_INFINITY, -3e38, -1.5, -1e-30, 0.0, 1e-30, 1.5, 3e38, f64::INFINITY];

    fn check<K: Key>(round: impl Fn(f64) -> f64) {
        // Limits between f32 values and beyond their range are valid as well.
        let limits =
            NUMBERS.iter().copied().chain([-0.0, 1e-300, -1e-300, 1e300, -1e300, 1.5 - 1e-15]);
        for limit in limits {
            for x in NUMBERS.map(&round).into_iter().chain([-0.0]) {
                for nan in [K::NAN_FIRST, K::NAN_LAST] {
                    assert_eq!(K::of(x, nan) <= K::at_most(limit), x <= limit, "{x} ≤ {limit}");
                    assert_eq!(K::of(x, nan) <= K::below(limit), x < limit, "{x} < {limit}");
                }
                assert!(K::of(x, K::NOTHING) > K::NAN_FIRST && K::of(x, K::NOTHING) <= K::NUMBERS);
            }
            assert!(K::of(f64::NAN, K::NAN_FIRST) <= K::at_most(limit));
            assert!(K::of(f64::NAN, K::NAN_LAST) > K::at_most(limit));
        }
    }

    #[test]
    fn keys_are_ordered_as_numbers() {
        check::<i32>(|x| f64::from(narrow(x)));
        check::<i64>(std::convert::identity);
    }

    /// A chain: at each node, keys up to its number go to a leaf, the others continue.
    fn chain(n: u32) -> (Vec<Node<i32>>, Tree) {
        let mut nodes = Vec::new();
        for i in 0..n {
            nodes.push(Node { threshold: i.cast_signed(), column: i % 2, child: 2 * i + 1 });
            nodes.push(Node::leaf(2 * i + 1));
        }
        nodes.push(Node::leaf(2 * n));
        nodes.extend([Node::forward(0), Node::forward(2 * n + 1)]);
        (nodes, Tree { root: 2 * n + 2, shortest: n % 3, longest: n + 2 })
    }

    #[test]
    fn walks_end_at_their_leaves_alone_and_together() {
        for n in [1, 2, 3, 9, 30] {
            let (nodes, tree) = chain(n);
            let keys: [i32; LANES] = std::array::from_fn(|i| (i * 5).try_into().unwrap());
            let expected = keys.map(|key| (2 * key.cast_unsigned() + 1).min(2 * n));
            assert_eq!(walk_samples(&nodes, tree, &[keys, keys]), expected, "{n}");
            for (key, expected) in keys.into_iter().zip(expected) {
                let stump = Tree { root: 2 * n, shortest: 0, longest: 0 };
                let trees: Vec<Tree> = (0..11).map(|i| if i == 9 { stump } else { tree }).collect();
                let mut leaves = [0; 11];
                walk_trees(&nodes, &trees, &[key; 2], &mut leaves);
                assert_eq!(leaves[9], 2 * n);
                assert!((0..11).all(|i| i == 9 || leaves[i] == expected), "{n} {key}");
            }
        }
    }
}
