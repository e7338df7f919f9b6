#!/usr/bin/env python3
"""Measures the speedup by a second thread: every model with one thread and with two, alternating.

    python3 tools/compare_scaling.py [--threads 2] [--markdown] [--update FILE] [CASE ...]

CASE is a folder as `make_models.py` writes it; the default is all of target/models/{real,built,hard}.
A time is the minimum over the rounds of a round's 10th percentile. CPUs is the average number of busy
processors, in the round that used most. Models that take more than 2 ms with one thread and
have a speedup below 1.6 are listed, and so are those that are slower with more threads.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, options, programs, report
from peers.report import number

LONG_MS = 2.0
WANTED = 1.6
SECTION = "scaling"


def compare(args, case: Path) -> dict:
    """One row: the minimum time with each number of threads, and the maximum of the CPUs used."""
    row = {"model": case.name, "one": None, "several": None, "cpus": None}
    for _ in range(args.rounds):
        for key, threads in (("one", 1), ("several", args.threads)):
            flags = ["--threads", str(threads), "--seconds", str(args.seconds)]
            flags += args.extra.split()
            record = programs.measured(programs.ours(args.cli, case, args.variant, *flags))
            if found := record.get("p10_ms"):
                row[key] = min(row[key] or found, found)
            if key == "several" and (cpus := record.get("cpus")):
                row["cpus"] = max(row["cpus"] or cpus, cpus)
    return row


def speedup(row: dict) -> float | None:
    return report.ratio(row["one"], row["several"])


def table(rows: list[dict], threads: int) -> list[list[str]]:
    lines = [["model", "1 thread ms", f"{threads} threads ms", "speedup", "CPUs"]]
    for row in rows:
        times = [number(row[key], 2) for key in ("one", "several")]
        lines.append([row["model"], *times, number(speedup(row), 2), number(row["cpus"], 2)])
    return lines


def summary(rows: list[dict]) -> str:
    """The models with too small a speedup, and those that did not run."""
    ran = [row for row in rows if speedup(row)]
    short = [f"{row['model']} {speedup(row):.2f}" for row in ran
             if row["one"] > LONG_MS and speedup(row) < WANTED]  # fmt: skip
    slower = [row["model"] for row in ran if speedup(row) < 1 and row["one"] <= LONG_MS]
    failed = [row["model"] for row in rows if not speedup(row)]
    text = f"Of those above {LONG_MS:g} ms, below {WANTED}: {', '.join(short) or 'none'}."
    text += f" Of the others, slower: {', '.join(slower) or 'none'}."
    return text + (f" Did not run: {', '.join(failed)}." if failed else "")


def arguments() -> argparse.Namespace:
    made = options.parser(
        __doc__, "cli", "variant", "extra", "markdown", "json", rounds=3, seconds=0.3
    )
    made.add_argument("--threads", type=int, default=2)
    return options.parsed_with_cases(made, lambda _: [SECTION])


def main() -> None:
    args = arguments()
    where = machine.describe(args.cli, [])
    rows = [compare(args, case) for case in report.announced(args.cases)]
    lines, text = table(rows, args.threads), summary(rows)
    section = report.section(where, report.as_markdown(lines), text)
    if args.update:
        report.update(args.update, SECTION, section)
    print(f"{section}\n" if args.markdown else f"{where}\n{report.as_text(lines)}\n{text}", flush=True)
    if args.json:
        record = {"machine": where, "command": report.command(), "rows": rows}
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
