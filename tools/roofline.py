#!/usr/bin/env python3
"""Measures our runtime's share of the machine's peak performance, and what limits it.

    python3 tools/roofline.py [--threads 1] [--markdown] [--update FILE] [CASE ...]

For each model: the speed of a run in GFLOP/s, as a share of the machine's peak (a loop of
multiply-adds, measured by the same process), and for each group of operators its share of the
time and its share of the peak: `86 % at 0.61`. Operators that are not dominated by arithmetic have no share of the peak.
`rest` lists the slowest operators outside the groups. The time of an operator is its minimum over
several rounds; the peak is the maximum over all rounds and models.

CASE is a folder as `make_models.py` writes it; the default is all of target/models/{real,built,hard}.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, options, programs, report
from peers.report import number, percent

# Words in the names of an operator and its kernel, by group; the first match applies. A
# convolution with a fused epilogue has the name of the last of its nodes.
GROUPS = {
    "convolution": ("Conv", "conv_", "winograd"),
    "product": ("MatMul", "Gemm"),
    "attention": ("Attention",),
    "recurrent": ("LSTM", "GRU", "RNN"),
    "normalization": ("Normalization", "Softmax"),
    "movement": ("Reorder", "Transpose", "Concat", "Slice", "Gather", "Pad", "Upsample", "Resize"),
}


def group(operator: dict) -> str:
    names = f"{operator['operator']} {operator['kernel']}"
    fits = (name for name, words in GROUPS.items() if any(word in names for word in words))
    return next(fits, "rest")


def measure(args, case: Path) -> dict:
    """One row: the operators at their fastest, and the highest peak."""
    flags = ["--threads", str(args.threads), "--seconds", str(args.seconds), "--ops"]
    flags += args.extra.split()
    operators: dict[tuple, dict] = {}
    row = {"model": case.name, "peak": 0.0}
    for _ in range(args.rounds):
        record = programs.measured(programs.ours(args.cli, case, args.variant, *flags))
        row["peak"] = max(row["peak"], record.get("peak", {}).get("gflops", 0.0))
        for found in record.get("operators", []):
            known = operators.setdefault((found["operator"], found["kernel"]), found)
            known["ms"] = min(known["ms"], found["ms"])
    # The time of control flow includes its subgraphs, whose nodes are listed, too.
    row["operators"] = [o for o in operators.values() if o["kernel"] != "plan"]
    return row


def work(operators: list[dict]) -> tuple[float, float]:
    """Milliseconds and operations."""
    return sum(o["ms"] for o in operators), sum(o["flops"] for o in operators)


def speed(ms: float, flops: float) -> float | None:
    """GFLOP/s, if there is significant arithmetic."""
    return flops / ms / 1e6 if ms and flops else None


def cells(row: dict, peak: float) -> list[str]:
    ms, flops = work(row["operators"])
    of_peak = (speed(ms, flops) or 0) / peak
    line = [row["model"], number(ms, 2), number(speed(ms, flops), 0), percent(of_peak)]
    for name in (*GROUPS, "rest"):
        members = [o for o in row["operators"] if group(o) == name]
        part, flops = work(members)
        at = speed(part, flops)
        # Element-wise operations say nothing about a processor's arithmetic.
        counts = at and name not in ("movement", "normalization", "rest")
        text = percent(part / ms if ms else 0) + (f" at {at / peak:.2f}" if counts else "")
        line.append(text if members else "–")
    rest = [o for o in row["operators"] if group(o) == "rest"]
    largest = sorted(rest, key=lambda o: -o["ms"])[:2]
    return [*line, ", ".join(f"{o['operator']} {percent(o['ms'] / ms)}" for o in largest)]


def table(rows: list[dict], peak: float) -> list[list[str]]:
    heads = ["model", "ms", "GFLOP/s", "of peak", *GROUPS, "rest", "most of the rest"]
    return [heads, *(cells(row, peak) for row in rows)]


def arguments() -> argparse.Namespace:
    made = options.parser(
        __doc__, "cli", "threads", "variant", "extra", "markdown", "json", rounds=5, seconds=0.2
    )
    return options.parsed_with_cases(made, lambda args: [f"roofline-{args.threads}"])


def main() -> None:
    args = arguments()
    where = machine.describe(args.cli, [])
    rows = [measure(args, case) for case in report.announced(args.cases)]
    peak = max((row["peak"] for row in rows), default=0) or 1.0
    lines = table([row for row in rows if row["operators"]], peak)
    text = f"Peak: {peak:.0f} GFLOP/s with {args.threads} thread{'s'[: args.threads > 1]}."
    section = report.section(where, text, report.as_markdown(lines))
    if args.update:
        report.update(args.update, f"roofline-{args.threads}", section)
    print(section if args.markdown else f"{where}\n{text}\n{report.as_text(lines)}")
    if args.json:
        record = {"machine": where, "command": report.command(), "rows": rows}
        args.json.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(any(not row["operators"] for row in rows))


if __name__ == "__main__":
    main()
