#!/usr/bin/env python3
"""Compares our operators with onnxruntime's, as models of one node, in every element type that both support and three sizes.

    python3 tools/compare_operators.py [--type T,…] [--size S] [--threads 1] [--rounds 2] [--update FILE] [NAME ...]

NAME is an operator, a family of them, or the name of a table row; the default is all.
T is an element type such as `f16`, S is `16`, `512` or `10`: the sizes are 16 KiB, which fits the first-level cache,
512 KiB and 10 MiB. Each model is generated for its measurement. The runtimes alternate: ours in
a separate process, onnxruntime in this one. A time is the minimum of the rounds' 10th percentiles,
minus the runtime's time for an empty model, since onnxruntime is called from Python. Its
empty model is measured again in each round, since Python's speed drifts by more than small operators take. A ratio is
our time over theirs: below 1 means that ours is faster. A row above 1.1, or with a time of at most 0.3 µs, is measured
two more times, and the one with the median ratio counts. `--above R` prints only rows above R.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import environment

environment.enter()

import numpy as np
from models.operators import FAMILIES, SIZES, TYPES, Node, Operands, write
from models.operators.reasons import reason
from peers import machine, options, report, timing

NOTHING = Node("Identity", [np.zeros(1, "f4")])
KERNELS = environment.TOOLS.parent / "xtask/src/docs/onnxruntime_kernels.txt"
# Ratios above EVEN need a reason; ratios above BAR must be fixed.
EVEN, BAR = 1.0, 1.10
# Times below this, in µs, are lost when the time of an empty call is subtracted.
LEAST_US = 0.3


def kernels() -> dict[str, set[str]]:
    """The element types that onnxruntime has a kernel for, in our names, by operator."""
    ours = {theirs: name for name, (_, theirs) in TYPES.items()}
    found: dict[str, set[str]] = {}
    for line in KERNELS.read_text().splitlines():
        domain, op, _, _, *types = line.split()
        if domain in ("ai.onnx", "ai.onnx.ml", "com.microsoft"):
            found.setdefault(op, set()).update(ours[name] for name in types if name in ours)
    return found


def chosen(args: argparse.Namespace) -> Iterator[tuple[str, str, object, list[str]]]:
    """The selected rows: family, name, description and element types."""
    has, left = kernels(), set(args.names)
    for made in FAMILIES:
        for name, describe in made().items():
            op = name.split()[0]
            # An operator without a kernel is a function of others; it is measured in f32.
            own = getattr(describe, "dtype", None)
            takes = has.get(op, {"f32"}) if own is None else {t for t in TYPES if np.dtype(TYPES[t][0]) == own}
            types = [t for t in TYPES if t in takes and t in args.type]
            if types and (not args.names or not {made.__name__, name, op}.isdisjoint(args.names)):
                left -= {made.__name__, name, op}
                yield made.__name__, name, describe, types
    if left:
        sys.exit(f"no operator or family is named {' or '.join(sorted(left))}")


class Measure:
    """Both runtimes, and their times for an empty model."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        with tempfile.TemporaryDirectory(dir=environment.TARGET) as folder:
            feed = write(NOTHING, Path(folder))
            self.theirs_idle = timing.Theirs(args, Path(folder), feed)
            self.ours_idle = timing.milliseconds(args, Path(folder), feed)["ours"]

    def microseconds(self, node: Node) -> dict[str, float]:
        """The time of each runtime for the node alone."""
        with tempfile.TemporaryDirectory(dir=environment.TARGET) as folder:
            try:
                feed = write(node, Path(folder))
            except Exception as error:  # onnxruntime's exceptions share no narrower base
                raise timing.Failed(f"theirs: {error}") from None
            taken = timing.milliseconds(self.args, Path(folder), feed, idle=self.theirs_idle)
        net = {"ours": taken["ours"] - self.ours_idle, "theirs": taken["theirs"] - taken["idle"]}
        return {who: max(ms * 1e3, LEAST_US) for who, ms in net.items()}

    def reliably(self, node: Node) -> dict[str, float]:
        """The times and their ratio; those with the median ratio of three if the first are in doubt."""
        def once() -> dict[str, float]:
            taken = self.microseconds(node)
            return {**taken, "ratio": taken["ours"] / taken["theirs"]}

        first = once()
        if first["ratio"] <= BAR and min(first["ours"], first["theirs"]) > LEAST_US:
            return first
        return sorted([first, once(), once()], key=lambda taken: taken["ratio"])[1]


def rows(args: argparse.Namespace) -> Iterator[dict]:
    measure = Measure(args)
    for family, name, describe, types in chosen(args):
        has_one_size = getattr(describe, "has_one_size", False)
        for dtype in types:
            for size in args.size[-1:] if has_one_size else args.size:
                row = {"family": family, "name": name, "type": dtype, "size": "" if has_one_size else size}
                try:
                    row |= measure.reliably(describe(Operands(dtype, size)))
                except timing.Failed as why:
                    print(f"{name} {dtype} {size}: {str(why)[:300]}", file=sys.stderr, flush=True)
                    continue
                text = f"{name:28} {dtype:5} {size:8} {row['ours']:10.1f} {row['theirs']:10.1f} {row['ratio']:7.2f}"
                if row["ratio"] >= args.above:
                    print(text, file=sys.stderr, flush=True)
                yield row


def table(family: str, measured: list[dict]) -> str:
    """A line for each operator and type, with the ratio at each size, and the reason if it is above 1."""
    lines = [[family.capitalize(), "type", *SIZES, "why"]]
    keys = dict.fromkeys((row["name"], row["type"]) for row in measured)
    for name, dtype in keys:
        of = {row["size"]: row["ratio"] for row in measured if (row["name"], row["type"]) == (name, dtype)}
        ratios = [f"{of[size]:.2f}" if size in of else "" for size in SIZES]
        if "" in of:
            ratios[-1] = f"{of['']:.2f}"
        why = {reason(name, dtype, size) or "?" for size, ratio in of.items() if ratio > EVEN}
        lines.append([name, dtype, *ratios, "; ".join(sorted(why))])
    return report.as_markdown(lines)


def summary(measured: list[dict]) -> str:
    ratios = [row["ratio"] for row in measured]
    even, bar = (sum(ratio > limit for ratio in ratios) for limit in (EVEN, BAR))
    mean = report.geometric_mean(ratios)
    return (
        f"Geometric mean of ratios: {mean:.3f}; of {len(ratios)} measurements {even} are above {EVEN},"
        f" {bar} above {BAR}."
    )


def arguments() -> argparse.Namespace:
    made = options.parser(__doc__, "cli", "threads", "json", rounds=2, seconds=0.03)
    made.add_argument("--type", type=options.names, default=list(TYPES))
    made.add_argument("--size", type=options.names, default=["16", "512", "10"])
    made.add_argument("--above", type=float, default=0.0)
    made.add_argument("names", nargs="*", metavar="NAME")
    args = options.parsed(made, lambda _: ["operators"])
    args.size = [size for size in SIZES if size.split()[0] in args.size]
    return args


def main() -> None:
    args = arguments()
    found = list(rows(args))
    where = machine.describe(args.cli, ["onnxruntime"])
    families = dict.fromkeys(row["family"] for row in found)
    tables = [table(family, [row for row in found if row["family"] == family]) for family in families]
    text = report.section(where, summary(found), *tables)
    report.give(args, "operators", text, {"machine": where, "rows": found})


if __name__ == "__main__":
    main()
