#!/usr/bin/env python3
"""Measures the cost of threads under light load, and their throughput under full load, next to onnxruntime.

    cargo build --release -p ort-session --example paced
    python3 tools/compare_threads.py [--hertz 6] [--rounds N] [--update docs/benchmarks.md] [CASE ...]

A loop of runs at a fixed rate with two threads: the ratio of the process' CPU time to the time spent in
runs, and to the work, which is the CPU time of as many back-to-back runs with one thread.
If threads only compute, the first ratio is at most 2 and the second slightly above 1;
the excess is spinning.

Runs with one thread from two concurrent callers: the ratio of their throughput to that of one caller.
The ideal is 2.

Each round runs every variant once, each in its own process. Each figure is the best of the
rounds: the minimum CPU time and work of a run, and the maximum throughput.
CASE is a folder as `make_models.py` writes it; the default is target/models/built/mobilenetv2.
`--update FILE` writes the section `<!-- measured: threads -->` of a document.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, options, programs, report
from peers.report import number

PACED = environment.TOOLS / "peers/paced.py"
NOT_SPINNING = "session.intra_op.allow_spinning=0"
SECTION = "threads"


def ways(args, case: Path) -> dict[str, tuple[list[str], list[str]]]:
    """The words before and after the numbers in each variant's command."""
    peer = [sys.executable, str(PACED), str(case / "model.onnx")]
    return {
        "ours": ([args.program, str(case / "model.default.ort")], []),
        "onnxruntime": (peer, []),
        "onnxruntime, not spinning": (peer, [NOT_SPINNING]),
    }


def measure(args, case: Path) -> dict[str, dict]:
    """The best figures of each variant over the rounds."""
    rounds: dict[str, list[dict]] = {way: [] for way in ways(args, case)}
    for _ in range(args.rounds):
        for way, (start, end) in ways(args, case).items():
            rounds[way].append(once(args, start, end))
    return {way: best(records) for way, records in rounds.items()}


def once(args, start: list[str], end: list[str]) -> dict:
    def paced(threads: int, callers: int, hertz: float) -> dict:
        numbers = map(str, (threads, callers, args.seconds, hertz))
        record = programs.measured([*start, *numbers, *end])
        if "error" in record:
            raise SystemExit(f"{start[0]}: {record['error']}")
        return record

    loop, one, two = paced(2, 1, args.hertz), paced(1, 1, 0), paced(1, 2, 0)
    return {
        "run_ms": loop["busy_ms"] / loop["runs"],
        "cpu_ms": loop["cpu_ms"] / loop["runs"],
        "work_ms": one["cpu_ms"] / one["runs"],
        "one": one["runs"] / one["seconds"],
        "two": two["runs"] / two["seconds"],
    }


def best(records: list[dict]) -> dict:
    least = {key: min(record[key] for record in records) for key in ("run_ms", "cpu_ms", "work_ms")}
    most = {key: max(record[key] for record in records) for key in ("one", "two")}
    return least | most


def tables(case: Path, row: dict[str, dict], hertz: float) -> list[list[list[str]]]:
    head = ["ms per run", "work ms", "CPU ms", "CPU over runs", "CPU over work"]
    pace = [[f"{case.name}, {hertz:g} Hz, 2 threads", *head]]
    callers = [[f"{case.name}, 1 thread", "runs/s: 1 caller", "2 callers", "ratio"]]
    for way, it in row.items():
        figures = [it[key] for key in ("run_ms", "work_ms", "cpu_ms")]
        figures += [it["cpu_ms"] / it["run_ms"], it["cpu_ms"] / it["work_ms"]]
        pace.append([way, *(number(figure, 2) for figure in figures)])
        rates = [number(it[key], 1) for key in ("one", "two")]
        callers.append([way, *rates, number(it["two"] / it["one"], 2)])
    return [pace, callers]


def arguments() -> argparse.Namespace:
    made = options.parser(__doc__, rounds=4, seconds=5)
    made.add_argument("--program", default=str(environment.TARGET / "release/examples/paced"))
    made.add_argument("--hertz", type=float, default=6)
    return options.parsed_with_cases(
        made, lambda _: [SECTION], lambda: [options.MODELS / "built/mobilenetv2"]
    )


def main() -> None:
    args = arguments()
    where = machine.describe(args.program, ["onnxruntime"])
    all_tables = []
    for case in report.announced(args.cases):
        all_tables += tables(case, measure(args, case), args.hertz)
    print(where, *map(report.as_text, all_tables), sep="\n")
    if args.update:
        section = report.section(where, *map(report.as_markdown, all_tables))
        report.update(args.update, SECTION, section)


if __name__ == "__main__":
    main()
