"""Convolutions that the models do not contain, recurrent networks and matrix products."""

from __future__ import annotations

from collections.abc import Callable

from .elementwise import Description, Family
from .node import Node, Operands


def convolutions() -> Family:
    """Convolutions, each with one size."""
    found = {}
    small = (1, 64, 28, 28)
    for k, pad in ((2, 0), (4, 1)):
        how = {"strides": [2, 2], "pads": [pad] * 4}
        found[f"ConvTranspose {k}x{k}"] = fixed("ConvTranspose", [small], [(64, 32, k, k)], how)
    shapes = {
        "1-D": ((1, 64, 512), (64, 64, 5), {"pads": [2, 2]}),
        "3-D": ((1, 16, 16, 28, 28), (32, 16, 3, 3, 3), {"pads": [1] * 6}),
        "dilated": (small, (64, 64, 3, 3), {"pads": [2] * 4, "dilations": [2, 2]}),
        "4 groups": (small, (64, 16, 3, 3), {"pads": [1] * 4, "group": 4}),
        "patches": ((1, 3, 224, 224), (64, 3, 16, 16), {"strides": [16, 16]}),
        "batch of 8": ((8, 64, 14, 14), (64, 64, 3, 3), {"pads": [1] * 4}),
    }
    for name, (x, w, how) in shapes.items():
        found[f"Conv {name}"] = fixed("Conv", [x], [w], how)
    return found


def fixed(op: str, feed: list[tuple], constants: list[tuple], how: dict):
    """A node that has the same size for every operand."""

    def described(d: Operands) -> Node:
        return Node(op, [d.values(x) for x in feed], [d.values(x) for x in constants], how)

    described.has_one_size = True
    return described


def of_one_size(made: Callable[[], dict[str, Node]]) -> Callable[[], Family]:
    """A family of fixed nodes, each with one type and size."""

    def family() -> Family:
        return {name: described(node) for name, node in made().items()}

    def described(node: Node) -> Description:
        describe = lambda _: node
        describe.dtype, describe.has_one_size = node.feed[0].dtype, True
        return describe

    family.__name__ = f"{made.__name__} of one size"
    return family


def steps() -> Family:
    """Recurrent networks and products."""
    found = {}
    for op, n_gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        weights = [(1, n_gates * 128, 64), (1, n_gates * 128, 128)]
        for batch in (1, 8):
            how = {"hidden_size": 128}
            found[f"{op} batch {batch}"] = fixed(op, [(50, batch, 64)], weights, how)
    heads = [(12, 128, 32), (12, 32, 128)]
    found["Einsum"] = fixed("Einsum", heads, [], {"equation": "bik,bkj->bij"})
    found["Gemm"] = fixed("Gemm", [(64, 256)], [(512, 256), (512,)], {"transB": 1})
    found["MatMul"] = fixed("MatMul", [(64, 256)], [(256, 512)], {})
    return found
