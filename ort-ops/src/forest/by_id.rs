//! Trees whose nodes have ids: `TreeEnsembleClassifier` and `TreeEnsembleRegressor`.

// collects are bounded: as long as the file's lists

use std::collections::HashSet;
use std::ops::Range;

use ort_graph::{NodeSpec, OpError};

use super::attrs::{expect_len, floats, index, ints, missing_tracks};
use super::{Branch, Child, Forest, Node, Parts, Test, Vote};

/// The names of the attributes of the votes.
#[derive(Debug)]
pub(crate) struct Names {
    pub ids: &'static str,
    pub node_ids: &'static str,
    pub tree_ids: &'static str,
    pub weights: &'static str,
    pub weights_as_tensor: &'static str,
}

/// Where the node of a tree is, by the ids of both.
struct Places {
    /// By tree, then by node.
    nodes: Vec<(i64, i64, Child)>,
    /// The nodes of each tree.
    trees: Vec<(i64, Range<usize>)>,
}

impl Places {
    /// The places of nodes in any order.
    ///
    /// # Errors
    /// If a node occurs twice.
    fn new(mut nodes: Vec<(i64, i64, Child)>) -> Result<Self, OpError> {
        // Most files have them in order.
        nodes.sort_by_key(|&(tree, node, _)| (tree, node));
        for pair in nodes.windows(2) {
            let [(tree, node, _), (next_tree, next_node, _)] = *pair else { continue };
            if (tree, node) == (next_tree, next_node) {
                let found = format!("node {node} of tree {tree} twice");
                return Err(OpError::AttributeValue { name: "nodes_nodeids", found });
            }
        }
        let mut trees: Vec<(i64, Range<usize>)> = Vec::new();
        for of_tree in nodes.chunk_by(|a, b| a.0 == b.0) {
            let start = trees.last().map_or(0, |(_, nodes)| nodes.end);
            trees.push((of_tree[0].0, start..start + of_tree.len()));
        }
        Ok(Self { nodes, trees })
    }

    fn get(&self, tree: i64, node: i64) -> Option<Child> {
        let at = self.trees.binary_search_by_key(&tree, |(id, _)| *id).ok()?;
        let nodes = &self.nodes[self.trees[at].1.clone()];
        // Ids of a tree are usually consecutive.
        let guess = node.checked_sub(nodes[0].1).and_then(|guess| usize::try_from(guess).ok());
        let found = guess.and_then(|guess| nodes.get(guess)).filter(|(_, id, _)| *id == node);
        let search = || Some(&nodes[nodes.binary_search_by_key(&node, |(_, id, _)| *id).ok()?]);
        found.or_else(search).map(|&(.., place)| place)
    }
}

/// The trees of the attributes. The root of a tree is its first node; votes at branches are ignored, as in ONNX
/// Runtime (some converters write them).
///
/// # Errors
/// If parallel attributes differ in length, or do not form trees.
pub(crate) fn read_by_id(
    spec: &NodeSpec<'_>,
    names: &Names,
    n_targets: usize,
) -> Result<Forest, OpError> {
    for hint in ["nodes_hitrates", "nodes_hitrates_as_tensor"] {
        spec.ignore(hint);
    }
    let modes = spec.strings("nodes_modes")?.unwrap_or_default();
    let tests = modes.iter().map(|mode| test(mode)).collect::<Result<Vec<_>, _>>()?;
    let tree_ids = ints(spec, "nodes_treeids", tests.len())?;
    let node_ids = ints(spec, "nodes_nodeids", tests.len())?;
    let (places, roots, n_leaves) = places(&tests, tree_ids, node_ids)?;
    let branches = read_branches(spec, &tests, tree_ids, &places)?;
    let votes = read_votes(spec, names, &places)?;
    Forest::new(Parts { branches, sets: Vec::new(), votes, n_leaves, roots, n_targets })
}

/// Where each node is, the first of each tree, and how many leaves there are.
fn places(
    tests: &[Option<Test>],
    tree_ids: &[i64],
    node_ids: &[i64],
) -> Result<(Places, Vec<Child>, usize), OpError> {
    let (mut n_branches, mut n_leaves) = (0, 0);
    // bounded: as long as an attribute
    let (mut nodes, mut roots) = (Vec::with_capacity(tests.len()), Vec::new());
    let (mut trees, mut last) = (HashSet::new(), None);
    for ((test, &tree), &node) in tests.iter().zip(tree_ids).zip(node_ids) {
        let (n, node_of) = match test {
            Some(_) => (&mut n_branches, Node::Branch as fn(usize) -> Node),
            None => (&mut n_leaves, Node::Leaf as fn(usize) -> Node),
        };
        let place = Child::to(node_of(*n))?;
        *n += 1;
        nodes.push((tree, node, place));
        if last.replace(tree) != Some(tree) && trees.insert(tree) {
            roots.push(place);
        }
    }
    Ok((Places::new(nodes)?, roots, n_leaves))
}

/// The branches, in the order of the nodes.
fn read_branches(
    spec: &NodeSpec<'_>,
    tests: &[Option<Test>],
    tree_ids: &[i64],
    places: &Places,
) -> Result<Vec<Branch>, OpError> {
    let (true_name, false_name) = ("nodes_truenodeids", "nodes_falsenodeids");
    let if_true = ints(spec, true_name, tests.len())?;
    let if_false = ints(spec, false_name, tests.len())?;
    let features = ints(spec, "nodes_featureids", tests.len())?;
    let thresholds = floats(spec, "nodes_values", "nodes_values_as_tensor")?;
    expect_len("nodes_values", thresholds.len(), tests.len())?;
    let tracks = missing_tracks(spec, tests.len())?;
    let place = |name, tree: i64, node: i64| {
        let found = || format!("node {node}, which tree {tree} does not have");
        let place = places.get(tree, node);
        place.ok_or_else(|| OpError::AttributeValue { name, found: found() })
    };
    let branches = tests.iter().enumerate().filter_map(|(i, test)| Some((i, (*test)?)));
    branches
        .map(|(i, test)| {
            Ok(Branch {
                threshold: thresholds[i],
                feature: index("nodes_featureids", features[i])?,
                test,
                is_nan_true: tracks[i],
                if_true: place(true_name, tree_ids[i], if_true[i])?,
                if_false: place(false_name, tree_ids[i], if_false[i])?,
            })
        })
        .collect()
}

/// Votes, each with its leaf.
fn read_votes(
    spec: &NodeSpec<'_>,
    names: &Names,
    places: &Places,
) -> Result<Vec<(usize, Vote)>, OpError> {
    let targets = spec.ints(names.ids)?.unwrap_or_default();
    let nodes = ints(spec, names.node_ids, targets.len())?;
    let trees = ints(spec, names.tree_ids, targets.len())?;
    let weights = floats(spec, names.weights, names.weights_as_tensor)?;
    expect_len(names.weights, weights.len(), targets.len())?;
    // bounded: as long as an attribute
    let mut votes = Vec::with_capacity(targets.len());
    for (((&target, &node), &tree), weight) in targets.iter().zip(nodes).zip(trees).zip(weights) {
        let target = index(names.ids, target)?;
        match places.get(tree, node).map(Child::node) {
            Some(Node::Leaf(leaf)) => votes.push((leaf, Vote { target, weight })),
            Some(Node::Branch(_)) => {}
            None => {
                let found = format!("node {node}, which tree {tree} does not have");
                return Err(OpError::AttributeValue { name: names.node_ids, found });
            }
        }
    }
    Ok(votes)
}

/// The test of a mode; none for a leaf.
fn test(mode: &str) -> Result<Option<Test>, OpError> {
    Ok(Some(match mode {
        "BRANCH_LEQ" => Test::Leq,
        "BRANCH_LT" => Test::Lt,
        "BRANCH_GTE" => Test::Gte,
        "BRANCH_GT" => Test::Gt,
        "BRANCH_EQ" => Test::Eq,
        "BRANCH_NEQ" => Test::Neq,
        "LEAF" => return Ok(None),
        other => {
            let found = other.to_owned();
            return Err(OpError::AttributeValue { name: "nodes_modes", found });
        }
    }))
}
