//! Every body computes what the operator's `eval` computes.

use ort_graph::{Graph, Node};
use ort_ops::registry;

use super::PASS;
use crate::interpreter;
use crate::testing::{assert_equivalent, parse};
use crate::{lower_for_onnx_runtime, lower_to_opset};

/// The graph of one statement, lowered: none of the functions remains, and the results are the same.
fn assert_lowered(inputs: &str, outputs: &str, statements: &str, opset: i64) {
    let before = parse(&format!("graph({inputs}) -> ({outputs}) {{\n{statements}\n}}"));
    let (after, left) = lower_for_onnx_runtime(before.clone(), &registry(), Some(opset)).unwrap();
    assert!(left.is_empty(), "{left:?}\n{before}\n{after}");
    after.verify().unwrap();
    assert_equivalent(&before, &after, PASS.exactness);
}

#[test]
fn losses_of_every_reduction_with_and_without_weights_and_an_ignored_class() {
    let labels = [("3", "[0, 2, 1]", "3,4"), ("2,3", "[0, 3, 1, 1, 2, 0]", "2,4,3")];
    for (op_type, version, opset) in [
        ("NegativeLogLikelihoodLoss", 12, 12),
        ("NegativeLogLikelihoodLoss", 22, 22),
        ("SoftmaxCrossEntropyLoss", 12, 12),
        ("SoftmaxCrossEntropyLoss", 13, 17),
    ] {
        for (target, classes, x) in labels {
            for reduction in ["none", "sum", "mean"] {
                for ignored in ["", "ignore_index: 1, "] {
                    for weight in ["", ", weight"] {
                        let attrs = format!("[{ignored}reduction: \"{reduction}\"]");
                        let statements = format!(
                            "target = const int64[{target}] {classes}
                             loss = {op_type}-{version} {attrs} (x, target{weight})"
                        );
                        let inputs = format!("x: float[{x}], weight: float[4]");
                        assert_lowered(&inputs, "loss", &statements, opset);
                    }
                }
            }
        }
    }
    let statements = "target = const int32[3] [0, -7, 1]
                      loss, log = SoftmaxCrossEntropyLoss-13 [ignore_index: -7] (x, target)";
    assert_lowered("x: double[3,4]", "log, loss", statements, 13);
}

#[test]
fn crops_and_pads_of_some_and_all_axes() {
    for (axes, lengths) in [
        ("", "const int64[3] [3, 4, 7]"),
        ("[axes: [2]] ", "const int32[1] [6]"),
        ("[axes: [-1, 0]] ", "const int64[2] [2, 5]"),
    ] {
        let statements = format!("lengths = {lengths}\ny = CenterCropPad-18 {axes}(x, lengths)");
        assert_lowered("x: float[4,4,5]", "y", &statements, 18);
    }
}

#[test]
fn reductions_are_logarithms_of_sums_in_range_wherever_their_operands_are() {
    for op_type in ["ReduceLogSum", "ReduceLogSumExp"] {
        for (attrs, axes) in
            [("", ""), ("[keepdims: 0] ", ", axes"), ("[noop_with_empty_axes: 1] ", "")]
        {
            let statements = format!(
                "axes = const int64[1] [1]
                 positive = Exp-13 (x)
                 y = {op_type}-28 {attrs}(positive{axes})"
            );
            assert_lowered("x: float[3,4]", "y", &statements, 28);
            let huge = format!(
                "axes = const int64[1] [1]
                 factor = const float[4,1] [1000, 0, -1000, inf]
                 positive = Abs-13 (x)
                 large = Mul-14 (positive, factor)
                 y = {op_type}-28 {attrs}(large{axes})"
            );
            assert_lowered("x: float[4,4]", "y", &huge, 28);
        }
    }
}

#[test]
fn attention_is_written_out() {
    let heads = "q: float[2,2,3,4], k: float[2,1,5,4], v: float[2,1,5,6]";
    for attrs in [
        "",
        "left_window_size: 1, scale: 0.3",
        "right_window_size: 0, softcap: 2.0",
        "left_window_size: 0, right_window_size: 2, is_causal: 1",
        "is_causal: 1",
    ] {
        assert_lowered(heads, "y", &format!("y = Attention-25 [{attrs}] (q, k, v)"), 25);
        let lengths = "lengths = const int64[2] [5, 2]";
        let statements =
            format!("{lengths}\ny = Attention-25 [{attrs}] (q, k, v, _, _, _, lengths)");
        assert_lowered(heads, "y", &statements, 25);
        for mask in ["float[3,4]", "float[2,1,3,5]", "bool[3,4]", "bool[2,2,3,1]"] {
            let inputs = format!("{heads}, mask: {mask}");
            let statements = format!("y = Attention-25 [{attrs}] (q, k, v, mask)");
            assert_lowered(&inputs, "y", &statements, 25);
        }
        let comma = if attrs.is_empty() { "" } else { ", " };
        for mode in 0..4 {
            let inputs = format!("{heads}, pk: float[2,1,6,4], pv: float[2,1,6,6], m: float[11]");
            let statements = format!(
                "y, key, value, scores = Attention-25
                 [qk_matmul_output_mode: {mode}{comma}{attrs}] (q, k, v, m, pk, pv)"
            );
            assert_lowered(&inputs, "y, key, value, scores", &statements, 25);
        }
        let joined = "q: float[2,3,8], k: float[2,5,4], v: float[2,5,4]";
        let statements =
            format!("y = Attention-25 [q_num_heads: 2, kv_num_heads: 1{comma}{attrs}] (q, k, v)");
        assert_lowered(joined, "y", &statements, 25);
    }
}

#[test]
fn recurrences_are_those_of_onnx_runtime() {
    for rule in ["linear", "gated", "delta", "gated_delta"] {
        let inputs = "q: float[2,3,8], k: float[2,3,4], v: float[2,3,6], s: float[2,2,2,3],
                      decay: float[2,3,2], beta: float[2,3,2]";
        let (decay, beta) = (rule.starts_with("gated"), rule.ends_with("delta"));
        let (decay, beta) = (if decay { "decay" } else { "_" }, if beta { "beta" } else { "_" });
        let statements = format!(
            "y, state = LinearAttention-27
             [q_num_heads: 4, kv_num_heads: 2, update_rule: \"{rule}\"]
             (q, k, v, s, {decay}, {beta})"
        );
        assert_lowered(inputs, "y, state", &statements, 27);
    }
    let inputs = "x: float[2,3,5], w: float[3,1,4], b: float[3], s: float[2,3,3]";
    let statements = "y, state = CausalConvWithState-27 [activation: \"silu\"] (x, w, b, s)
                      z = CausalConvWithState-27 (x, w)";
    assert_lowered(inputs, "y, state, z", statements, 27);
}

#[test]
fn draws_are_zeros_and_ones_of_the_probability() {
    let text = "graph(x: float[1000]) -> (y, z) {
                  y = Bernoulli-22 [dtype: 6, seed: 2.0] (x)
                  z = Bernoulli-15 (x)
                }";
    let (graph, left) = lower_for_onnx_runtime(parse(text), &registry(), Some(22)).unwrap();
    assert!(left.is_empty());
    let x = ort_tensor::Tensor::from_slice(&[1000], &[0.25_f32; 1000]).unwrap();
    let y = interpreter::run(&graph, &[("x".to_owned(), x)]);
    let ones = y[0].as_slice::<i32>().unwrap().iter().sum::<i32>();
    assert!((150..350).contains(&ones), "{ones}");
    assert!(y[0].as_slice::<i32>().unwrap().iter().all(|y| [0, 1].contains(y)));
    assert!(y[1].as_slice::<f32>().unwrap().iter().all(|y| [0.0, 1.0].contains(y)));
}

#[test]
fn a_body_has_neither_copies_nor_dead_nodes() {
    let heads = "q: float[2,2,3,4], k: float[2,1,5,4], v: float[2,1,5,6]";
    for (outputs, n_copies) in [("y", 0), ("y, key", 1), ("y, _, _, scores", 0)] {
        let names = outputs.replace("_, ", "");
        let text = format!(
            "graph({heads}) -> ({names}) {{
               {outputs} = Attention-25 [qk_matmul_output_mode: 3, is_causal: 1] (q, k, v)
             }}"
        );
        let (after, _) = lower_for_onnx_runtime(parse(&text), &registry(), Some(25)).unwrap();
        let nodes = || after.node_ids().map(|id| after.node(id));
        let is_read = |node: &Node| node.outputs.iter().flatten().any(|&id| after.is_used(id));
        assert!(nodes().all(is_read), "{after}");
        // An output that is an input.
        let copies = nodes().filter(|node| node.op_type == "Identity");
        assert_eq!(copies.count(), n_copies, "{after}");
    }
}

#[test]
fn attention_that_a_pass_made_is_written_out_for_an_older_opset() {
    let text = "graph(q: float[b,4,s,3], k: float[b,2,t,3], v: float[b,2,t,3], l: float[b,4,t,3], m: float[b,1,s,t], n: float[b,1,s,u]) -> (x, y, z) {
           x = Attention-23 [scale: 0.5] (q, k, v, m)
           y = Attention-23 [scale: 0.5] (q, l, l)
           z = Attention-23 [scale: 0.5] (q, k, v, n)
         }";
    let before = parse(text);
    let is_newer = |graph: &Graph, opset: i64| {
        let is_newer = |node: &Node| i64::from(node.since_version) > opset;
        graph.node_ids().any(|id| is_newer(graph.node(id)))
    };
    for opset in [13, 14, 17, 19, 22] {
        let after = lower_to_opset(before.clone(), &registry(), Some(opset)).unwrap();
        assert!(!is_newer(&after, opset), "{opset}: {after}");
        after.verify().unwrap();
        assert_equivalent(&before, &after, PASS.exactness);
    }
    let same = lower_to_opset(before, &registry(), Some(23)).unwrap();
    assert_eq!(same.node_ids().count(), 3);
}

#[test]
fn the_channels_of_a_batch_normalization_return_to_the_second_axis() {
    for (version, opset) in [(9, 9), (15, 21)] {
        let statements = format!(
            "k = const float[3] [0.5, 1, 2]
             y = com.ms.internal.nhwc:BatchNormalization-{version} [epsilon: 0.25] (x, k, k, k, k)"
        );
        assert_lowered("x: float[2,4,5,3]", "y", &statements, opset);
        let before = parse(&format!("graph(x: float[2,4,5,3]) -> (y) {{ {statements} }}"));
        let after = lower_to_opset(before, &registry(), Some(opset)).unwrap();
        assert!(!after.to_string().contains("nhwc"), "{after}");
    }
}
