#!/usr/bin/env python3
"""Measures how sessions affect each other, and the speedup by parallel branches.

    cargo build --release -p ort-cli
    cargo build --release -p ort-session --example in_turns --example side_by_side
    python3 tools/compare_sessions.py [--rounds N] [--seconds S] [--update docs/benchmarks.md] [CASE ...]

Denormals: mobilenetv2 and a copy of it with denormal weights, two sessions of one process, created in
either order, whose runs alternate on one thread. Ours flush as they do by default; those of
onnxruntime by its key, where the table says so: the first session of a process decides for all.

Modes: a run in sequential and in parallel mode, with two threads: of graphs of matrix products with
four branches or none, and of each CASE, a folder as `make_models.py` writes it.

Each round runs every variant once, each in its own process; times are the minimum over the rounds.
`--update FILE` writes the sections `denormals` and `modes` of a document.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, options, programs, report
from peers.report import number

EXAMPLES = environment.TARGET / "release/examples"
IN_TURNS = environment.TOOLS / "peers/in_turns.py"
PLAIN, DENORMAL = "mobilenetv2", "mobilenetv2_denormal"
ORDERS = {"it is first": (PLAIN, DENORMAL), "it is second": (DENORMAL, PLAIN)}
# Which sessions flush: the first and the second.
ONNXRUNTIME = {"onnxruntime": "00", "onnxruntime, both flush": "11",
               "onnxruntime, the second flushes": "01"}  # fmt: skip
MODES = ("sequential", "parallel")


def checked(record: dict) -> dict:
    if "error" in record:
        raise SystemExit(record["error"])
    return record


def in_turns(args, way: str, order: tuple[str, str]) -> dict[str, float]:
    """The minimum milliseconds of each model."""
    folders = [options.MODELS / "built" / name for name in order]
    if way == "ours":
        program = [str(EXAMPLES / "in_turns"), "1", str(args.seconds)]
        command = [*program, *(str(folder / "model.default.ort") for folder in folders)]
    else:
        peer = [sys.executable, str(IN_TURNS), "1", str(args.seconds), ONNXRUNTIME[way]]
        command = [*peer, *(str(folder / "model.onnx") for folder in folders)]
    return dict(zip(order, checked(programs.measured(command))["ms"]))


def denormals(args) -> list[list[str]]:
    least: dict[tuple[str, str], dict[str, float]] = {}
    for _ in range(args.rounds):
        for way in ("ours", *ONNXRUNTIME):
            for name, order in ORDERS.items():
                found = in_turns(args, way, order)
                kept = least.setdefault((way, name), found)
                least[way, name] = {model: min(kept[model], found[model]) for model in found}
    lines = [[f"sessions; {PLAIN}:", "its ms", f"{DENORMAL} ms", "ratio"]]
    for (way, name), it in least.items():
        figures = (it[PLAIN], it[DENORMAL], it[DENORMAL] / it[PLAIN])
        lines.append([f"{way}; {name}", *(number(figure, 2) for figure in figures)])
    return lines


def of_products(args) -> dict[str, dict[str, float]]:
    """The minimum milliseconds of each graph in each mode."""
    command = [str(EXAMPLES / "side_by_side"), "2", str(args.seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return {it["case"]: {mode: it[f"{mode}_ms"] for mode in MODES} for it in records}


def of_case(args, case: Path) -> dict[str, float]:
    flags = ("--threads", "2", "--seconds", str(args.seconds), "--execution-mode")
    commands = {mode: programs.ours(args.cli, case, "default", *flags, mode) for mode in MODES}
    return {
        mode: checked(programs.measured(command))["p10_ms"] for mode, command in commands.items()
    }


def modes(args) -> list[list[str]]:
    least: dict[str, dict[str, float]] = {}
    for _ in range(args.rounds):
        found = of_products(args) | {case.name: of_case(args, case) for case in args.cases}
        for name, it in found.items():
            kept = least.setdefault(name, it)
            least[name] = {mode: min(kept[mode], it[mode]) for mode in MODES}
    lines = [["2 threads", *(f"{mode} ms" for mode in MODES), "speedup"]]
    for name, it in least.items():
        figures = [number(it[mode], 2) for mode in MODES]
        lines.append([name, *figures, number(it["sequential"] / it["parallel"], 2)])
    return lines


def main() -> None:
    made = options.parser(__doc__, "cli", rounds=3, seconds=1)
    args = options.parsed_with_cases(made, lambda _: ["denormals", "modes"])
    where = machine.describe(args.cli, ["onnxruntime"])
    found = {"denormals": denormals(args), "modes": modes(args)}
    print(where, *map(report.as_text, found.values()), sep="\n")
    for name, lines in found.items() if args.update else ():
        report.update(args.update, name, report.section(where, report.as_markdown(lines)))


if __name__ == "__main__":
    main()
