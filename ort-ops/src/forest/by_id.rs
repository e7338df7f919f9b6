//! Trees whose nodes have ids: `TreeEnsembleClassifier` and `TreeEnsembleRegressor`.

use std::collections::HashMap;

use ort_graph::{NodeSpec, OpError};

use super::attrs::{expect_len, floats, index, ints, missing_tracks};
use super::{Branch, Child, Forest, Parts, Test, Vote};

/// What the attributes of the votes are called.
#[derive(Debug)]
pub(crate) struct Names {
    pub ids: &'static str,
    pub node_ids: &'static str,
    pub tree_ids: &'static str,
    pub weights: &'static str,
    pub weights_as_tensor: &'static str,
}

/// A node: a branch or a leaf by its position among those of its kind.
type Places = HashMap<(i64, i64), Child>;

/// The trees of the attributes. The root of a tree is its first node; a vote at a branch counts
/// nothing, as in ONNX Runtime (some converters write them).
///
/// # Errors
/// If attributes that stand side by side differ in length, or do not make trees.
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
    let leaves = read_votes(spec, names, &places, n_leaves)?;
    Forest::new(Parts { branches, sets: Vec::new(), leaves, roots, n_targets })
}

/// Where each node is, the first of each tree, and how many leaves there are.
fn places(
    tests: &[Option<Test>],
    tree_ids: &[i64],
    node_ids: &[i64],
) -> Result<(Places, Vec<Child>, usize), OpError> {
    let (mut n_branches, mut n_leaves) = (0_u32, 0_u32);
    let (mut places, mut roots) = (Places::with_capacity(tests.len()), Vec::new());
    let mut trees = std::collections::HashSet::new();
    for ((test, &tree), &node) in tests.iter().zip(tree_ids).zip(node_ids) {
        let n = if test.is_some() { &mut n_branches } else { &mut n_leaves };
        let place = if test.is_some() { Child::Branch(*n) } else { Child::Leaf(*n) };
        *n = n.checked_add(1).ok_or(OpError::TooLarge)?;
        if places.insert((tree, node), place).is_some() {
            let found = format!("node {node} of tree {tree} twice");
            return Err(OpError::AttributeValue { name: "nodes_nodeids", found });
        }
        if trees.insert(tree) {
            roots.push(place);
        }
    }
    Ok((places, roots, n_leaves as usize))
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
        let place = places.get(&(tree, node)).copied();
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

/// The votes of each leaf.
fn read_votes(
    spec: &NodeSpec<'_>,
    names: &Names,
    places: &Places,
    n_leaves: usize,
) -> Result<Vec<Vec<Vote>>, OpError> {
    let targets = spec.ints(names.ids)?.unwrap_or_default();
    let nodes = ints(spec, names.node_ids, targets.len())?;
    let trees = ints(spec, names.tree_ids, targets.len())?;
    let weights = floats(spec, names.weights, names.weights_as_tensor)?;
    expect_len(names.weights, weights.len(), targets.len())?;
    let mut leaves = vec![Vec::new(); n_leaves];
    for (((&target, &node), &tree), weight) in targets.iter().zip(nodes).zip(trees).zip(weights) {
        let target = index(names.ids, target)?;
        match places.get(&(tree, node)) {
            Some(&Child::Leaf(leaf)) => leaves[leaf as usize].push(Vote { target, weight }),
            Some(Child::Branch(_)) => {}
            None => {
                let found = format!("node {node}, which tree {tree} does not have");
                return Err(OpError::AttributeValue { name: names.node_ids, found });
            }
        }
    }
    Ok(leaves)
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
