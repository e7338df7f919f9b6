#!/usr/bin/env python3
"""Our operators in f32 beside onnxruntime's, one model each, as tables in markdown.

    python3 tools/compare_operators.py [--threads 1] [--rounds 2] [--update FILE] [NAME ...]

NAME is an operator or a family of them; without one, all are measured. The models are made in
target/models/operators. The runtimes take turns, each in a process of its own; a time is the least
of the rounds' 10th percentiles, less what the runtime takes for a model that does nothing, since one
is called from Python. A ratio is our time over theirs: below 1 means that ours is faster.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

import numpy as np
from models.operators import FAMILIES, Node, case
from peers import beside, machine, options, report

NOTHING = Node("Identity", [np.zeros(1, "f4")])
SLOWER = 1.05


def folder_of(name: str) -> Path:
    return options.MODELS / "operators" / name.replace(" ", "_").replace("/", "s").replace(",", "")


def row(args, name: str, node: Node, idle: dict[str, float]) -> dict:
    print(f"measuring {name}", file=sys.stderr, flush=True)
    taken = beside.milliseconds(args, case(node, folder_of(name)))
    us = {who: max(taken[who] - idle[who], 1e-5) * 1e3 for who in taken}
    return {"name": name, **us, "ratio": us["ours"] / us["theirs"]}


def table(family: str, rows: list[dict]) -> str:
    lines = [[family.capitalize(), "ours µs", "onnxruntime", "ratio"]]
    for row in rows:
        times = [f"{row[who]:.1f}" for who in ("ours", "theirs")]
        lines.append([row["name"], *times, f"{row['ratio']:.2f}"])
    return report.as_markdown(lines)


def summary(rows: list[dict]) -> str:
    ratios = [row["ratio"] for row in rows]
    n_slower = sum(ratio > SLOWER for ratio in ratios)
    mean = report.geometric_mean(ratios)
    return f"Geometric mean of ratios: {mean:.3f}; above {SLOWER} in {n_slower} of {len(rows)} rows."


def chosen(names: list[str]) -> dict[str, dict[str, Node]]:
    """The nodes that are meant, by family; a name that nothing has ends the script."""
    left, found = set(names), {}
    for made in FAMILIES:
        family = made.__name__
        for name, node in made().items():
            if not names or not set(names).isdisjoint((family, name, node.op)):
                found.setdefault(family, {})[name] = node
                left -= {family, name, node.op}
    if left:
        sys.exit(f"no operator or family is called {' or '.join(sorted(left))}")
    return found


def arguments() -> argparse.Namespace:
    made = options.parser(__doc__, "cli", "threads", "json", rounds=2, seconds=0.2)
    made.add_argument("names", nargs="*", metavar="NAME")
    return options.parsed(made, lambda _: ["operators"])


def main() -> None:
    args = arguments()
    families = chosen(args.names)
    idle = beside.milliseconds(args, case(NOTHING, folder_of("nothing")))
    rows = {
        family: [row(args, name, node, idle) for name, node in nodes.items()]
        for family, nodes in families.items()
    }
    where = machine.describe(args.cli, ["onnxruntime"])
    tables = [table(family, measured) for family, measured in rows.items()]
    text = report.section(where, *tables, summary(sum(rows.values(), [])))
    report.give(args, "operators", text, {"machine": where, "idle_ms": idle, "rows": rows})


if __name__ == "__main__":
    main()
