//! Ensembles of decision trees: few samples of many trees, and many of few.

use super::super::net::{Net, Value, list};

/// The nodes of all trees, each an entry of every list, and the weights of leaves.
#[derive(Default)]
struct Nodes {
    trees: Vec<usize>,
    ids: Vec<usize>,
    features: Vec<usize>,
    values: Vec<String>,
    modes: Vec<&'static str>,
    children: [Vec<usize>; 2],
    targets: Vec<usize>,
    weights: Vec<String>,
    leaves: [Vec<usize>; 2],
}

/// A float literal from -1 to 1, which some samples equal.
fn number(net: &mut Net<'_>) -> String {
    let thousandths = net.draw.between(0, 2000);
    format!("{:?}", thousandths as f64 / 1000.0 - 1.0)
}

impl Nodes {
    /// A tree: each node that is not at the bottom has two children, or is a leaf one time in
    /// eight.
    fn tree(&mut self, net: &mut Net<'_>, tree: usize, sizes: [usize; 3]) {
        let [depth, n_features, n_targets] = sizes;
        // Nodes to be written, with their depths; the children of a node come later.
        let (mut open, mut next) = (vec![(0, depth)], 1);
        while let Some((id, depth)) = open.pop() {
            self.trees.push(tree);
            self.ids.push(id);
            let is_leaf = depth == 0 || net.draw.one_in(8);
            let mode = net.draw.pick(&["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"]);
            self.modes.push(if is_leaf { "LEAF" } else { mode });
            self.features.push(net.draw.between(0, n_features - 1));
            self.values.push(number(net));
            let children = if is_leaf { [0, 0] } else { [next, next + 1] };
            self.children.iter_mut().zip(children).for_each(|(list, child)| list.push(child));
            if is_leaf {
                self.leaves[0].push(tree);
                self.leaves[1].push(id);
                self.targets.push(net.draw.between(0, n_targets - 1));
                self.weights.push(number(net));
            } else {
                open.extend(children.map(|child| (child, depth - 1)));
                next += 2;
            }
        }
    }

    fn attributes(&self) -> String {
        let modes: Vec<String> = self.modes.iter().map(|mode| format!("{mode:?}")).collect();
        let [yes, no] = &self.children;
        let [trees, leaves] = &self.leaves;
        [
            ("nodes_treeids", list(&self.trees)),
            ("nodes_nodeids", list(&self.ids)),
            ("nodes_featureids", list(&self.features)),
            ("nodes_values", list(&self.values)),
            ("nodes_modes", list(&modes)),
            ("nodes_truenodeids", list(yes)),
            ("nodes_falsenodeids", list(no)),
            ("target_treeids", list(trees)),
            ("target_nodeids", list(leaves)),
            ("target_ids", list(&self.targets)),
            ("target_weights", list(&self.weights)),
        ]
        .map(|(name, values)| format!("{name}: [{values}]"))
        .join(", ")
    }
}

pub(super) fn regressor(net: &mut Net<'_>) -> Vec<Value> {
    let n_trees = net.draw.size(1, 60);
    let depth = net.draw.between(0, 6);
    let (n_features, n_targets) = (net.draw.size(1, 40), net.draw.between(1, 4));
    let n = net.draw.size(1, 2_000_000 / (n_trees * (depth + 1)).max(n_features * 20));
    let x = net.input(&[n, n_features]);
    let mut nodes = Nodes::default();
    for tree in 0..n_trees {
        nodes.tree(net, tree, [depth, n_features, n_targets]);
    }
    let how = net.draw.pick(&["SUM", "AVERAGE", "MIN", "MAX"]);
    let op = format!(
        "ai.onnx.ml:TreeEnsembleRegressor-3 [n_targets: {n_targets}, aggregate_function: {how:?}, {}]",
        nodes.attributes()
    );
    let name = net.node(&op, &[&x.name]);
    // Weights are summed in the same order.
    vec![Value { name, shape: vec![n, n_targets], size: 1.0, error: 0.0 }]
}
