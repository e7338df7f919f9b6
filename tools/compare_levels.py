#!/usr/bin/env python3
"""Checks that a higher optimization level is never slower: every model at each level, alternating.

    python3 tools/compare_levels.py [--threads 1] [--markdown] [--update FILE] [CASE ...]

CASE is a folder as `make_models.py` writes it; the default is all of target/models/{real,built,hard}
(each as `model.raw.ort` and `model.default.ort`) and target/models/single, which is created
if it is missing. Levels that optimize a model to the same file, byte for byte, and run it in
the same steps share their measurements. A time is the minimum over the rounds of a round's 10th
percentile: interference makes a round slower and never faster. A model whose level `all` exceeds
the limit is measured again, up to `--most` rounds, to separate noise from a regression.

Exits with status 1 if level `all` takes more than `--limit` times the best level on any model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, options, programs, report
from peers.report import number

LEVELS = ("disable", "basic", "extended", "layout", "all")


def compare(args, case: Path, variant: str) -> dict:
    """One row: the minimum time at each level."""
    name = case.name if case.parent.name == "single" else f"{case.name} {variant}"
    row = {"model": name, "rounds": 0, **dict.fromkeys(LEVELS)}
    alike = levels_by_result(args, case, variant)
    while row["rounds"] < args.rounds or (
        row["rounds"] < args.most and (ratio(row) or 0) > args.limit
    ):
        for levels in alike if len(alike) > 1 or not row["rounds"] else []:
            flags = ["--threads", str(args.threads), "--seconds", str(args.seconds)]
            flags += ["--level", levels[-1], *args.extra.split()]
            record = programs.measured(programs.ours(args.cli, case, variant, *flags))
            if found := record.get("p10_ms"):
                row |= {level: min(row[level] or found, found) for level in levels}
        row["rounds"] += 1
    return row


def levels_by_result(args, case: Path, variant: str) -> list[list[str]]:
    """The levels, grouped by equal results."""
    groups: dict[tuple, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for level in LEVELS:
            out = Path(folder) / f"{level}.ort"
            flags = ["--level", level, *args.extra.split()]
            command = [args.cli, "optimize", str(case / f"model.{variant}.ort"), "-o", str(out)]
            done = subprocess.run([*command, *flags], check=False, capture_output=True)
            content = out.read_bytes() if done.returncode == 0 else level.encode()
            found = (hashlib.sha256(content).hexdigest(), steps(args, case, variant, flags))
            groups.setdefault(found, []).append(level)
    return list(groups.values())


def steps(args, case: Path, variant: str, flags: list[str]) -> str:
    """The steps that run, with their kernels and numbers of nodes. Level all may fuse more."""
    flags = [*flags, "--threads", "1", "--seconds", "0", "--nodes=1000000"]
    record = programs.measured(programs.ours(args.cli, case, variant, *flags))
    keys = ("node", "nodes", "kernel", "calls")
    found = [[node[key] for key in keys] for node in record.get("nodes", [])]
    return json.dumps(sorted(found)) if found else str(flags)


def ratio(row: dict) -> float | None:
    """The time at level `all` over that at the best level."""
    times = [row[level] for level in LEVELS]
    return row["all"] / min(times) if all(times) else None


def table(rows: list[dict]) -> list[list[str]]:
    lines = [["model", *LEVELS, "all / best", "best"]]
    for row in rows:
        times = {level: row[level] for level in LEVELS if row[level]}
        best = min(times, key=times.get) if times else "–"
        times = [number(row[level], 3) for level in LEVELS]
        lines.append([row["model"], *times, number(ratio(row), 3), best])
    return lines


def summary(rows: list[dict], limit: float) -> str:
    found = {row["model"]: ratio(row) for row in rows if ratio(row)}
    if not found:
        return "Nothing ran."
    worst = max(found, key=found.get)
    over = [f"{name} {value:.3f}" for name, value in found.items() if value > limit]
    failed = [row["model"] for row in rows if not ratio(row)]
    text = f"Worst: {worst} {found[worst]:.3f}. Above {limit}: {', '.join(over) or 'none'}."
    return text + (f" Did not run at every level: {', '.join(failed)}." if failed else "")


def arguments() -> argparse.Namespace:
    made = options.parser(
        __doc__, "cli", "threads", "extra", "markdown", "json", rounds=8, seconds=0.05
    )
    made.add_argument("--most", type=int, default=40, help="maximum number of rounds for models above the limit")
    made.add_argument("--limit", type=float, default=1.03)
    return options.parsed_with_cases(made, lambda _: ["levels"], everything)


def everything() -> list[Path]:
    models = environment.TARGET / "models"
    if not (models / "single").is_dir():
        from models import single

        single.make(models)
    cases = [sorted(models.glob(f"{part}/*")) for part in ("real", "built", "hard", "single")]
    return [case for part in cases for case in part]


def main() -> None:
    args = arguments()
    where = machine.describe(args.cli, [])
    rows = []
    for case in args.cases:
        variants = ["raw"] if case.parent.name == "single" else ["raw", "default"]
        for variant in variants:
            rows.append(compare(args, case, variant))
            line = table(rows)[-1]
            print("  ".join(line), f"({rows[-1]['rounds']} rounds)", file=sys.stderr, flush=True)
            if args.json:
                args.json.write_text(json.dumps({"machine": where, "rows": rows}, indent=1) + "\n")
    lines, text = table(rows), summary(rows, args.limit)
    section = report.section(where, report.as_markdown(lines), text)
    if args.update:
        report.update(args.update, "levels", section)
    print(section if args.markdown else f"{where}\n{report.as_text(lines)}\n{text}")
    sys.exit(any((ratio(row) or args.limit + 1) > args.limit for row in rows))


if __name__ == "__main__":
    main()
