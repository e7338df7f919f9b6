//! Small trees by hand, and malicious trees.

use ort_graph::Attr;
use ort_tensor::{DType, Number, Tensor};

use crate::case::{Case, tensor};

/// `TreeEnsemble` nodes as they are written: feature, mode, split, (id, is a leaf) twice.
type Node = (i64, u8, f64, (i64, i64), (i64, i64));

fn ensemble(dtype: DType, nodes: &[Node], leaves: &[(i64, f64)], roots: &[i64]) -> Case {
    let floats = |values: Vec<f64>| {
        let values: Vec<f32> = values.into_iter().map(f32::from_f64).collect();
        let doubles: Vec<f64> = values.iter().copied().map(f64::from).collect();
        let shape = [values.len()];
        Attr::Tensor(match dtype {
            DType::F64 => tensor(&shape, &doubles),
            _ => tensor(&shape, &values),
        })
    };
    let ints = |of: fn(&Node) -> i64| Attr::Ints(nodes.iter().map(of).collect());
    let modes: Vec<u8> = nodes.iter().map(|node| node.1).collect();
    Case::new("TreeEnsemble", 5)
        .domain("ai.onnx.ml")
        .attr("nodes_featureids", ints(|node| node.0))
        .attr("nodes_modes", Attr::Tensor(tensor(&[modes.len()], &modes)))
        .attr("nodes_splits", floats(nodes.iter().map(|node| node.2).collect()))
        .attr("nodes_truenodeids", ints(|node| node.3.0))
        .attr("nodes_trueleafs", ints(|node| node.3.1))
        .attr("nodes_falsenodeids", ints(|node| node.4.0))
        .attr("nodes_falseleafs", ints(|node| node.4.1))
        .attr("leaf_targetids", Attr::Ints(leaves.iter().map(|leaf| leaf.0).collect()))
        .attr("leaf_weights", floats(leaves.iter().map(|leaf| leaf.1).collect()))
        .attr("tree_roots", Attr::Ints(roots.to_vec()))
        .attr("n_targets", Attr::Int(1))
}

/// One branch, whose true side is 1 and whose false side is 0.
fn branch(mode: u8, split: f64) -> Case {
    ensemble(DType::F32, &[(0, mode, split, (0, 1), (1, 1))], &[(0, 1.0), (0, 0.0)], &[0])
}

fn scores(case: &Case, x: &[f32]) -> Result<Vec<f32>, String> {
    let y = case.tensor(&[tensor(&[x.len(), 1], x)])?;
    Ok(y.as_slice().unwrap().to_vec())
}

#[test]
fn a_branch_is_half_a_cache_line() {
    assert_eq!(size_of::<super::Branch>(), 32);
}

#[test]
fn each_mode_is_its_comparison_and_nan_passes_only_neq() {
    let x = [1.0, 2.0, 3.0, f32::NAN];
    let cases = [
        [1.0, 1.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 1.0, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [1.0, 0.0, 1.0, 1.0],
    ];
    for (mode, expected) in (0_u8..).zip(cases) {
        assert_eq!(scores(&branch(mode, 2.0), &x), Ok(expected.to_vec()), "{mode}");
        let tracked =
            branch(mode, 2.0).attr("nodes_missing_value_tracks_true", Attr::Ints(vec![1]));
        let [a, b, c, _] = expected;
        assert_eq!(scores(&tracked, &x), Ok(vec![a, b, c, 1.0]), "{mode}");
    }
    let error = scores(&branch(7, 2.0), &x).unwrap_err();
    assert_eq!(error, "attribute `nodes_modes` has the unsupported value 7");
}

#[test]
fn a_member_is_exactly_in_the_set() {
    let nan = f32::NAN;
    let sets = |values: &[f32]| {
        let values = Attr::Tensor(tensor(&[values.len()], values));
        branch(6, 0.0).attr("membership_values", values)
    };
    let x = [-3.0, -0.8, 0.0, -0.0, 2.0, 2.5, nan];
    let expected = vec![1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0];
    for set in [&[2.0, -3.0, -0.0, nan][..], &[-3.0, 0.0, 2.0]] {
        assert_eq!(scores(&sets(set), &x), Ok(expected.clone()));
    }
    for wrong in [&[][..], &[1.0, nan, 2.0], &[1.0, nan, 2.0, nan]] {
        assert!(scores(&sets(wrong), &x).is_err());
    }
}

#[test]
fn votes_are_aggregated_over_trees() {
    // Two trees that are leaves, and one that is a branch.
    let nodes =
        [(0, 0, 0.0, (0, 1), (0, 1)), (0, 0, 0.0, (1, 1), (1, 1)), (0, 1, 0.0, (0, 1), (2, 1))];
    let leaves = [(0, 1.0), (0, 6.0), (0, -4.0)];
    for (function, expected) in
        [(0, [1.0_f32, 8.0 / 3.0]), (1, [3.0, 8.0]), (2, [-4.0, 1.0]), (3, [6.0; 2])]
    {
        let case = ensemble(DType::F32, &nodes, &leaves, &[0, 1, 2])
            .attr("aggregate_function", Attr::Int(function));
        assert_eq!(scores(&case, &[0.5, -0.5]), Ok(expected.to_vec()));
    }
}

#[test]
fn transforms_are_numbered_as_in_the_specification() {
    let nodes = [(0, 0, 0.0, (0, 1), (0, 1)), (0, 0, 0.0, (1, 1), (1, 1))];
    let case = |transform: i64| {
        ensemble(DType::F32, &nodes, &[(0, 90.0), (1, 90.0)], &[0, 1])
            .attr("n_targets", Attr::Int(2))
            .attr("post_transform", Attr::Int(transform))
    };
    // None, softmax, logistic, softmax without zeros.
    for (transform, expected) in [(0, 90.0), (1, 0.5), (2, 1.0), (3, 0.5)] {
        assert_eq!(scores(&case(transform), &[0.0]), Ok(vec![expected; 2]), "{transform}");
    }
    assert!(scores(&case(5), &[0.0]).is_err());
}

#[test]
fn scores_have_the_type_of_the_features() {
    let node = [(1, 0, 0.1, (0, 1), (1, 1))];
    let case = ensemble(DType::F64, &node, &[(0, 0.5), (0, 2.0)], &[0]);
    let x = tensor(&[1, 2], &[0.0, f64::from(0.1_f32) + 1e-12]);
    assert_eq!(case.tensor(&[x]), Ok(tensor(&[1, 1], &[2.0_f64])));
    let halves = Tensor::zeros(DType::F16, &[3, 2]).unwrap();
    assert_eq!(case.tensor(&[halves]).unwrap().dtype(), DType::F16);
    let error = case.tensor(&[tensor(&[1, 1], &[0.0_f64])]).unwrap_err();
    assert_eq!(error, "the features of a sample and those of the trees: [1] does not fit [2]");
    assert!(case.tensor(&[tensor(&[1, 2], &[0_i64, 0])]).is_err());
}

#[test]
fn hostile_trees_are_refused() {
    let leaves = [(0, 1.0)];
    let cases: [(&[Node], &[i64]); 8] = [
        // A node that is its own child, two that are each other's, and one that does not exist.
        (&[(0, 0, 0.0, (0, 0), (0, 1))], &[0]),
        (&[(0, 0, 0.0, (1, 0), (0, 1)), (0, 0, 0.0, (0, 1), (0, 0))], &[0]),
        (&[(0, 0, 0.0, (1, 0), (0, 1))], &[0]),
        (&[(0, 0, 0.0, (0, 1), (1, 1))], &[0]),
        (&[(0, 0, 0.0, (-1, 1), (0, 1))], &[0]),
        // Roots and features that do not exist.
        (&[(0, 0, 0.0, (0, 1), (0, 1))], &[1]),
        (&[(0, 0, 0.0, (0, 1), (0, 1))], &[-1]),
        (&[(-1, 0, 0.0, (0, 1), (0, 1))], &[0]),
    ];
    for (i, (nodes, roots)) in cases.iter().enumerate() {
        assert!(scores(&ensemble(DType::F32, nodes, &leaves, roots), &[0.0]).is_err(), "case {i}");
    }
    for n_targets in [0, -1, i64::MIN, i64::MAX] {
        let case = branch(0, 0.0).attr("n_targets", Attr::Int(n_targets));
        assert!(scores(&case, &[0.0]).is_err(), "{n_targets}");
    }
    let elsewhere = ensemble(DType::F32, &[(0, 0, 0.0, (0, 1), (0, 1))], &[(1, 1.0)], &[0]);
    let error = scores(&elsewhere, &[0.0]).unwrap_err();
    assert_eq!(error, "the targets of a tree: index 1 is out of range for 1 elements");
}

#[test]
fn a_chain_of_any_depth_is_walked_and_children_may_be_shared() {
    let n = 100_000;
    let nodes: Vec<Node> =
        (1..=n).map(|i| (0, 4, 0.0, (0, 1), if i < n { (i, 0) } else { (1, 1) })).collect();
    let case = ensemble(DType::F32, &nodes, &[(0, 1.0), (0, 2.0)], &[0]);
    assert_eq!(scores(&case, &[0.0, 1.0]), Ok(vec![1.0, 2.0]));
    // Each branch leads to the next on both sides: 2^40 paths, 40 branches.
    let nodes: Vec<Node> = (1..=40)
        .map(|i| if i < 40 { (0, 0, 0.0, (i, 0), (i, 0)) } else { (0, 0, 0.0, (0, 1), (1, 1)) })
        .collect();
    let case = ensemble(DType::F32, &nodes, &[(0, 1.0), (0, 2.0)], &[0]);
    assert_eq!(scores(&case, &[0.0, 1.0]), Ok(vec![1.0, 2.0]));
}

proptest::proptest! {
    #[test]
    fn any_indices_are_refused_or_walked(
        nodes in proptest::collection::vec(
            (-1..3_i64, 0..6_u8, -1.0..1.0, (-1..6_i64, 0..2_i64), (-1..6_i64, 0..2_i64)),
            1..6,
        ),
        leaves in proptest::collection::vec((0..2_i64, -1.0..1.0), 1..6),
        root in 0..6_i64,
    ) {
        let case = ensemble(DType::F32, &nodes, &leaves, &[root]);
        if let Ok(y) = case.tensor(&[tensor(&[2, 3], &[-0.5_f32, 0.0, 0.5, 1.0, f32::NAN, -2.0])]) {
            let weights: Vec<f32> = leaves.iter().map(|leaf| f32::from_f64(leaf.1)).collect();
            let scores = y.as_slice::<f32>().unwrap();
            proptest::prop_assert!(scores.iter().all(|score| weights.contains(score)));
        }
    }
}
