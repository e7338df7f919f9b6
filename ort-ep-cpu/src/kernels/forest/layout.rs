//! Where the nodes of trees stand: tree after tree, each level by level, the children of a node side by
//! side. A node that has a place already is not written again but led to.

// collects are bounded: by the attributes of the node

use std::collections::VecDeque;

use ort_kernels::trees::{Key, LANES, Node, Tree, walk_samples, walk_trees};
use ort_ops::forest::Forest;
use ort_tensor::Number;

use super::splits::{Column, Next, Split, Splits, next};

/// Trees whose leaves are found before their votes are counted.
pub(super) const TREES: usize = 32;

/// The nodes of a forest.
#[derive(Debug)]
pub(super) struct Layout<K> {
    columns: Vec<Column>,
    nodes: Vec<Node<K>>,
    /// The leaf at each place where there is one.
    leaves: Vec<u32>,
    pub(super) trees: Vec<Tree>,
}

impl<K: Key> Layout<K> {
    /// The layout of `forest`; `None` if its nodes are more than can be counted.
    pub(super) fn new(forest: &Forest) -> Option<Self> {
        let splits = Splits::new(forest)?;
        let roots = forest.roots().iter().map(|&root| next(root)).collect::<Option<Vec<_>>>()?;
        let depths = splits.depths(&roots);
        let mut placing = Placing::new(&splits);
        // bounded: by the attributes of the node
        let mut trees = Vec::with_capacity(forest.n_trees());
        for root in roots {
            let [shortest, longest] = match root {
                Next::Split(at) => depths[at as usize],
                Next::Leaf(_) => [0; 2],
            };
            trees.push(Tree { root: placing.tree(root)?, shortest, longest });
        }
        let Placing { nodes, leaves, .. } = placing;
        Some(Self { columns: splits.columns, nodes, leaves, trees })
    }

    /// The leaf at each place.
    pub(super) fn leaves(&self) -> &[u32] {
        &self.leaves
    }

    /// Keys to a sample; at least one.
    pub(super) fn n_keys(&self) -> usize {
        self.columns.len().max(1)
    }

    /// The steps of a sample, at most.
    pub(super) fn n_steps(&self) -> usize {
        let steps = self.trees.iter().map(|tree| tree.longest as usize + 1);
        steps.fold(0, usize::saturating_add)
    }

    /// The keys of samples of `n_features` each: of as many as [`LANES`] column by column, as often as
    /// there are so many, then of each other sample.
    pub(super) fn write_keys<T: Number>(&self, x: &[T], n_features: usize, keys: &mut [K]) {
        if self.columns.is_empty() {
            return keys.fill(K::default());
        }
        let n_keys = self.n_keys();
        let n_whole = keys.len() / (LANES * n_keys);
        let (groups, singles) = keys.split_at_mut(n_whole * LANES * n_keys);
        let samples = |i: usize, n: usize| &x[i * n_features..][..n * n_features];
        for (group, keys) in groups.chunks_exact_mut(LANES * n_keys).enumerate() {
            let x = samples(group * LANES, LANES);
            for (column, keys) in self.columns.iter().zip(keys.as_chunks_mut::<LANES>().0) {
                for (x, key) in x.chunks_exact(n_features).zip(keys) {
                    *key = column.key(x);
                }
            }
        }
        for (i, keys) in singles.chunks_exact_mut(n_keys).enumerate() {
            let x = samples(n_whole * LANES + i, 1);
            self.columns.iter().zip(keys).for_each(|(column, key)| *key = column.key(x));
        }
    }

    /// The places of the leaves that `n` samples come to: `[tree][sample]`.
    pub(super) fn walk(&self, trees: &[Tree], (keys, n): (&[K], usize), places: &mut [u32]) {
        let (n_keys, n_whole) = (self.n_keys(), n / LANES * LANES);
        let (groups, singles) = keys.split_at(n_whole * n_keys);
        for (&tree, places) in trees.iter().zip(places.chunks_exact_mut(n)) {
            let groups = groups.chunks_exact(LANES * n_keys);
            for (keys, places) in groups.zip(places.as_chunks_mut::<LANES>().0) {
                *places = walk_samples(&self.nodes, tree, keys.as_chunks().0);
            }
        }
        for (i, keys) in (n_whole..n).zip(singles.chunks_exact(n_keys)) {
            for (trees, places) in trees.chunks(TREES).zip(places.chunks_mut(TREES * n)) {
                let mut leaves = [0; TREES];
                walk_trees(&self.nodes, trees, keys, &mut leaves[..trees.len()]);
                let places = places.iter_mut().skip(i).step_by(n);
                places.zip(leaves).for_each(|(place, leaf)| *place = leaf);
            }
        }
    }
}

/// A layout that is being made.
struct Placing<'a, K> {
    splits: &'a Splits<K>,
    nodes: Vec<Node<K>>,
    leaves: Vec<u32>,
    /// The index of each split, once placed.
    places: Vec<Option<u32>>,
    /// Splits that stand somewhere, but whose children do not, with their places.
    open: VecDeque<(u32, u32)>,
}

impl<'a, K: Key> Placing<'a, K> {
    fn new(splits: &'a Splits<K>) -> Self {
        // bounded: by the attributes of the node
        let places = vec![None; splits.splits.len()];
        Self { splits, nodes: Vec::new(), leaves: Vec::new(), places, open: VecDeque::new() }
    }

    /// Places a tree; where its root is.
    fn tree(&mut self, root: Next) -> Option<u32> {
        let placed = match root {
            Next::Split(split) => self.places[split as usize],
            Next::Leaf(_) => None,
        };
        let at = match placed {
            Some(at) => at,
            None => self.place(root)?,
        };
        while let Some((split, at)) = self.open.pop_front() {
            let split = self.splits.splits[split as usize];
            let child = self.place(split.next[0])?;
            self.place(split.next[1])?;
            let Split { threshold, column, .. } = split;
            self.nodes[at as usize] = Node { threshold, column, child };
        }
        Some(at)
    }

    /// Places a node behind all others.
    fn place(&mut self, next: Next) -> Option<u32> {
        let at = u32::try_from(self.nodes.len()).ok()?;
        let (mut node, mut leaf) = (Node::leaf(at), 0);
        match next {
            Next::Leaf(number) => leaf = number,
            Next::Split(split) => match &mut self.places[split as usize] {
                Some(to) => node = Node::forward(*to),
                place => {
                    *place = Some(at);
                    self.open.push_back((split, at));
                }
            },
        }
        self.nodes.push(node);
        self.leaves.push(leaf);
        Some(at)
    }
}
