"""Reductions, and functions along an axis."""

from __future__ import annotations

import numpy as np

from .elementwise import Family
from .node import Node, Operands

MICROSOFT = "com.microsoft"


def ints(*values: int) -> np.ndarray:
    return np.array(values, "i8")


def reductions() -> Family:
    """Reductions along one or more axes."""
    found = {}
    for op in "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split():
        for axes in ((1,), (3,), (1, 3), (0, 1, 2, 3)):
            name = f"Reduce{op} {','.join(map(str, axes))}"
            kind = "positive" if op == "LogSum" else "any"
            found[name] = lambda d, op=op, axes=axes, kind=kind: Node(
                f"Reduce{op}", [d.values(d.image, kind)], [ints(*axes)]
            )
    for op in ("ArgMax", "ArgMin"):
        for axis in (1, 3):
            found[f"{op} {axis}"] = lambda d, op=op, axis=axis: Node(
                op, [d.values(d.image)], [], {"axis": axis}
            )
    for n in (1000, 64):
        found[f"TopK 5 of {n}"] = lambda d, n=n: Node(
            "TopK", [d.values(d.rows(n))], [ints(5)], outputs=2
        )
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        found[op] = lambda d, op=op: Node(op, [d.values(d.image)])
    return found


def normal(op: str, n: int, n_constants: int = 1, domain: str = "", **more: object) -> Family:
    """A normalization over rows of n, with constants of n elements."""

    def described(d: Operands) -> Node:
        constants = [d.values((n,), "positive", i) for i in range(n_constants)]
        return Node(op, [d.values(d.rows(n))], constants, domain=domain, **more)

    return {f"{op} {n}": described}


def skips(op: str, n: int) -> Family:
    def described(d: Operands) -> Node:
        shape = (1, *d.rows(n))
        return Node(op, [d.values(shape), d.values(shape, "any", 1)], [d.values((n,))], domain=MICROSOFT)

    return {f"{op} {n}": described}


def normalizations() -> Family:
    """Normalizations along an axis, and cumulative sums."""
    found = {}
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        found[f"{op} 1"] = lambda d, op=op: Node(op, [d.values(d.image)], [], {"axis": 1})
        for n in (10, 64, 1000):
            found[f"{op} {n}"] = lambda d, op=op, n=n: Node(op, [d.values(d.rows(n))])
    for op in ("CumSum", "CumProd"):
        for axis in (1, 3):
            found[f"{op} {axis}"] = lambda d, op=op, axis=axis: Node(
                op, [d.values(d.image)], [np.array(axis, "i8")], opset=26 if op == "CumProd" else 20
            )
    for n in (56, 384, 4096):
        found |= normal("LayerNormalization", n, 2)
        found |= normal("RMSNormalization", n, opset=23)
        found |= normal("SimplifiedLayerNormalization", n)
        found |= skips("SkipLayerNormalization", n) | skips("SkipSimplifiedLayerNormalization", n)
    for op in ("InstanceNormalization", "BatchNormalization", "GroupNormalization"):
        n = 4 if op == "BatchNormalization" else 2
        how = {"num_groups": 8} if op == "GroupNormalization" else {}
        found[op] = lambda d, op=op, n=n, how=how: Node(
            op,
            [d.values(d.image)],
            [d.values(d.image[1:2], "positive", i) for i in range(n)],
            how,
            21,
        )
    for n in (64, 1000):
        found[f"BatchNormalization rows of {n}"] = lambda d, n=n: Node(
            "BatchNormalization",
            [d.values(d.rows(n))],
            [d.values((n,), "positive", i) for i in range(4)],
            opset=21,
        )
    for axis in (1, 3):
        found[f"LpNormalization {axis}"] = lambda d, axis=axis: Node(
            "LpNormalization", [d.values(d.image)], [], {"axis": axis}
        )
    found["MeanVarianceNormalization"] = lambda d: Node(
        "MeanVarianceNormalization", [d.values(d.image)]
    )
    found["LRN"] = lambda d: Node("LRN", [d.values(d.image)], [], {"size": 5})
    return found
