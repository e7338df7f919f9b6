//! Random forests against `eval`: every form, type, test and aggregate, few samples and many.

use ort_graph::Attr;
use ort_tensor::{Element, Number, Tensor, bf16, f16};

use crate::case::{Case, exact};

/// A node of a random tree: by its number in its tree.
struct Node {
    feature: i64,
    /// A comparison; 6 is a set, and none a leaf.
    mode: Option<usize>,
    value: f32,
    children: [usize; 2],
    tracks_nan: bool,
}

const MODES: [&str; 6] =
    ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];
const N_FEATURES: usize = 5;

/// Numbers without an obvious pattern.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    /// A small half, or zero of either sign.
    fn half(&mut self) -> f32 {
        [-1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5][self.below(8)]
    }
}

/// What forests are made of.
#[derive(Clone, Copy)]
struct Shape {
    n_trees: usize,
    /// Branches of a tree.
    n_branches: usize,
    n_modes: usize,
    n_targets: usize,
}

/// A tree whose branches may share what is below them.
fn tree(draw: &mut Draw, shape: Shape) -> Vec<Node> {
    let n = shape.n_branches;
    let node = |i: usize| {
        let mode = (i < n).then(|| draw.below(shape.n_modes));
        let spread = if draw.below(8) == 0 { 2 * n + 1 - i } else { 2 };
        // A child is below its parent, and often right below.
        let mut child = || (i + 1 + draw.below(spread)).min(2 * n);
        Node {
            children: [child(), child()],
            mode,
            feature: draw.below(N_FEATURES).try_into().unwrap(),
            value: draw.half(),
            tracks_nan: draw.below(3) == 0,
        }
    };
    (0..=2 * n).map(node).collect()
}

fn int(n: usize) -> i64 {
    n.try_into().unwrap()
}

fn strings(values: impl Iterator<Item = &'static str>) -> Attr {
    Attr::Strings(values.map(str::to_owned).collect())
}

/// Nodes and votes by ids; leaves have up to `most` votes.
fn by_id(case: Case, draw: &mut Draw, shape: Shape, (prefix, most): (&str, usize)) -> Case {
    let trees: Vec<_> = (0..shape.n_trees).map(|_| tree(draw, shape)).collect();
    let nodes: Vec<_> = trees
        .iter()
        .enumerate()
        .flat_map(|(t, tree)| tree.iter().enumerate().map(move |(i, node)| (int(t), i, node)))
        .collect();
    let ints = |of: &dyn Fn(i64, usize, &Node) -> i64| {
        Attr::Ints(nodes.iter().map(|&(tree, i, node)| of(tree, i, node)).collect())
    };
    let mut votes = Vec::new();
    for &(tree, i, _) in nodes.iter().filter(|node| node.2.mode.is_none()) {
        for _ in 0..most.min(1 + draw.below(most)) {
            votes.push((tree, int(i), int(draw.below(shape.n_targets)), draw.half() + 0.1));
        }
    }
    let vote = |of: fn(&(i64, i64, i64, f32)) -> i64| Attr::Ints(votes.iter().map(of).collect());
    let mode = |node: &Node| node.mode.map_or("LEAF", |mode| MODES[mode]);
    case.domain("ai.onnx.ml")
        .attr("nodes_treeids", ints(&|tree, _, _| tree))
        .attr("nodes_nodeids", ints(&|_, i, _| int(i)))
        .attr("nodes_featureids", ints(&|_, _, node| node.feature))
        .attr("nodes_modes", strings(nodes.iter().map(|node| mode(node.2))))
        .attr("nodes_values", Attr::Floats(nodes.iter().map(|node| node.2.value).collect()))
        .attr("nodes_truenodeids", ints(&|_, _, node| int(node.children[0])))
        .attr("nodes_falsenodeids", ints(&|_, _, node| int(node.children[1])))
        .attr("nodes_missing_value_tracks_true", ints(&|_, _, node| node.tracks_nan.into()))
        .attr(&format!("{prefix}_treeids"), vote(|vote| vote.0))
        .attr(&format!("{prefix}_nodeids"), vote(|vote| vote.1))
        .attr(&format!("{prefix}_ids"), vote(|vote| vote.2))
        .attr(&format!("{prefix}_weights"), Attr::Floats(votes.iter().map(|v| v.3).collect()))
}

fn regressor(draw: &mut Draw, shape: Shape, by: &str, most: usize) -> Case {
    let case = Case::new("TreeEnsembleRegressor", 3)
        .attr("n_targets", Attr::Int(int(shape.n_targets)))
        .attr("aggregate_function", Attr::String(by.into()))
        .attr("base_values", Attr::Floats(vec![0.3; shape.n_targets]));
    by_id(case, draw, shape, ("target", most))
}

/// Features, a fifth of them missing if there are such.
fn features<T: Element + Number>(draw: &mut Draw, n: usize) -> Tensor {
    let mut feature = || match draw.below(5) {
        0 => T::from_f64(f64::NAN),
        _ => T::from_f64(f64::from(draw.half())),
    };
    let data: Vec<T> = (0..n * N_FEATURES).map(|_| feature()).collect();
    Tensor::from_slice(&[n, N_FEATURES], &data).unwrap()
}

#[test]
fn regressors_of_every_aggregate_give_what_eval_gives() {
    let mut draw = Draw(1);
    for by in ["SUM", "AVERAGE", "MIN", "MAX"] {
        for (n_targets, most, n_branches) in [(1, 1, 6), (3, 3, 4), (1, 2, 0)] {
            for n in [0, 1, 7, 8, 21, 300] {
                let shape = Shape { n_trees: 35, n_branches, n_modes: 6, n_targets };
                let case = regressor(&mut draw, shape, by, most);
                case.input(features::<f32>(&mut draw, n)).check(exact);
            }
        }
    }
}

#[test]
fn features_of_every_type_are_compared_as_they_are() {
    let mut draw = Draw(2);
    let shape = Shape { n_trees: 9, n_branches: 7, n_modes: 6, n_targets: 2 };
    let features: [fn(&mut Draw, usize) -> Tensor; 6] = [
        features::<f32>,
        features::<f64>,
        features::<f16>,
        features::<bf16>,
        features::<i32>,
        features::<i64>,
    ];
    for features in features {
        let case = regressor(&mut draw, shape, "SUM", 2);
        case.input(features(&mut draw, 43)).check(exact);
    }
}

#[test]
fn threads_share_many_samples_or_the_trees_of_few() {
    let mut draw = Draw(3);
    for (n_trees, n) in [(3, 5000), (600, 5), (600, 17)] {
        let shape = Shape { n_trees, n_branches: 60, n_modes: 6, n_targets: 1 };
        let case = regressor(&mut draw, shape, "SUM", 1);
        case.input(features::<f32>(&mut draw, n)).check(exact);
    }
}

#[test]
fn classifiers_have_labels_and_scores() {
    let mut draw = Draw(4);
    for (n_targets, most) in [(1, 1), (2, 1), (2, 2), (4, 2)] {
        for unwanted in [&[][..], &[0], &[1]] {
            let shape = Shape { n_trees: 10, n_branches: 5, n_modes: 4, n_targets };
            let case = Case::new("TreeEnsembleClassifier", 3)
                .attr("classlabels_int64s", Attr::Ints((0..int(n_targets)).collect()))
                .attr("post_transform", Attr::String("SOFTMAX".into()));
            let case = by_id(case, &mut draw, shape, ("class", most)).outputs(2);
            case.unwanted(unwanted).input(features::<f32>(&mut draw, 30)).check(exact);
        }
    }
}

/// `TreeEnsemble`: nodes by their places, sets for every seventh of them.
fn ensemble<T: Element + Number>(draw: &mut Draw, shape: Shape, by: i64) -> Case {
    let trees: Vec<_> = (0..shape.n_trees).map(|_| tree(draw, shape)).collect();
    let n = shape.n_branches;
    let nodes: Vec<_> = trees
        .iter()
        .enumerate()
        .flat_map(|(t, tree)| tree.iter().take(n).map(move |node| (t, node)))
        .collect();
    let child = |side: usize, of: fn(usize, usize, bool) -> i64| {
        let child = |&(tree, node): &(usize, &Node)| {
            let child = node.children[side];
            // Leaves are numbered from the last branch of their tree on.
            of(tree, child, child >= n)
        };
        Attr::Ints(nodes.iter().map(child).collect())
    };
    let id = |tree, child, is_leaf| {
        let shape = if is_leaf { 61 * tree + child - 60 } else { 60 * tree + child };
        int(shape)
    };
    let floats = |values: Vec<f32>| {
        let values: Vec<T> = values.into_iter().map(|x| T::from_f64(f64::from(x))).collect();
        Attr::Tensor(Tensor::from_slice(&[values.len()], &values).unwrap())
    };
    let modes: Vec<u8> = nodes.iter().map(|(_, n)| n.mode.unwrap().try_into().unwrap()).collect();
    let n_sets = modes.iter().filter(|&&mode| mode == 6).count();
    let sets = (0..n_sets).flat_map(|_| {
        (0..=draw.below(9)).map(|_| draw.half()).chain([f32::NAN]).collect::<Vec<_>>()
    });
    let sets: Vec<f32> = sets.collect();
    let n_leaves = (n + 1) * shape.n_trees;
    Case::new("TreeEnsemble", 5)
        .domain("ai.onnx.ml")
        .attr("nodes_featureids", Attr::Ints(nodes.iter().map(|node| node.1.feature).collect()))
        .attr("nodes_modes", Attr::Tensor(Tensor::from_slice(&[modes.len()], &modes).unwrap()))
        .attr("nodes_splits", floats(nodes.iter().map(|node| node.1.value).collect()))
        .attr("nodes_truenodeids", child(0, id))
        .attr("nodes_trueleafs", child(0, |_, _, is_leaf| is_leaf.into()))
        .attr("nodes_falsenodeids", child(1, id))
        .attr("nodes_falseleafs", child(1, |_, _, is_leaf| is_leaf.into()))
        .attr(
            "nodes_missing_value_tracks_true",
            Attr::Ints(nodes.iter().map(|node| node.1.tracks_nan.into()).collect()),
        )
        .attr("membership_values", floats(sets))
        .attr(
            "leaf_targetids",
            Attr::Ints((0..n_leaves).map(|i| int(i % shape.n_targets)).collect()),
        )
        .attr("leaf_weights", floats((0..n_leaves).map(|_| draw.half() + 0.25).collect()))
        .attr("tree_roots", Attr::Ints((0..shape.n_trees).map(|tree| int(60 * tree)).collect()))
        .attr("aggregate_function", Attr::Int(by))
        .attr("n_targets", Attr::Int(int(shape.n_targets)))
}

#[test]
fn sets_are_searched_in_every_type() {
    let mut draw = Draw(5);
    for by in 0..4 {
        for n_targets in [1, 2] {
            let shape = Shape { n_trees: 6, n_branches: 60, n_modes: 7, n_targets };
            let case = ensemble::<f32>(&mut draw, shape, by);
            case.input(features::<f32>(&mut draw, 100)).check(exact);
            let case = ensemble::<f64>(&mut draw, shape, by);
            case.input(features::<f64>(&mut draw, 100)).check(exact);
            let case = ensemble::<f16>(&mut draw, shape, by);
            case.input(features::<f16>(&mut draw, 100)).check(exact);
        }
    }
}
