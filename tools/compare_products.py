#!/usr/bin/env python3
"""Compares the f32 matrix product, in GFLOP/s, with the crate matrixmultiply.

    python3 tools/compare_products.py [--markdown] [--update FILE]

Runs several rounds of `cargo run --release -p ort-kernels --example gflops`, and reports the best
of each figure: interference makes a round slower and never faster. `avx2 / mm` is the speed of
our AVX2 kernel on packed weights over that of matrixmultiply, which also uses AVX2: above 1 ours is
faster.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, options, report
from peers.report import number

ROOT = environment.TOOLS.parent
COMMAND = ["cargo", "run", "--release", "-q", "-p", "ort-kernels", "--example", "gflops"]


def one_round(program: list[str]) -> tuple[list[str], dict[str, list[float]]]:
    """The column headings, and the figures by shape."""
    done = subprocess.run(program, check=True, capture_output=True, text=True, cwd=ROOT)
    head, *lines = done.stdout.splitlines()
    # Each instruction set has two columns, of which the second is called `packed B`.
    words = head.replace("m x n x k", "").replace("packed B", "packed").split()
    isas = [word for word in words if word not in ("packed", "matrixmultiply")]
    heads = [h for isa in isas for h in (isa, f"{isa} packed")] + ["matrixmultiply"]
    rows = (line.split() for line in lines)
    return heads, {shape: [float(figure) for figure in figures] for shape, *figures in rows}


def arguments() -> argparse.Namespace:
    made = options.parser(__doc__, "markdown", rounds=3)
    made.add_argument("--program", help="the example, if it is already built")
    return options.parsed(made, lambda _: ["products"])


def main() -> None:
    args = arguments()
    program = [args.program] if args.program else COMMAND
    heads, best = one_round(program)
    for _ in range(args.rounds - 1):
        for shape, figures in one_round(program)[1].items():
            best[shape] = list(map(max, best[shape], figures))
    ours, theirs = heads.index("avx2 packed") if "avx2 packed" in heads else 1, -1
    ratios = {shape: figures[ours] / figures[theirs] for shape, figures in best.items()}
    lines = [["m x n x k", *heads, "avx2 / mm"]]
    for shape, figures in best.items():
        lines.append([shape, *(number(figure, 0) for figure in figures), number(ratios[shape], 2)])
    text = f"Geometric mean of avx2 / mm: {report.geometric_mean(list(ratios.values())):.2f}."
    where = machine.describe("", [])
    section = report.section(where, report.as_markdown(lines), text)
    if args.update:
        report.update(args.update, "products", section)
    print(section if args.markdown else f"{where}\n{report.as_text(lines)}\n{text}")


if __name__ == "__main__":
    sys.exit(main())
