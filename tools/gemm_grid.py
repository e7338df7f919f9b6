#!/usr/bin/env python3
"""Compares our matrix product with onnxruntime's: GFLOP/s over a grid of sizes, as a markdown table.

    python3 tools/gemm_grid.py [--threads 1] [--rounds 5] [--update FILE] [SIZE ...]

SIZE is MxKxN, or COUNTxMxKxN for a batch. Each becomes two models of one MatMul, whose right operand
is a constant or an input, in target/models/gemm. The runtimes alternate, round by round, ours in
a separate process. The figure uses the minimum of the rounds' 10th percentiles, minus the runtime's time
for an empty model, since onnxruntime is called from Python. A ratio is ours over theirs in
GFLOP/s: above 1 means that ours is faster.
"""

from __future__ import annotations

import argparse
import math
import sys

import environment

environment.enter()

import numpy as np
from models.operators import Node, write
from peers import machine, options, report, timing

GRID = [f"{m}x1024x1024" for m in (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)] + [
    "1x2048x1000", "37x300x515", "64x64x64", "256x256x256", "512x512x512",
    "22x384x384", "22x384x1536", "128x384x384", "128x384x1536", "128x1536x384",
    "26x512x8210", "12x128x32x128", "12x128x128x32",
]  # fmt: skip
GOAL = 0.95


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, "f4")


def product(size: str, is_constant: bool) -> Node:
    *batch, m, k, n = map(int, size.split("x"))
    a, b = normal(*batch, m, k), normal(*batch, k, n)
    return Node("MatMul", [a], [b]) if is_constant else Node("MatMul", [a, b])


def milliseconds(args, name: str, node: Node) -> dict[str, float]:
    folder = options.MODELS / "gemm" / name
    return timing.milliseconds(args, folder, write(node, folder))


def row(args, size: str, is_constant: bool, idle: dict[str, float]) -> dict:
    print(f"measuring {size}", file=sys.stderr, flush=True)
    name = f"{size}_{'constant' if is_constant else 'input'}"
    ms = milliseconds(args, name, product(size, is_constant))
    work = 2e-6 * math.prod(map(int, size.split("x")))
    speed = {name: work / max(ms[name] - idle[name], 1e-6) for name in ms}
    return {"size": size, **speed, "ratio": speed["ours"] / speed["theirs"]}


def section(title: str, rows: list[dict]) -> str:
    lines = [["m x k x n", "ours GFLOP/s", "onnxruntime", "ratio"]]
    for row in rows:
        speeds = [f"{row[name]:.1f}" for name in ("ours", "theirs")]
        lines.append([row["size"], *speeds, f"{row['ratio']:.2f}"])
    mean = report.geometric_mean([row["ratio"] for row in rows])
    good = sum(row["ratio"] >= GOAL for row in rows)
    text = f"Geometric mean of ratios: {mean:.3f}; at least {GOAL} in {good} of {len(rows)} rows."
    return f"{title}\n\n{report.as_markdown(lines)}\n\n{text}"


def arguments() -> argparse.Namespace:
    made = options.parser(__doc__, "cli", "threads", "json", rounds=5, seconds=0.3)
    made.add_argument("sizes", nargs="*", metavar="SIZE")
    made.set_defaults(sizes=GRID)
    return options.parsed(made, lambda _: ["gemm"])


def main() -> None:
    args = arguments()
    idle = milliseconds(args, "nothing", Node("Identity", [normal(1)]))
    tables = {
        title: [row(args, size, is_constant, idle) for size in args.sizes]
        for title, is_constant in (("B is a constant.", True), ("B is an input.", False))
    }
    where = machine.describe(args.cli, ["onnxruntime"])
    sections = [section(title, rows) for title, rows in tables.items()]
    text = report.section(where, *sections)
    report.give(args, "gemm", text, {"machine": where, "idle_ms": idle, "tables": tables})


if __name__ == "__main__":
    main()
