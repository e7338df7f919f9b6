#!/usr/bin/env python3
"""Compares a model from `.onnx` with the same from `.ort`, and with onnxruntime from `.onnx`.

    python3 tools/compare_imports.py [--threads N] [--rounds N] [--seconds S] [--update docs/memory.md] [CASE ...]

For each model: the time from the path to the session, at a first start without a cache, and its ratio to
onnxruntime's session creation; then the tenth percentile of runs of sessions from either file, and their
ratio. Each round runs every variant once, each in its own process; a time is the minimum
over the rounds.

`--update FILE` writes the section `<!-- measured: imports -->` of a document.
CASE is a folder as `make_models.py` writes it; the default is all of target/models/{real,built,hard}.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, options, programs, report
from peers.report import number, ratio

SECTION = "imports"
WAYS = ["onnx", "ort", "onnxruntime"]


def commands(args, case: Path) -> dict[str, list[str]]:
    flags = ["--threads", str(args.threads), "--seconds", str(args.seconds)]
    raw = case / "model.raw.ort"
    files = [case / "model.onnx", raw if raw.exists() else case / "model.ort"]
    ours = [programs.ours_of(args.cli, file, *flags) for file in files]
    return dict(zip(WAYS, [*ours, programs.peer("ort-onnx", case, args.threads, 0)], strict=True))


def measure(args, case: Path) -> dict[str, dict]:
    all_ways = commands(args, case)
    rounds: dict[str, list[dict]] = {way: [] for way in WAYS}
    for _ in range(args.rounds):
        for way, command in all_ways.items():
            rounds[way].append(programs.measured(command))
    return {way: programs.summarized(records) for way, records in rounds.items()}


def table(rows: dict[str, dict[str, dict]]) -> list[list[str]]:
    loads = [f"load ms, {way}" for way in WAYS]
    lines = [["model", *loads, "ratio", "run ms, onnx", "run ms, ort", "ratio"]]
    for model, of in rows.items():
        load = {way: of[way].get("load_ms") for way in WAYS}
        run = {way: of[way].get("p10_ms") for way in WAYS[:2]}
        cells = [*(number(load[way], 1) for way in WAYS), number(ratio(load["onnx"], load["onnxruntime"]), 2)]
        cells += [*(number(ms, 2) for ms in run.values()), number(ratio(run["onnx"], run["ort"]), 3)]
        lines.append([model, *cells])
    return lines


def arguments() -> argparse.Namespace:
    made = options.parser(__doc__, "cli", "threads", rounds=4)
    made.add_argument("--seconds", type=float, default=0.5)
    return options.parsed_with_cases(made, lambda _: [SECTION])


def main() -> None:
    args = arguments()
    where = machine.describe(args.cli, ["onnxruntime"])
    rows = {case.name: measure(args, case) for case in report.announced(args.cases)}
    lines = table(rows)
    if args.update:
        report.update(args.update, SECTION, report.section(where, report.as_markdown(lines)))
    print(where, report.as_text(lines), sep="\n\n")


if __name__ == "__main__":
    main()
