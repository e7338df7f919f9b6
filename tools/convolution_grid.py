#!/usr/bin/env python3
"""Compares convolutions outside the usual blocks with the peers, and with the machine's peak.

    python3 tools/convolution_grid.py [--threads 1] [--rounds 2] [--peers ort-onnx,openvino,mnn]
                                      [--update FILE] [NAME ...]

NAME is a part of a row's name; the default is all rows. Each is a model of one node, in
target/models/convolutions. A row gives our time, our share of the peak (a loop of multiply-adds,
measured by the same process), and the ratio of our time to each peer's: below 1 means that ours
is faster. A row is good at 0.6 of the peak, or at 0.9 of the time of the best peer.
"""

from __future__ import annotations

import argparse
import math
import sys

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from models.convolution_shapes import shapes
from models.node_kinds import Node
from models.operators import write
from peers import machine, options, programs, report
from peers.report import number

PEAK, BEST = 0.6, 0.9
FOLDER = options.MODELS / "convolutions"


def flops(node: Node) -> float:
    """Two per multiply-add, without any that padding of channels adds."""
    x, w = node.feed[0].shape, node.constants[0].shape
    if node.op == "ConvTranspose":
        return 2.0 * math.prod(x) * math.prod(w[1:])
    pads = node.attributes.get("pads", [0] * 2 * (len(x) - 2))
    ones = [1] * (len(x) - 2)
    strides, dilations = (node.attributes.get(name, ones) for name in ("strides", "dilations"))
    spatial = [
        (x[i + 2] + pads[i] + pads[i + len(ones)] - (w[i + 2] - 1) * dilations[i] - 1) // strides[i] + 1
        for i in range(len(ones))
    ]
    return 2.0 * x[0] * math.prod(spatial) * math.prod(w)


def measured(args: argparse.Namespace, name: str, node: Node) -> dict:
    """One row: the minimum of the rounds for each runtime."""
    print(f"measuring {name}", file=sys.stderr, flush=True)
    case = FOLDER / name.replace(" ", "_").replace("/", "s")
    write(node, case)
    flags = ["--threads", str(args.threads), "--seconds", str(args.seconds)]
    commands = {"ours": programs.ours_of(args.cli, case / "model.onnx", *flags, "--ops")}
    for peer in args.peers:
        commands[peer] = programs.peer(peer, case, args.threads, args.seconds)
    rounds = [{of: programs.measured(line) for of, line in commands.items()} for _ in range(args.rounds)]
    row = {of: min(found[of].get("p10_ms", math.inf) for found in rounds) for of in commands}
    peak = max(found["ours"].get("peak", {}).get("gflops", 0) for found in rounds)
    operators = rounds[0]["ours"].get("operators", [])
    kernel = max(operators, key=lambda o: o["ms"], default={"kernel": "?"})["kernel"]
    best = min((row[peer] for peer in args.peers), default=math.inf)
    if math.inf in (row["ours"], best):
        sys.exit(f"{name}: {rounds[0]}")
    share = flops(node) / row["ours"] / 1e6 / peak if peak else 0.0
    row |= {"name": name, "kernel": kernel, "share": share, "best": row["ours"] / best}
    print(f"  {row['ours']:.3f} ms {share:.2f} {row['best']:.2f} {kernel}", file=sys.stderr, flush=True)
    return row


def table(rows: list[dict], peers: list[str]) -> list[list[str]]:
    lines = [["convolution", "kernel", "ours ms", "of peak", *peers, "best"]]
    for row in rows:
        # A peer that did not run has no ratio.
        ratios = [number(row["ours"] / row[peer] or None, 2) for peer in peers]
        figures = [number(row["ours"], 3), number(row["share"], 2), *ratios, number(row["best"], 2)]
        lines.append([row["name"], row["kernel"], *figures])
    return lines


def summary(rows: list[dict]) -> str:
    bad = [row["name"] for row in rows if row["share"] < PEAK and row["best"] > BEST]
    mean = report.geometric_mean([row["best"] for row in rows])
    return (
        f"Geometric mean of ratios to the best peer: {mean:.3f}. At {PEAK} of the peak or {BEST} of the"
        f" best peer: {len(rows) - len(bad)} of {len(rows)}; not: {', '.join(bad) or 'none'}."
    )


def arguments() -> argparse.Namespace:
    made = options.parser(
        __doc__, "cli", "threads", "json", rounds=2, seconds=0.15, peers=["ort-onnx", "openvino", "mnn"]
    )
    made.add_argument("names", nargs="*", metavar="NAME")
    return options.parsed(made, lambda args: [f"convolutions-{args.threads}"])


def main() -> None:
    args = arguments()
    wanted = {
        name: node
        for name, node in shapes().items()
        if not args.names or any(part in name for part in args.names)
    }
    rows = [measured(args, name, node) for name, node in wanted.items()]
    where = machine.describe(args.cli, ["onnxruntime", "openvino", "mnn"])
    text = report.section(where, report.as_markdown(table(rows, args.peers)), summary(rows))
    record = {"machine": where, "rows": rows}
    report.give(args, f"convolutions-{args.threads}", text, record)


if __name__ == "__main__":
    main()
