//! Random decision trees: nested, walked by recursion, and written as the attributes of a node.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::{Draw, signed};
use super::linear::eighths;
use super::{Array, Cell, Sample};

/// A decision tree.
#[derive(Clone)]
pub(super) enum Tree {
    /// Votes: targets and weights.
    Leaf(Vec<(usize, f32)>),
    Branch(Box<Branch>),
}

#[derive(Clone)]
pub(super) struct Branch {
    feature: usize,
    test: Test,
    /// Whether a missing value always passes.
    is_missing_true: bool,
    if_true: Tree,
    if_false: Tree,
}

#[derive(Clone)]
enum Test {
    /// A comparison by its name, and the number on its right.
    Compare(&'static str, f32),
    Member(Vec<f32>),
}

/// In the order of their numbers.
const COMPARISONS: [&str; 6] = ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"];

impl Tree {
    /// A tree of at most `depth` branches, over features and targets below these numbers.
    fn draw(draw: &mut Draw, depth: usize, shape: &Shape) -> Self {
        if depth == 0 || draw.one_in(4) {
            let n = if shape.has_sets { 1 } else { draw.below(3) };
            let least = if shape.is_positive { 0 } else { -32 };
            let weights = eighths(draw, n, least);
            return Tree::Leaf(weights.into_iter().map(|w| (shape.target(draw), w)).collect());
        }
        let n_members = draw.below(4);
        let half = |draw: &mut Draw| eighths(draw, 1, -32)[0].round() / 2.0;
        let test = match shape.has_sets && draw.one_in(3) {
            true => Test::Member((0..=n_members).map(|_| half(draw)).collect()),
            false => Test::Compare(draw.pick(&COMPARISONS), half(draw)),
        };
        Tree::Branch(Box::new(Branch {
            feature: draw.below(shape.n_features),
            test,
            is_missing_true: draw.one_in(3),
            if_true: Self::draw(draw, depth - 1, shape),
            if_false: Self::draw(draw, depth - 1, shape),
        }))
    }

    /// The votes of a sample's leaf.
    pub(super) fn votes(&self, x: &[f64]) -> &[(usize, f32)] {
        match self {
            Tree::Leaf(votes) => votes,
            Tree::Branch(branch) => {
                let x_i = x[branch.feature];
                let is_missing = x_i.is_nan() && branch.is_missing_true;
                let is_true = is_missing || branch.test.holds(x_i);
                if is_true { branch.if_true.votes(x) } else { branch.if_false.votes(x) }
            }
        }
    }

    /// The votes of all leaves.
    pub(super) fn all_votes(&self) -> Vec<(usize, f32)> {
        match self {
            Tree::Leaf(votes) => votes.clone(),
            Tree::Branch(it) => [it.if_true.all_votes(), it.if_false.all_votes()].concat(),
        }
    }
}

impl Test {
    fn holds(&self, x: f64) -> bool {
        match self {
            Test::Member(set) => set.iter().any(|&member| x == f64::from(member)),
            Test::Compare(name, threshold) => {
                let threshold = f64::from(*threshold);
                match *name {
                    "LEQ" => x <= threshold,
                    "LT" => x < threshold,
                    "GTE" => x >= threshold,
                    "GT" => x > threshold,
                    "EQ" => x == threshold,
                    _ => x != threshold,
                }
            }
        }
    }

    fn threshold(&self) -> f32 {
        match self {
            Test::Compare(_, threshold) => *threshold,
            Test::Member(_) => 0.0,
        }
    }
}

/// The parameters of random trees.
pub(super) struct Shape {
    pub(super) n_features: usize,
    pub(super) n_targets: usize,
    /// As in TreeEnsemble: branches may look features up in sets, and a leaf has one vote.
    pub(super) has_sets: bool,
    /// Whether no weight is negative.
    pub(super) is_positive: bool,
    /// The only target that has votes, if there is one.
    pub(super) only: Option<usize>,
}

impl Shape {
    fn target(&self, draw: &mut Draw) -> usize {
        self.only.unwrap_or_else(|| draw.below(self.n_targets))
    }

    /// One, two or four trees, so that averages of eighths are exact.
    pub(super) fn forest(&self, draw: &mut Draw) -> Vec<Tree> {
        let n = draw.pick(&[1, 2, 4]);
        (0..n).map(|_| Tree::draw(draw, 3, self)).collect()
    }
}

/// A node of a tree in the form of the attributes with ids.
struct Row<'a> {
    tree: i64,
    id: i64,
    tree_node: &'a Tree,
    /// The ids of the children.
    children: [i64; 2],
}

/// The nodes of a tree, the root first; ids are in no order.
fn rows<'a>(draw: &mut Draw, tree: i64, root: &'a Tree) -> Vec<Row<'a>> {
    let mut nodes = vec![root];
    let mut children = Vec::new();
    let mut at = 0;
    while at < nodes.len() {
        children.push([nodes.len(), nodes.len() + 1]);
        if let Tree::Branch(branch) = nodes[at] {
            nodes.extend([&branch.if_true, &branch.if_false]);
        }
        at += 1;
    }
    let ids: Vec<_> = draw.permutation(nodes.len() + 2).into_iter().map(signed).collect();
    let row = |(at, (tree_node, children)): (usize, (&'a Tree, [usize; 2]))| {
        // A leaf has unused child ids.
        let children = match tree_node {
            Tree::Leaf(_) => [0; 2],
            Tree::Branch(_) => children.map(|child| ids[child]),
        };
        Row { tree, id: ids[at], tree_node, children }
    };
    let mut rows: Vec<_> = nodes.into_iter().zip(children).enumerate().map(row).collect();
    let order = draw.permutation(rows.len() - 1);
    let rest = rows.split_off(1);
    let mut rest: Vec<_> = rest.into_iter().zip(order).collect();
    rest.sort_by_key(|(_, place)| *place);
    rows.extend(rest.into_iter().map(|(row, _)| row));
    rows
}

/// Floats as an attribute, or from version 3 on as a tensor attribute.
pub(super) fn floats(draw: &mut Draw, sample: Sample, name: &str, values: Vec<f32>) -> Sample {
    if draw.version < 3 || draw.one_in(2) {
        return sample.attr(name, Attr::Floats(values));
    }
    let dtype = draw.pick(&[DType::F32, DType::F64]);
    sample.attr(&format!("{name}_as_tensor"), Attr::Tensor(tensor(dtype, &values)))
}

fn tensor(dtype: DType, values: &[f32]) -> Tensor {
    let cells = values.iter().map(|&value| Cell::Float(value.into())).collect();
    Array { shape: vec![values.len()], cells }.to_tensor(dtype)
}

/// Trees in the form of TreeEnsembleClassifier (`votes` is `class`) and TreeEnsembleRegressor (`target`).
pub(super) fn by_id(draw: &mut Draw, sample: Sample, forest: &[Tree], votes: &str) -> Sample {
    let tree_ids = draw.permutation(forest.len() + 1);
    let rows: Vec<_> =
        forest.iter().zip(tree_ids).flat_map(|(tree, id)| rows(draw, signed(id), tree)).collect();
    let ints = |of: &dyn Fn(&Row<'_>) -> i64| Attr::Ints(rows.iter().map(of).collect());
    fn branch<'a>(row: &Row<'a>) -> Option<&'a Branch> {
        match row.tree_node {
            Tree::Branch(branch) => Some(branch),
            Tree::Leaf(_) => None,
        }
    }
    let mode = |row: &Row<'_>| match branch(row).map(|branch| &branch.test) {
        Some(Test::Compare(name, _)) => format!("BRANCH_{name}"),
        _ => "LEAF".to_owned(),
    };
    let thresholds =
        rows.iter().map(|row| branch(row).map_or(0.0, |it| it.test.threshold())).collect();
    let cast: Vec<_> = rows
        .iter()
        .flat_map(|row| match row.tree_node {
            Tree::Leaf(votes) => votes.iter().map(|vote| (row.tree, row.id, *vote)).collect(),
            Tree::Branch(_) => Vec::new(),
        })
        .collect();
    let sample = sample
        .attr("nodes_treeids", ints(&|row| row.tree))
        .attr("nodes_nodeids", ints(&|row| row.id))
        .attr("nodes_modes", Attr::Strings(rows.iter().map(mode).collect()))
        .attr("nodes_featureids", ints(&|row| branch(row).map_or(0, |it| signed(it.feature))))
        .attr("nodes_truenodeids", ints(&|row| row.children[0]))
        .attr("nodes_falsenodeids", ints(&|row| row.children[1]))
        .attr(
            "nodes_missing_value_tracks_true",
            ints(&|row| branch(row).is_some_and(|it| it.is_missing_true).into()),
        )
        .attr(&format!("{votes}_ids"), Attr::Ints(cast.iter().map(|it| signed(it.2.0)).collect()))
        .attr(&format!("{votes}_treeids"), Attr::Ints(cast.iter().map(|it| it.0).collect()))
        .attr(&format!("{votes}_nodeids"), Attr::Ints(cast.iter().map(|it| it.1).collect()));
    let sample = floats(draw, sample, "nodes_values", thresholds);
    let weights = cast.iter().map(|it| it.2.1).collect();
    floats(draw, sample, &format!("{votes}_weights"), weights)
}

/// Trees in the form of TreeEnsemble: arrays of branches and of leaves.
#[derive(Default)]
struct Flat<'a> {
    branches: Vec<(&'a Branch, [(i64, bool); 2])>,
    leaves: Vec<(usize, f32)>,
}

impl<'a> Flat<'a> {
    /// Adds a tree, and returns the index of its root, and whether it is a leaf.
    fn add(&mut self, tree: &'a Tree) -> (i64, bool) {
        match tree {
            Tree::Leaf(votes) => {
                self.leaves.push(votes[0]);
                (signed(self.leaves.len() - 1), true)
            }
            Tree::Branch(branch) => {
                let at = self.branches.len();
                self.branches.push((branch, [(0, false); 2]));
                // The branch precedes its children.
                let children = [self.add(&branch.if_true), self.add(&branch.if_false)];
                self.branches[at].1 = children;
                (signed(at), false)
            }
        }
    }
}

/// Trees in the form of TreeEnsemble, where a tree has at least a branch.
pub(super) fn by_index(sample: Sample, dtype: DType, forest: &[Tree]) -> Sample {
    // A single leaf is on both sides of a branch.
    let branch = |tree: &Tree| match tree {
        Tree::Leaf(_) => Tree::Branch(Box::new(Branch {
            feature: 0,
            test: Test::Compare("LEQ", 0.0),
            is_missing_true: false,
            if_true: tree.clone(),
            if_false: tree.clone(),
        })),
        Tree::Branch(_) => tree.clone(),
    };
    let forest: Vec<_> = forest.iter().map(branch).collect();
    let mut flat = Flat::default();
    let roots = forest.iter().map(|tree| flat.add(tree).0).collect();
    let Flat { branches, leaves } = flat;
    let mode = |test: &Test| match test {
        Test::Compare(name, _) => COMPARISONS.iter().position(|it| it == name).unwrap(),
        Test::Member(_) => COMPARISONS.len(),
    };
    let modes: Vec<_> =
        branches.iter().map(|(it, _)| u8::try_from(mode(&it.test)).unwrap()).collect();
    let thresholds: Vec<_> = branches.iter().map(|(it, _)| it.test.threshold()).collect();
    let sets = branches.iter().filter_map(|(it, _)| match &it.test {
        Test::Member(set) => Some([&set[..], &[f32::NAN]].concat()),
        Test::Compare(..) => None,
    });
    let sets: Vec<_> = sets.flatten().collect();
    let weights: Vec<_> = leaves.iter().map(|leaf| leaf.1).collect();
    let ints = |of: &dyn Fn(&Branch, &[(i64, bool); 2]) -> i64| {
        Attr::Ints(branches.iter().map(|(branch, children)| of(branch, children)).collect())
    };
    let floats = |values: &[f32]| Attr::Tensor(tensor(dtype, values));
    sample
        .attr("tree_roots", Attr::Ints(roots))
        .attr("nodes_modes", Attr::Tensor(Tensor::from_slice(&[modes.len()], &modes).unwrap()))
        .attr("nodes_splits", floats(&thresholds))
        .attr("nodes_featureids", ints(&|it, _| signed(it.feature)))
        .attr("nodes_missing_value_tracks_true", ints(&|it, _| it.is_missing_true.into()))
        .attr("nodes_truenodeids", ints(&|_, children| children[0].0))
        .attr("nodes_trueleafs", ints(&|_, children| children[0].1.into()))
        .attr("nodes_falsenodeids", ints(&|_, children| children[1].0))
        .attr("nodes_falseleafs", ints(&|_, children| children[1].1.into()))
        .attr("leaf_targetids", Attr::Ints(leaves.iter().map(|it| signed(it.0)).collect()))
        .attr("leaf_weights", floats(&weights))
        .maybe("membership_values", (!sets.is_empty()).then(|| floats(&sets)))
}
