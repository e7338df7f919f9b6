"""Batch normalization at inference: its statistics, and folding it into convolutions."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
from onnx import helper

from .graph import Graph


def fake_images(rng, batch, height, width):
    """Image-like noise (most of its energy at low frequencies), normalized per image."""

    def lerp(size, points):  # [size, points]: linear interpolation between `points` samples
        position = np.linspace(0, points - 1, size)
        return np.maximum(0, 1 - np.abs(position[:, None] - np.arange(points)))

    image = rng.standard_normal((batch, 3, height, width)) * 0.1
    for points in (3, 6, 12, 24, 48):
        grid = rng.standard_normal((batch, 3, points, points)) * (3 / points) ** 0.5
        image += lerp(height, points) @ grid @ lerp(width, points).T
    image -= image.mean((1, 2, 3), keepdims=True)
    return (image / image.std((1, 2, 3), keepdims=True)).astype(np.float32)


def run_node(node, values, opset):
    """Runs one node with onnxruntime and stores its outputs in `values`."""
    typed = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(values[n].dtype), values[n].shape
        )
        for n in dict.fromkeys(node.input)
        if n
    ]
    outputs = [helper.make_empty_tensor_value_info(n) for n in node.output]
    model = helper.make_model(
        helper.make_graph([node], "node", typed, outputs),
        ir_version=8,
        opset_imports=[helper.make_opsetid("", opset)],
    )
    session = ort.InferenceSession(model.SerializeToString(), one_thread())
    results = session.run(None, {t.name: values[t.name] for t in typed})
    values.update(zip(node.output, results))


def one_thread() -> ort.SessionOptions:
    """Options with a fixed order of sums, so that the generated weights are reproducible."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options


def calibrate_batchnorms(g: Graph, feeds):
    """Sets each BatchNormalization's running statistics to those of its input on `feeds`.

    So normalization works as in a trained network: activations keep a reasonable range in
    networks of any depth.
    """
    values = {**g.initializers, **feeds}
    for node in g.nodes:
        if node.op_type == "BatchNormalization":
            x = values[node.input[0]].astype(np.float64)
            for name, stat in zip(node.input[3:], (x.mean((0, 2, 3)), x.var((0, 2, 3)))):
                values[name] = g.initializers[name] = stat.astype(np.float32)
        run_node(node, values, g.opset)


def fold_batchnorms(g: Graph, rename):
    """Folds each BatchNormalization into the Conv before it.

    `rename(conv_weight_name)` gives the names of the folded (weight, bias).
    """
    producer = {n.output[0]: n for n in g.nodes}
    kept = []
    for node in g.nodes:
        if node.op_type != "BatchNormalization":
            kept.append(node)
            continue
        conv = producer[node.input[0]]
        gamma, beta, mean, var = (g.initializers.pop(n) for n in node.input[1:])
        eps = helper.get_node_attr_value(node, "epsilon")
        scale = gamma / np.sqrt(var + eps)
        old = conv.input[1]
        weight, bias = rename(old)
        folded = g.initializers.pop(old) * scale[:, None, None, None]
        g.initializers[weight] = folded.astype(np.float32)
        g.initializers[bias] = (beta - mean * scale).astype(np.float32)
        conv.input[:] = [conv.input[0], weight, bias]
        for later in g.nodes:  # readers of the BatchNormalization now read the Conv
            later.input[:] = [conv.output[0] if i == node.output[0] else i for i in later.input]
    g.nodes = kept
