"""Window operators, and sampling at coordinates."""

from __future__ import annotations

import numpy as np

from .elementwise import Family
from .movements import even, of_image
from .axes import ints
from .node import Node, Operands


def pools() -> Family:
    """Pools, and their inverses."""
    found = {}
    for op in ("MaxPool", "AveragePool", "LpPool"):
        for k, stride in ((3, 1), (3, 2), (5, 1), (7, 3)):
            how = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [k // 2] * 4}
            found[f"{op} {k}x{k}/{stride}"] = of_image(op, **how)

    def unpool(d: Operands) -> Node:
        n, c, h, w = even(d)
        half = (n, c, h // 2, w // 2)
        corners = np.arange(n * c * h * w).reshape(n, c, h, w)[:, :, ::2, ::2]
        how = {"kernel_shape": [2, 2], "strides": [2, 2]}
        return Node("MaxUnpool", [d.values(half), corners.astype("i8")], [], how)

    def col2im(d: Operands) -> Node:
        n, c, h, w = d.image
        x = d.values((1, c // 4 * 9, h * w))
        return Node("Col2Im", [x], [ints(h, w), ints(3, 3)], {"pads": [1] * 4})

    return found | {"MaxUnpool": unpool, "Col2Im": col2im}


def regions(d: Operands, n: int) -> np.ndarray:
    h, w = d.image[2:]
    corners = np.random.default_rng(4).uniform(0, 0.5, (n, 2))
    return (np.hstack([corners, corners + 0.4]) * [w, h, w, h]).astype(d.dtype)


def samples() -> Family:
    """Sampling at coordinates between elements."""
    found = {}
    for mode in ("linear", "nearest", "cubic"):
        found[f"GridSample {mode}"] = lambda d, mode=mode: Node(
            "GridSample",
            [d.values(d.image), d.values((1, *d.image[2:], 2), "fraction")],
            [],
            {"mode": mode},
            22,
        )
    modes = (("nearest", "asymmetric"), ("linear", "half_pixel"), ("cubic", "half_pixel"))
    for mode, coordinates in modes:
        twice = [None, np.array([1, 1, 2, 2], "f4")]
        how = {"mode": mode, "coordinate_transformation_mode": coordinates}
        found[f"Resize {mode}"] = of_image("Resize", twice, **how)
        found[f"Resize {mode} down"] = of_image(
            "Resize", [None, np.array([1, 1, 0.6, 0.6], "f4")], **how
        )
    for mode in ("avg", "max"):
        found[f"RoiAlign {mode}"] = lambda d, mode=mode: Node(
            "RoiAlign",
            [d.values(d.image), regions(d, 20)],
            [ints(*[0] * 20)],
            {"mode": mode, "output_height": 7, "output_width": 7, "sampling_ratio": 2},
        )
    found["MaxRoiPool"] = lambda d: Node(
        "MaxRoiPool",
        [d.values(d.image), np.hstack([np.zeros((20, 1), d.dtype), regions(d, 20)])],
        [],
        {"pooled_shape": [7, 7]},
    )

    def deformed(d: Operands) -> Node:
        n, c, h, w = d.image
        operands = [d.values(d.image), d.values((16, c, 3, 3)), d.values((n, 18, h, w), "fraction")]
        return Node("DeformConv", operands, [], {"pads": [1] * 4, "kernel_shape": [3, 3]}, 22)

    found["DeformConv"] = deformed
    found["AffineGrid"] = lambda d: Node(
        "AffineGrid", [d.values((1, 2, 3))], [ints(*d.image)]
    )
    found["Det"] = lambda d: Node("Det", [d.values((d.n // 16, 4, 4))])
    return found
