"""Convolutions outside blocks of channels.

Few filters, odd channels, tall kernels, groups, transposed convolutions, and one and three dimensions.
"""

from __future__ import annotations

import functools

from .node_kinds import Node, normal


def conv(
    x: str,
    filters: int,
    kernel: str,
    stride: int = 1,
    group: int = 1,
    dilation: int = 1,
    op: str = "Conv",
) -> Node:
    """`x` is CxW, CxHxW or CxDxHxW; padded so that the output has the input's size over the stride."""
    c, *spatial = map(int, x.split("x"))
    k = [int(edge) for edge in kernel.split("x")]
    weights = (c, filters // group, *k) if op == "ConvTranspose" else (filters, c // group, *k)
    if op == "ConvTranspose":
        pads = [max(edge - stride, 0) // 2 for edge in k]
        how = {"pads": pads + [max(edge - stride, 0) - pad for edge, pad in zip(k, pads)]}
    else:
        whole = [(edge - 1) * dilation for edge in k]
        how = {"pads": [edge // 2 for edge in whole] + [edge - edge // 2 for edge in whole]}
    how |= {"group": group, "strides": [stride] * len(k), "dilations": [dilation] * len(k)}
    return Node(op, [normal(1, c, *spatial)], [normal(*weights)], how)


def few_filters() -> dict[str, Node]:
    found = {}
    for filters in (1, 2, 3, 4, 6, 8, 12, 16):
        found[f"32x64x64 to {filters} 3x3"] = conv("32x64x64", filters, "3x3")
        found[f"64x96x96 to {filters} 1x1"] = conv("64x96x96", filters, "1x1")
    for filters, kernel in ((1, "7x7"), (3, "9x9"), (2, "5x5")):
        found[f"24x80x80 to {filters} {kernel}"] = conv("24x80x80", filters, kernel)
    return found


def odd_channels() -> dict[str, Node]:
    found = {}
    few = ((1, 10), (3, 10), (5, 7), (10, 16), (13, 27))
    for c, filters in (*few, (20, 20), (36, 36), (50, 50), (63, 65)):
        found[f"{c}x56x56 to {filters} 3x3"] = conv(f"{c}x56x56", filters, "3x3")
    for c, filters in ((13, 27), (20, 36), (58, 58), (116, 116)):
        found[f"{c}x40x40 to {filters} 1x1"] = conv(f"{c}x40x40", filters, "1x1")
    found["17x56x56 to 33 3x3/2"] = conv("17x56x56", 33, "3x3", 2)
    found["1x128x128 to 32 5x5/2"] = conv("1x128x128", 32, "5x5", 2)
    found["4x112x112 to 24 7x7/4"] = conv("4x112x112", 24, "7x7", 4)
    return found


def one_dimension() -> dict[str, Node]:
    rows = {
        "1x16000 to 16 25": ("1x16000", 16, "25"),
        "1x16000 to 512 10/5": ("1x16000", 512, "10", 5),
        "1x16000 to 402 400/160": ("1x16000", 402, "400", 160),
        "512x800 to 512 3/2": ("512x800", 512, "3", 2),
        "80x1500 to 384 3": ("80x1500", 384, "3"),
        "64x8000 to 64 3": ("64x8000", 64, "3"),
        "32x16000 to 32 7 dilated 3": ("32x16000", 32, "7", 1, 1, 3),
        "32x16000 to 1 7": ("32x16000", 1, "7"),
        "128x2000 to 128 11 dilated 5": ("128x2000", 128, "11", 1, 1, 5),
        "512x400 depthwise 31": ("512x400", 512, "31", 1, 512),
        "100x300 to 200 5": ("100x300", 200, "5"),
        "12x5000 to 24 15/2": ("12x5000", 24, "15", 2),
    }
    return {name: conv(*how) for name, how in rows.items()}


def tall_kernels() -> dict[str, Node]:
    found = {}
    images = {
        "1x39": "16x512", "39x1": "512x16", "3x39": "16x512",
        "5x5": "64x64", "1x7": "17x17", "7x1": "40x40",
    }  # fmt: skip
    for kernel, x in images.items():
        for c in (4, 8, 16, 32):
            found[f"{c}x{x} to {c} {kernel}"] = conv(f"{c}x{x}", c, kernel)
    return found


def groups() -> dict[str, Node]:
    found = {}
    for c, g, edge in ((240, 3, 28), (480, 3, 14), (272, 4, 28), (384, 8, 28)):
        x = f"{c}x{edge}x{edge}"
        found[f"{x} to {c} 1x1 groups {g}"] = conv(x, c, "1x1", 1, g)
    windows = ((128, 32, 56, 1), (256, 32, 28, 1), (48, 3, 56, 2), (112, 7, 28, 1), (64, 2, 56, 1))
    for c, g, edge, stride in windows:
        x = f"{c}x{edge}x{edge}"
        found[f"{x} to {c} 3x3/{stride} groups {g}"] = conv(x, c, "3x3", stride, g)
    return found


def transposed() -> dict[str, Node]:
    rows = (
        ("256x28x28", 128, "2x2", 2), ("64x56x56", 32, "4x4", 2), ("128x16x16", 64, "3x3", 2),
        ("32x64x64", 3, "4x4", 2), ("32x64x64", 1, "2x2", 2), ("512x4x4", 256, "4x4", 2),
        ("24x80x80", 24, "2x2", 2), ("512x100", 256, "16", 8), ("128x3200", 64, "4", 2),
        ("56x50x50", 1, "9x9", 3),
    )  # fmt: skip
    made = functools.partial(conv, op="ConvTranspose")
    found = {f"transposed {x} to {m} {k}/{s}": made(x, m, k, s) for x, m, k, s in rows}
    for k, s in ((3, 2), (4, 2), (3, 3), (2, 2)):
        name = f"transposed 32x56x56 depthwise {k}x{k}/{s}"
        found[name] = made("32x56x56", 32, f"{k}x{k}", s, 32)
    found["transposed 64x40000 depthwise 12/2"] = made("64x40000", 64, "12", 2, 64)
    return found


def three_dimensions() -> dict[str, Node]:
    rows = (
        ("1x32x32x32", 16, "3x3x3", 1), ("16x32x32x32", 16, "3x3x3", 1), ("48x16x24x24", 24, "3x3x3", 1),
        ("3x16x112x112", 64, "3x7x7", 2), ("64x8x28x28", 64, "3x3x3", 1), ("256x2x7x7", 512, "3x3x3", 1),
        ("64x8x28x28", 128, "3x3x3", 2), ("64x8x28x28", 144, "1x3x3", 1), ("144x8x28x28", 64, "3x1x1", 1),
        ("16x32x32x32", 3, "3x3x3", 1), ("128x4x14x14", 256, "1x1x1", 1), ("10x20x20x20", 20, "5x5x5", 1),
    )  # fmt: skip
    found = {f"{x} to {m} {k}/{s}": conv(x, m, k, s) for x, m, k, s in rows}
    found["54x8x28x28 depthwise 3x3x3"] = conv("54x8x28x28", 54, "3x3x3", 1, 54)
    up = conv("32x16x16x16", 16, "2x2x2", 2, op="ConvTranspose")
    return found | {"transposed 32x16x16x16 to 16 2x2x2/2": up}


def shapes() -> dict[str, Node]:
    """The grid, by name: input channels and edges, filters, kernel, stride."""
    planes = few_filters() | odd_channels() | tall_kernels() | groups() | transposed()
    return planes | one_dimension() | three_dimensions()
