#!/usr/bin/env python3
"""Compares the first start of a model, in every loading mode, with onnxruntime.

    python3 tools/compare_loading.py [--threads N] [--rounds N] [--update docs/memory.md] [CASE ...]

For each mode and model: the time from the path to the session, and of the first run;
with the file in the page cache (warm), and after evicting it (cold). Each
round runs every mode once, each in its own process; a time is the minimum over the
rounds. `ratio` is the load time of our default, mapped, to that of onnxruntime from the `.onnx`.

The peak of private (anonymous, resident) memory from the start to the end of the first runs is sampled
in separate rounds; what Python and numpy use before is excluded.

`--update FILE` writes the section `<!-- measured: loading -->` of a document.
CASE is a folder as `make_models.py` writes it; the default is all of target/models/{real,built,hard}.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, options, programs, report
from peers.report import number, ratio

# Our loading modes, by their flags.
OURS = {
    "mapped": [],
    "populated": ["--populate"],
    "read": ["--load", "read"],
}
PEERS = ["ort-onnx", "ort-mapped"]
SECTION = "loading"


def commands(args, case: Path) -> dict[str, list[str]]:
    flags = ["--threads", str(args.threads), "--seconds", "0"]
    ours = {way: programs.ours(args.cli, case, "default", *flags, *more)
            for way, more in OURS.items()}  # fmt: skip
    return ours | {name: programs.peer(name, case, args.threads, 0) for name in PEERS}


def forget(case: Path) -> None:
    """Evicts a case's models from the page cache."""
    for path in (*case.glob("*.ort"), *case.glob("*.onnx")):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(args, case: Path) -> dict:
    """The summary of all rounds for each state of the cache and each mode."""
    row = {"model": case.name}
    all_ways = commands(args, case)
    for cache in ("warm", "cold"):
        rounds: dict[str, list[dict]] = {name: [] for name in all_ways}
        for _ in range(args.rounds):
            for name, command in all_ways.items():
                if cache == "cold":
                    forget(case)
                rounds[name].append(programs.measured(command))
        row[cache] = {name: programs.summarized(r) for name, r in rounds.items()}
    row["peak"] = {name: peak(args, command) for name, command in all_ways.items()}
    return row


def peak(args, command: list[str]) -> float | None:
    """The minimum of the peaks of several rounds: the excess is noise."""
    peaks = [programs.peak_private_mib(command) for _ in range(args.memory_rounds)]
    return min((mib for mib in peaks if mib is not None), default=None)


def times_table(rows: list[dict], cache: str) -> list[list[str]]:
    lines = [[f"load + first run, ms, {cache}", *OURS, *PEERS, "ratio"]]
    for row in rows:
        of = row[cache]
        cells = [f"{number(of[name].get('load_ms'), 1)} + {number(of[name].get('first_ms'), 1)}"
                 for name in (*OURS, *PEERS)]  # fmt: skip
        times = ratio(of["mapped"].get("load_ms"), of["ort-onnx"].get("load_ms"))
        lines.append([row["model"], *cells, number(times, 2)])
    return lines


def peak_table(rows: list[dict]) -> list[list[str]]:
    lines = [["peak private MiB", *OURS, *PEERS, "ratio"]]
    for row in rows:
        of = row["peak"]
        cells = [number(of[name], 1) for name in (*OURS, *PEERS)]
        lines.append([row["model"], *cells, number(ratio(of["mapped"], of["ort-onnx"]), 2)])
    return lines


def arguments() -> argparse.Namespace:
    made = options.parser(__doc__, "cli", "threads", rounds=6)
    made.add_argument("--memory-rounds", type=int, default=3)
    return options.parsed_with_cases(made, lambda _: [SECTION])


def main() -> None:
    args = arguments()
    where = machine.describe(args.cli, ["onnxruntime"])
    rows = [measure(args, case) for case in report.announced(args.cases)]
    tables = [times_table(rows, "warm"), times_table(rows, "cold"), peak_table(rows)]
    if args.update:
        section = report.section(where, *map(report.as_markdown, tables))
        report.update(args.update, SECTION, section)
    print(where, *map(report.as_text, tables), sep="\n\n")


if __name__ == "__main__":
    main()
