"""Convolutions and pools with shapes that are uncommon in image networks."""

from __future__ import annotations

from .node_kinds import Node, normal


def conv(x: tuple, w: tuple, **how) -> Node:
    return Node("Conv", [normal(*x)], [normal(*w)], how)


def convolutions() -> dict[str, Node]:
    """Convolutions with few filters, with one group per channel, or with many dimensions."""
    made = {
        "depthwise 1x1": conv((1, 64, 56, 56), (64, 1, 1, 1), group=64),
        "depthwise 3-D": conv((1, 32, 16, 28, 28), (32, 1, 3, 3, 3), group=32, pads=[1] * 6),
        "7x7/2 of 1": conv((1, 1, 224, 224), (64, 1, 7, 7), strides=[2, 2], pads=[3] * 4),
        "5x5/3": conv((1, 32, 112, 112), (64, 32, 5, 5), strides=[3, 3], pads=[2] * 4),
        "dilated to 1": conv((1, 64, 56, 56), (1, 64, 3, 3), dilations=[2, 2], pads=[2] * 4),
        "shuffled groups": conv((1, 240, 28, 28), (240, 80, 1, 1), group=3),
    }
    x, w = (1, 16, 16, 28, 28), (32, 16, 3, 3, 3)
    made["3-D input"] = Node("Conv", [normal(*x), normal(*w)], [], {"pads": [1] * 6})
    for filters in (1, 2, 4, 8, 16):
        made[f"3x3 to {filters}"] = conv((1, 32, 64, 64), (filters, 32, 3, 3), pads=[1] * 4)
        made[f"1x1 to {filters}"] = conv((1, 64, 64, 64), (filters, 64, 1, 1))
        made[f"1-D to {filters}"] = conv((1, 1, 16000), (filters, 1, 25), pads=[12, 12])
    for c in (3, 5, 17, 33):
        made[f"3x3 odd {c}"] = conv((1, c, 56, 56), (c + 2, c, 3, 3), pads=[1] * 4)
    for c in (4, 8, 16, 32):
        made[f"1x39 of {c}"] = conv((1, c, 16, 512), (c, c, 1, 39), pads=[0, 19, 0, 19])
        made[f"39x1 of {c}"] = conv((1, c, 512, 16), (c, c, 39, 1), pads=[19, 0, 19, 0])
        made[f"3x39 of {c}"] = conv((1, c, 16, 512), (c, c, 3, 39), pads=[1, 19, 1, 19])
        made[f"5x5 of {c}"] = conv((1, c, 64, 64), (c, c, 5, 5), pads=[2] * 4)
    found = {f"Conv {name}": node for name, node in made.items()}
    how = {"group": 32, "strides": [3, 3]}
    found["ConvTranspose depthwise/3"] = Node(
        "ConvTranspose", [normal(1, 32, 28, 28)], [normal(32, 1, 3, 3)], how
    )
    return found


def pools() -> dict[str, Node]:
    """Pools of other sizes, ranks and types."""
    found = {}
    image, sizes = (1, 64, 56, 56), ((2, 2), (3, 2), (7, 3), (5, 5))
    for op in ("MaxPool", "AveragePool"):
        for k, stride in sizes:
            how = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [k // 2] * 4}
            for dtype in ("f4", "f8", "f2") if op == "MaxPool" else ("f4",):
                name = f"{op} {dtype} {k}x{k}/{stride}"
                found[name] = Node(op, [normal(*image).astype(dtype)], [], how)
        for rank in (1, 3):
            x = normal(1, 64, 4096) if rank == 1 else normal(1, 16, 16, 28, 28)
            how = {"kernel_shape": [3] * rank, "strides": [2] * rank}
            found[f"{op} {rank}-D"] = Node(op, [x], [], how)
    return found
