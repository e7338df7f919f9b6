//! Trees whose branches and leaves have positions: `TreeEnsemble`.

// collects are bounded: as long as the file's lists

use ort_graph::{NodeSpec, OpError};

use super::attrs::{expect_len, index, ints, missing_tracks, read_n_targets, tensor};
use super::{Branch, Child, Forest, Node, Parts, Test, Vote, in_range};

/// The trees of the attributes.
///
/// # Errors
/// If parallel attributes differ in length, or do not form trees.
pub(crate) fn read_by_index(spec: &NodeSpec<'_>) -> Result<Forest, OpError> {
    spec.ignore("nodes_hitrates");
    let n_targets = read_n_targets(spec)?;
    let (tests, n_sets) = read_tests(spec)?;
    let branches = read_branches(spec, &tests)?;
    let sets = read_sets(spec, n_sets)?;
    let targets = spec.ints("leaf_targetids")?.unwrap_or_default();
    let weights = required(spec, "leaf_weights", targets.len())?;
    let vote = |(leaf, (&target, weight)): (usize, (&i64, f64))| {
        Ok((leaf, Vote { target: index("leaf_targetids", target)?, weight }))
    };
    let votes = targets.iter().zip(weights).enumerate().map(vote);
    let votes = votes.collect::<Result<_, OpError>>()?;
    let roots = spec.ints("tree_roots")?.unwrap_or_default();
    let root = |&root: &i64| {
        let at = index("tree_roots", root)? as usize;
        in_range("the roots of trees", at, branches.len())?;
        // A tree of one leaf is a branch with that leaf on both sides.
        match (branches[at].if_true, branches[at].if_false) {
            (a, b) if a == b && matches!(a.node(), Node::Leaf(_)) => Ok(a),
            _ => Child::to(Node::Branch(at)),
        }
    };
    let roots = roots.iter().map(root).collect::<Result<_, _>>()?;
    Forest::new(Parts { branches, sets, votes, n_leaves: targets.len(), roots, n_targets })
}

/// The tests in the order of the branches, and how many sets they need.
fn read_tests(spec: &NodeSpec<'_>) -> Result<(Vec<Test>, usize), OpError> {
    let name = "nodes_modes";
    let modes = spec.tensor(name)?.ok_or(OpError::MissingAttribute { name })?;
    let mut n_sets = 0;
    let test = |&mode: &u8| {
        Ok(match mode {
            0 => Test::Leq,
            1 => Test::Lt,
            2 => Test::Gte,
            3 => Test::Gt,
            4 => Test::Eq,
            5 => Test::Neq,
            6 => {
                n_sets += 1;
                Test::Member(n_sets - 1)
            }
            other => return Err(OpError::AttributeValue { name, found: other.to_string() }),
        })
    };
    let tests = modes.as_slice::<u8>()?.iter().map(test).collect::<Result<_, _>>()?;
    Ok((tests, n_sets as usize))
}

fn read_branches(spec: &NodeSpec<'_>, tests: &[Test]) -> Result<Vec<Branch>, OpError> {
    let n = tests.len();
    let thresholds = required(spec, "nodes_splits", n)?;
    let features = ints(spec, "nodes_featureids", n)?;
    let tracks = missing_tracks(spec, n)?;
    let if_true = read_children(spec, "nodes_truenodeids", "nodes_trueleafs", n)?;
    let if_false = read_children(spec, "nodes_falsenodeids", "nodes_falseleafs", n)?;
    let branch = |i: usize| {
        Ok(Branch {
            threshold: thresholds[i],
            feature: index("nodes_featureids", features[i])?,
            test: tests[i],
            is_nan_true: tracks[i],
            if_true: if_true[i],
            if_false: if_false[i],
        })
    };
    (0..n).map(branch).collect()
}

/// The children on one side.
fn read_children(
    spec: &NodeSpec<'_>,
    ids: &'static str,
    are_leaves: &'static str,
    n: usize,
) -> Result<Vec<Child>, OpError> {
    let pairs = ints(spec, ids, n)?.iter().zip(ints(spec, are_leaves, n)?);
    let child = |(&id, &is_leaf): (&i64, &i64)| {
        let at = index(ids, id)? as usize;
        Child::to(if is_leaf == 0 { Node::Branch(at) } else { Node::Leaf(at) })
    };
    pairs.map(child).collect()
}

/// The sets in `membership_values`, separated by NaN (optionally with one at the end).
fn read_sets(spec: &NodeSpec<'_>, n_sets: usize) -> Result<Vec<Vec<f64>>, OpError> {
    let values = tensor(spec, "membership_values")?.unwrap_or_default();
    let mut sets: Vec<Vec<f64>> = values
        .split(|value| value.is_nan())
        // Adding zero makes -0 the same as 0.
        .map(|set| set.iter().map(|value| value + 0.0).collect())
        .collect();
    if sets.last().is_some_and(Vec::is_empty) {
        sets.pop();
    }
    expect_len("membership_values", sets.len(), n_sets)?;
    Ok(sets)
}

/// The floats of a required tensor, as many as expected.
fn required(spec: &NodeSpec<'_>, name: &'static str, n: usize) -> Result<Vec<f64>, OpError> {
    let values = tensor(spec, name)?.ok_or(OpError::MissingAttribute { name })?;
    expect_len(name, values.len(), n)?;
    Ok(values)
}
