"""Models for the tests, generated on the fly."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def model_of(nodes, inputs, outputs, initializers=(), opset=21, **metadata):
    """A model's bytes: inputs and outputs are `(name, element type, shape)`."""
    describe = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "the_graph",
        [describe(*it) if isinstance(it, tuple) else it for it in inputs],
        [describe(*it) if isinstance(it, tuple) else it for it in outputs],
        list(initializers),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    for key, value in metadata.items():
        if key == "props":
            helper.set_model_props(model, value)
        else:
            setattr(model, key, value)
    return model.SerializeToString()


def unary(op_type, element_type, shape=None, to=None, **attributes):
    """A model of one node from `x` to `y`."""
    node = helper.make_node(op_type, ["x"], ["y"], **attributes)
    return model_of([node], [("x", element_type, shape)], [("y", to or element_type, None)])


@pytest.fixture(scope="session")
def add():
    """z = x + y, of which x is 2x3 and y is nx3."""
    node = helper.make_node("Add", ["x", "y"], ["z"])
    return model_of([node], [("x", FLOAT, [2, 3]), ("y", FLOAT, ["n", 3])], [("z", FLOAT, None)])


@pytest.fixture(scope="session")
def two_outputs():
    """a = -x, b = |x|, with x of any length."""
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["b"])]
    return model_of(nodes, [("x", FLOAT, ["n"])], [("a", FLOAT, ["n"]), ("b", FLOAT, ["n"])])


@pytest.fixture(scope="session")
def slow():
    """A loop of `n` iterations of some work: long enough to be cancelled."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["m", "m"], ["square"]),
            helper.make_node("Clip", ["square", "low", "high"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("m", FLOAT, [64, 64]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", FLOAT, [64, 64]),
        ],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    limits = [
        onnx.numpy_helper.from_array(np.float32(-1.0), "low"),
        onnx.numpy_helper.from_array(np.float32(1.0), "high"),
    ]
    inputs = [("n", TensorProto.INT64, []), ("x", FLOAT, [64, 64])]
    return model_of([loop], inputs, [("y", FLOAT, [64, 64])], limits)
