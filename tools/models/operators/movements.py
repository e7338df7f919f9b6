"""Data movement, and generators."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from .elementwise import Description, Family
from .axes import ints
from .node import Node, Operands


def indices(high: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(2).integers(0, high, shape)


def flags(n: int) -> np.ndarray:
    return np.random.default_rng(3).random(n) > 0.5


def of_image(op: str, constants: list = [], outputs: int = 1, opset: int = 20, **how: object) -> Description:
    return lambda d: Node(op, [d.values(d.image)], constants, how, opset, outputs)


def copies() -> Family:
    """Copies in an order determined by shapes."""
    found = {"Identity": of_image("Identity"), "Reshape": of_image("Reshape", [ints(-1)])}
    for perm in ((0, 2, 3, 1), (0, 2, 1, 3), (0, 1, 3, 2), (3, 2, 1, 0)):
        found[f"Transpose {''.join(map(str, perm))}"] = of_image("Transpose", perm=perm)
    for axis in (1, 3):
        found[f"Concat {axis}"] = lambda d, axis=axis: Node(
            "Concat", [d.values(d.image), d.values(d.image, "any", 1)], [], {"axis": axis}
        )
        found[f"Split {axis}"] = of_image("Split", outputs=2, axis=axis, num_outputs=2)
    found["Slice"] = of_image("Slice", [ints(3, 3), ints(-3, -3), ints(2, 3)])
    found["Slice 2nd"] = of_image("Slice", [ints(0), ints(1 << 30), ints(3), ints(2)])
    for mode in ("constant", "reflect", "edge", "wrap"):
        pads = [ints(0, 0, 2, 2, 0, 0, 2, 2)]
        found[f"Pad {mode}"] = of_image("Pad", pads, mode=mode)
    found["Tile"] = lambda d: Node("Tile", [d.values(d.image)], [ints(1, 1, 1, 2)])
    for name, kept in (("channels", (1,)), ("rows", (3,)), ("outer", (0, 1, 2))):
        found[f"Expand {name}"] = lambda d, kept=kept: Node(
            "Expand",
            [d.values(tuple(n if i in kept else 1 for i, n in enumerate(d.image)))],
            [ints(*d.image)],
        )
    found["Expand of 8"] = lambda d: Node(
        "Expand", [d.values((d.n // 8, 1))], [ints(d.n // 8, 8)]
    )
    for op in ("DepthToSpace", "SpaceToDepth"):
        found[op] = lambda d, op=op: Node(op, [d.values(even(d))], [], {"blocksize": 2})
    found["Trilu"] = of_image("Trilu")
    found["ReverseSequence"] = lambda d: Node(
        "ReverseSequence", [d.values((64, d.n // 1024, 16))], [ints(*[64] * (d.n // 1024))]
    )
    return found


def even(d: Operands) -> tuple[int, ...]:
    n, c, h, w = d.image
    return (n, c, h // 2 * 2, w // 2 * 2)


def gathers() -> Family:
    """Copies in an order determined by other operands."""
    found = {}
    for n in (1, 16, 256):
        found[f"Gather rows of {n}"] = lambda d, n=n: Node(
            "Gather", [d.values(d.rows(n)), indices(d.n // n, (d.n // n,))]
        )
    found["GatherElements"] = lambda d: Node(
        "GatherElements", [d.values(d.image), indices(d.image[3], d.image)], [], {"axis": 3}
    )
    found["GatherND"] = lambda d: Node(
        "GatherND", [d.values(d.rows(16)), indices(d.n // 16, (d.n // 16, 1))]
    )
    for op, how in (("ScatterElements", "none"), ("ScatterElements add", "add")):
        found[op] = lambda d, how=how: Node(
            "ScatterElements",
            [d.values(d.rows(64)), indices(64, d.rows(64)), d.values(d.rows(64), "any", 1)],
            [],
            {"axis": 1, "reduction": how},
        )
    for n in (1, 16):
        found[f"ScatterND rows of {n}"] = lambda d, n=n: Node(
            "ScatterND",
            [d.values(d.rows(n)), indices(d.n // n, (d.n // n, 1)), d.values(d.rows(n), "any", 1)],
        )
    found["Compress"] = lambda d: Node("Compress", [d.values((d.n,)), flags(d.n)])
    found["Compress rows"] = lambda d: Node(
        "Compress", [d.values(d.rows(16)), flags(d.n // 16)], [], {"axis": 0}
    )
    found["NonZero"] = lambda d: Node("NonZero", [d.values(d.image) * (d.values(d.image) > 2)])
    found["Unique"] = lambda d: Node("Unique", [d.values((d.n,))], outputs=4)
    found["OneHot"] = lambda d: Node(
        "OneHot",
        [indices(64, (d.n // 64,)), np.array(64, "i8"), np.array([0, 1]).astype(d.dtype)],
    )
    return found


def fills() -> Family:
    """Generators, whose output size follows from an operand."""
    fill = lambda d: numpy_helper.from_array(np.ones(1, d.dtype))
    return {
        "Range": lambda d: Node(
            "Range", [d.scalar(0), d.scalar(min(d.n, 30000)), d.scalar(1)]
        ),
        "ConstantOfShape": lambda d: Node(
            "ConstantOfShape", [ints(*d.image)], [], {"value": fill(d)}
        ),
        "EyeLike": lambda d: Node("EyeLike", [d.values(d.rows(128))]),
    }
