"""Pre- and postprocessing in the file of a network, and models that are not networks."""

from __future__ import annotations

import numpy as np

from .graph import FLOAT, INT64, Graph


def detect_post():
    """The thousand best of a detector's boxes, and non-maximum suppression among them."""
    boxes, classes, best = 8400, 80, 1000
    g = Graph("detect_post", opset=17, seed=61)
    coordinates = g.input("boxes", [1, boxes, 4])
    scores = g.input("scores", [1, classes, boxes])
    of_any_class = g.op("ReduceMax", scores, axes=[1], keepdims=0)
    top, which = g.op("TopK", of_any_class, g.const([best]), outputs=2, axis=1)
    of_boxes = g.op("Expand", g.unsqueeze(which, 2, ""), g.const([1, best, 4]))
    of_scores = g.op("Expand", g.unsqueeze(which, 1, ""), g.const([1, classes, best]))
    coordinates = g.op("GatherElements", coordinates, of_boxes, axis=1)
    scores = g.op("GatherElements", scores, of_scores, axis=2)
    limits = [g.const([20]), g.const([0.5]), g.const([0.3])]
    g.op("NonMaxSuppression", coordinates, scores, *limits, center_point_box=1, out="picked")
    g.output("picked", ["n", 3], INT64)
    g.op("Identity", top, out="top")
    g.output("top", [1, best])
    corners = [g.rng.uniform(*bounds, (1, boxes, 2)) for bounds in ((0, 640), (8, 160))]
    feed = {"boxes": np.concatenate(corners, axis=2), "scores": g.rng.random((1, classes, boxes)) ** 4}
    return g.model(), {name: x.astype(np.float32) for name, x in feed.items()}


def mel_frontend():
    """Three seconds of audio as logarithms of 80 mel bands."""
    window, step, bands, rate = 400, 160, 80, 16000
    g = Graph("mel_frontend", opset=17, seed=62)

    def number(value, dtype=np.int64) -> str:
        return g.folded("Constant", np.array(value, dtype))

    samples = g.unsqueeze(g.input("audio", ["batch", "samples"]), 2, "")
    hann = g.op("HannWindow", number(window))
    waves = g.op("STFT", samples, number(step), hann, number(window), onesided=1)
    power = g.op("ReduceSum", g.op("Mul", waves, waves), g.const([3]), keepdims=0)
    edges = [number(edge, np.float32) for edge in (0.0, rate / 2)]
    mel = g.op("MelWeightMatrix", number(bands), number(window), number(rate), *edges)
    energy = g.op("Max", g.op("MatMul", power, mel), g.const(1e-6))
    g.op("Log", energy, out="mel")
    g.output("mel", ["batch", "frames", bands])
    return g.model(), {"audio": g.normal((1, 3 * rate), 0.1)}


def forest():
    """Two hundred regression trees of depth 8."""
    trees, depth, features, rows = 200, 8, 64, 512
    g = Graph("forest", opset=17, seed=63)
    n_inner, n_nodes = 2**depth - 1, 2 ** (depth + 1) - 1
    # The nodes of a tree, level by level: those below node i are 2i + 1 and 2i + 2.
    tree, node = (part.ravel() for part in np.mgrid[:trees, :n_nodes])
    is_leaf = node >= n_inner
    below = np.where(is_leaf, 0, 2 * node + 1)
    columns = {
        "nodes_treeids": tree,
        "nodes_nodeids": node,
        "nodes_featureids": np.where(is_leaf, 0, g.rng.integers(features, size=node.size)),
        "nodes_values": np.where(is_leaf, 0, g.normal(node.size, 1.0)).astype(np.float32),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ"),
        "nodes_truenodeids": below,
        "nodes_falsenodeids": below + ~is_leaf,
        "target_treeids": tree[is_leaf],
        "target_nodeids": node[is_leaf],
        "target_ids": np.zeros(is_leaf.sum(), np.int64),
        "target_weights": g.normal(is_leaf.sum(), 1.0),
    }
    lists = {name: column.tolist() for name, column in columns.items()}
    x, options = g.input("x", ["rows", features], FLOAT), {"n_targets": 1, "aggregate_function": "SUM"}
    g.op("TreeEnsembleRegressor", x, out="y", domain="ai.onnx.ml", **options, **lists)
    g.output("y", ["rows", 1])
    return g.model(), {"x": g.normal((rows, features), 1.0)}
