"""Models of one operator each, on an image of 64 channels unless something else is usual."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .layout import Feed, publish
from .node_kinds import RNG, Node, normal
from .node_products import products
from .node_windows import convolutions, pools

IMAGE = (1, 64, 56, 56)
SMALL = (1, 64, 28, 28)


def positive(*shape: int) -> np.ndarray:
    return np.abs(normal(*shape)) + np.float32(0.1)


def fractions(*shape: int) -> np.ndarray:
    return RNG.uniform(-0.95, 0.95, shape).astype("f4")


def ints(*values: int) -> np.ndarray:
    return np.array(values, "i8")


def functions() -> dict[str, Node]:
    """Of one element."""
    anywhere = (
        "Abs Neg Floor Ceil Round Exp Erf Tanh Sigmoid HardSigmoid HardSwish Relu LeakyRelu Elu Selu Celu"
        " Softplus Softsign Mish Gelu Sin Cos Reciprocal ThresholdedRelu"
    )
    found = {op: Node(op, [normal(*IMAGE)]) for op in anywhere.split()}
    found |= {op: Node(op, [positive(*IMAGE)]) for op in ("Log", "Sqrt")}
    found |= {op: Node(op, [fractions(*IMAGE)]) for op in ("Asin", "Acos", "Atan")}
    bounds = [np.float32(-0.5), np.float32(0.5)]
    found["Clip"] = Node("Clip", [normal(*IMAGE)], bounds)
    found["PRelu"] = Node("PRelu", [normal(*IMAGE)], [normal(64, 1, 1)])
    for power in (0.5, 1.7, 2.0):
        found[f"Pow {power}"] = Node("Pow", [positive(*IMAGE)], [np.float32(power)])
    return found


def broadcasts() -> dict[str, Node]:
    """Of two operands, one of which may be smaller."""
    found = {}
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        found[op] = Node(op, [normal(*IMAGE), normal(*IMAGE)])
        found[f"{op} channels"] = Node(op, [normal(*IMAGE)], [normal(64, 1, 1)])
        found[f"{op} rows"] = Node(op, [normal(*IMAGE)], [normal(56)])
        found[f"{op} planes"] = Node(op, [normal(*IMAGE), normal(1, 1, 56, 56)])
        found[f"{op} outer"] = Node(op, [normal(64, 56, 56, 1), normal(1, 1, 1, 8)])
    flags = RNG.random(IMAGE) > 0.5
    found["Where"] = Node("Where", [flags, normal(*IMAGE), normal(*IMAGE)])
    return found


def reductions() -> dict[str, Node]:
    """To fewer elements, and over lanes."""
    found = {}
    for op in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp"):
        for axes in ((1,), (3,), (2, 3), (0, 1, 2, 3)):
            name = f"Reduce{op} {','.join(map(str, axes))}"
            found[name] = Node(f"Reduce{op}", [normal(*IMAGE)], [ints(*axes)])
    for axis in (1, 3):
        for op in ("ArgMax", "Softmax", "LogSoftmax"):
            found[f"{op} {axis}"] = Node(op, [normal(*IMAGE)], [], {"axis": axis})
        found[f"CumSum {axis}"] = Node("CumSum", [normal(*IMAGE)], [np.array(axis, "i8")])
    for rows, n in ((128, 384), (3584, 56)):
        operands = [normal(n), normal(n)]
        found[f"LayerNormalization {n}"] = Node("LayerNormalization", [normal(rows, n)], operands)
        found[f"RMSNormalization {n}"] = Node(
            "RMSNormalization", [normal(rows, n)], operands[:1], opset=23
        )
    channels = [normal(64), normal(64)]
    found["InstanceNormalization"] = Node("InstanceNormalization", [normal(*IMAGE)], channels)
    found["GroupNormalization"] = Node(
        "GroupNormalization", [normal(*IMAGE)], channels, {"num_groups": 8}, 21
    )
    found["BatchNormalization"] = Node(
        "BatchNormalization", [normal(*IMAGE)], [*channels, normal(64), positive(64)]
    )
    return found


def movements() -> dict[str, Node]:
    """To other places."""
    found = {}
    for perm in ((0, 2, 3, 1), (0, 2, 1, 3), (0, 1, 3, 2), (3, 2, 1, 0), (0, 3, 1, 2)):
        name = f"Transpose {''.join(map(str, perm))}"
        found[name] = Node("Transpose", [normal(*IMAGE)], [], {"perm": perm})
    found["Transpose heads"] = Node("Transpose", [normal(128, 12, 32)], [], {"perm": (1, 0, 2)})
    for axis in (1, 3):
        found[f"Concat {axis}"] = Node("Concat", [normal(*IMAGE)] * 2, [], {"axis": axis})
        halves = {"axis": axis, "num_outputs": 2}
        found[f"Split {axis}"] = Node("Split", [normal(*IMAGE)], [], halves, outputs=2)
    box = [ints(3, 3), ints(50, 50), ints(2, 3)]
    found["Slice"] = Node("Slice", [normal(*IMAGE)], box)
    every_second = [ints(0), ints(56), ints(3), ints(2)]
    found["Slice 2nd"] = Node("Slice", [normal(*IMAGE)], every_second)
    for mode in ("constant", "reflect", "edge"):
        found[f"Pad {mode}"] = Node(
            "Pad", [normal(*IMAGE)], [ints(0, 0, 2, 2, 0, 0, 2, 2)], {"mode": mode}
        )
    found["Tile"] = Node("Tile", [normal(*SMALL)], [ints(1, 1, 2, 2)])
    found["Expand channels"] = Node("Expand", [normal(1, 64, 1, 1)], [ints(*IMAGE)])
    found["Expand rows"] = Node("Expand", [normal(1, 1, 1, 56)], [ints(*IMAGE)])
    found["DepthToSpace"] = Node("DepthToSpace", [normal(*IMAGE)], [], {"blocksize": 2})
    found["SpaceToDepth"] = Node("SpaceToDepth", [normal(*IMAGE)], [], {"blocksize": 2})
    rows = RNG.integers(0, 30000, 128)
    found["Gather"] = Node("Gather", [normal(30000, 64)], [rows])
    places = RNG.integers(0, 56, IMAGE)
    found["GatherElements"] = Node("GatherElements", [normal(*IMAGE)], [places], {"axis": 3})
    twice = [None, np.array([1, 1, 2, 2], "f4")]
    modes = (("nearest", "asymmetric"), ("linear", "half_pixel"), ("cubic", "half_pixel"))
    for mode, coordinates in modes:
        how = {"mode": mode, "coordinate_transformation_mode": coordinates}
        found[f"Resize {mode}"] = Node("Resize", [normal(*SMALL)], twice, how)
    smaller = [None, None, ints(1, 3, 224, 224)]
    found["Resize down"] = Node("Resize", [normal(1, 3, 480, 640)], smaller, {"mode": "linear"})
    return found


def windows() -> dict[str, Node]:
    """Over neighbours, where convolutions are others than the models have."""
    found = {}
    for op in ("MaxPool", "AveragePool"):
        for k, stride in ((3, 1), (3, 2), (5, 1)):
            how = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [k // 2] * 4}
            found[f"{op} {k}x{k}/{stride}"] = Node(op, [normal(*IMAGE)], [], how)
    found["GlobalAveragePool"] = Node("GlobalAveragePool", [normal(*IMAGE)])
    for k, channels, pad in ((2, 32, 0), (4, 32, 1)):
        how = {"strides": [2, 2], "pads": [pad] * 4}
        filters = [normal(64, channels, k, k)]
        found[f"ConvTranspose {k}x{k}"] = Node("ConvTranspose", [normal(*SMALL)], filters, how)
    convolutions = {
        "1-D": ((1, 64, 512), (64, 64, 5), {"pads": [2, 2]}),
        "3-D": ((1, 16, 16, 28, 28), (32, 16, 3, 3, 3), {"pads": [1] * 6}),
        "dilated": (SMALL, (64, 64, 3, 3), {"pads": [2] * 4, "dilations": [2, 2]}),
        "4 groups": (SMALL, (64, 16, 3, 3), {"pads": [1] * 4, "group": 4}),
        "patches": ((1, 3, 224, 224), (64, 3, 16, 16), {"strides": [16, 16]}),
        "batch of 8": ((8, 64, 14, 14), (64, 64, 3, 3), {"pads": [1] * 4}),
    }
    for name, (x, w, how) in convolutions.items():
        found[f"Conv {name}"] = Node("Conv", [normal(*x)], [normal(*w)], how)
    return found


def steps() -> dict[str, Node]:
    """Recurrent networks and products."""
    found = {}
    for op, n_gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        weights = [normal(1, n_gates * 128, 64), normal(1, n_gates * 128, 128)]
        for batch in (1, 8):
            x = [normal(50, batch, 64)]
            found[f"{op} batch {batch}"] = Node(op, x, weights, {"hidden_size": 128})
    heads = [normal(12, 128, 32), normal(12, 128, 32)]
    found["Einsum"] = Node("Einsum", heads, [], {"equation": "bik,bjk->bij"})
    weights = [normal(512, 256), normal(512)]
    found["Gemm"] = Node("Gemm", [normal(64, 256)], weights, {"transB": 1})
    return found


# What makes the nodes of a family: name -> node.
FAMILIES = (
    functions,
    broadcasts,
    reductions,
    movements,
    windows,
    steps,
    products,
    convolutions,
    pools,
)


def model(node: Node) -> tuple[onnx.ModelProto, Feed]:
    """A model of one node and its inputs; what its outputs are is left to who reads it."""
    feed = {f"x{i}": x for i, x in enumerate(node.feed)}
    constants = {f"c{i}": x for i, x in enumerate(node.constants) if x is not None}
    names = [f"c{i}" if x is not None else "" for i, x in enumerate(node.constants)]
    outputs = [f"y{i}" for i in range(node.outputs)]
    made = helper.make_node(
        node.op, [*feed, *names], outputs, domain=node.domain, **node.attributes
    )
    dtype = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [made],
        node.op,
        [helper.make_tensor_value_info(name, dtype(x.dtype), x.shape) for name, x in feed.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )
    opsets = [helper.make_opsetid("", node.opset)]
    opsets += [helper.make_opsetid(node.domain, 1)] if node.domain else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feed


def case(node: Node, folder: Path) -> Path:
    """The folder of the model, which is made if it is not there."""
    if not (folder / "test_data_set_0/output_0.pb").exists():
        proto, feed = model(node)
        with tempfile.TemporaryDirectory() as scratch:
            onnx.save(proto, f"{scratch}/model.onnx")
            publish(Path(scratch) / "model.onnx", folder, feed)
    return folder
