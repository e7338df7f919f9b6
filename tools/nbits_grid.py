#!/usr/bin/env python3
"""Compares MatMulNBits and MatMulInteger with onnxruntime's: milliseconds over a grid of sizes, in markdown.

    python3 tools/nbits_grid.py [--threads 1] [--rounds 5] [--update FILE] [--levels 0,4] [--bits 4]
                                [--block 32] [--zeros] [--bytes] [SIZE ...]

SIZE is MxKxN. Each becomes a model of one MatMulNBits with constant weights for each accuracy level,
in target/models/nbits; with `--bytes`, of one MatMulInteger of uint8 by constant int8. The runtimes alternate, round by round; the figure is the minimum of the
rounds' 10th percentiles, minus the runtime's time for an empty model. A ratio is our
time over theirs: below 1 means that ours is faster. GOPS counts two operations per weight and row; GB/s
the packed weights and their scales, which a single row reads once.
"""

from __future__ import annotations

import argparse
import sys

import environment

environment.enter()

import numpy as np
from models.operators import Node, write
from peers import machine, options, report, timing

GRID = [
    f"{m}x{k}x{n}"
    for m in (1, 4, 32, 128, 512)
    for k, n in ((256, 256), (512, 1408), (1024, 1024), (4096, 4096), (2048, 8192), (8192, 2048))
]


def product(args: argparse.Namespace, size: str, level: int) -> Node:
    m, k, n = map(int, size.split("x"))
    rng, blocks = np.random.default_rng(0), -(-k // args.block)
    weights = [
        rng.integers(0, 256, (n, blocks, args.block * args.bits // 8), "u1"),
        rng.uniform(0.01, 0.02, n * blocks).astype("f4"),
    ]
    if args.zeros:
        weights.append(rng.integers(0, 256, n * -(-blocks * args.bits // 8), "u1"))
    how = {"K": k, "N": n, "bits": args.bits, "block_size": args.block, "accuracy_level": level}
    a = rng.standard_normal((m, k), "f4")
    return Node("MatMulNBits", [a], weights, how, domain="com.microsoft")


def of_bytes(size: str) -> Node:
    m, k, n = map(int, size.split("x"))
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (m, k), "u1"), rng.integers(-128, 128, (k, n), "i1")
    return Node("MatMulInteger", [a], [b])


def milliseconds(args: argparse.Namespace, name: str, node: Node) -> dict[str, float]:
    folder = options.MODELS / "nbits" / name
    return timing.milliseconds(args, folder, write(node, folder))


def row(args: argparse.Namespace, size: str, level: int | None, idle: dict[str, float]) -> dict:
    """A line of the table: of MatMulNBits, or of MatMulInteger if there is no level."""
    m, k, n = map(int, size.split("x"))
    if level is None:
        name, node, read = f"{size}_bytes", of_bytes(size), k * n
    else:
        name = f"{size}_{args.bits}bits_{args.block}_level{level}" + "_zeros" * args.zeros
        node, read = product(args, size, level), k * n * (args.bits / 8 + 4 / args.block)
    print(f"measuring {name}", file=sys.stderr, flush=True)
    found = milliseconds(args, name, node)
    ms = {name: max(found[name] - idle[name], 1e-5) for name in found}
    speeds = {"gops": 2e-6 * m * k * n / ms["ours"], "gbps": 1e-6 * read / ms["ours"]}
    return {"size": size, **ms, **speeds, "ratio": ms["ours"] / ms["theirs"]}


def section(title: str, rows: list[dict]) -> str:
    lines = [["m x k x n", "ours ms", "onnxruntime", "ratio", "GOPS", "GB/s"]]
    for row in rows:
        times = [f"{row[name]:.4f}" for name in ("ours", "theirs")]
        speeds = [f"{row[name]:.1f}" for name in ("gops", "gbps")]
        lines.append([row["size"], *times, f"{row['ratio']:.2f}", *speeds])
    ratios = [row["ratio"] for row in rows]
    mean = report.geometric_mean(ratios)
    text = f"Geometric mean of ratios: {mean:.3f}; the largest is {max(ratios):.2f}."
    return f"{title}\n\n{report.as_markdown(lines)}\n\n{text}"


def arguments() -> argparse.Namespace:
    made = options.parser(__doc__, "cli", "threads", "json", rounds=5, seconds=0.3)
    made.add_argument("sizes", nargs="*", metavar="SIZE")
    made.add_argument("--levels", type=options.several, default=[0, 4])
    made.add_argument("--bits", type=int, choices=(2, 4, 8), default=4)
    made.add_argument("--block", type=int, default=32)
    made.add_argument("--zeros", action="store_true", help="with zero points")
    made.add_argument("--bytes", action="store_true", help="MatMulInteger instead")
    made.set_defaults(sizes=GRID)
    return options.parsed(made, lambda _: ["nbits"])


def main() -> None:
    args = arguments()
    idle = milliseconds(args, "nothing", Node("Identity", [np.zeros(1, "f4")]))
    what = f"{args.bits} bits in blocks of {args.block}{', with zero points' * args.zeros}"
    titles = {f"{what}, accuracy level {level}.": level for level in args.levels}
    if args.bytes:
        titles = {"MatMulInteger of uint8 by constant int8.": None}
    tables = {
        title: [row(args, size, level, idle) for size in args.sizes]
        for title, level in titles.items()
    }
    where = machine.describe(args.cli, ["onnxruntime"])
    sections = [section(title, rows) for title, rows in tables.items()]
    text = report.section(where, *sections)
    report.give(args, "nbits", text, {"machine": where, "idle_ms": idle, "tables": tables})


if __name__ == "__main__":
    main()
