#!/usr/bin/env python3
"""Compares the activation memory of a run with onnxruntime's: planned, counted, and resident.

    python3 tools/compare_activations.py [--threads 1,2] [--markdown] [--json FILE]
                                         [--update docs/memory.md] [CASE ...]

`planned` is what our runtime reports before a run: the arena, scratch of all threads included, plus the
outputs; `lower bound` is the maximum of their live bytes. `in use` and
`held` are figures of onnxruntime's arena: its peak use, and its allocation from the system.
Memory that its kernels allocate elsewhere, such as packed operands, is in neither. `resident` is
the growth of anonymous memory from before the first run to after the last, each runtime in its own
process, alternating, the median of the rounds. It does not measure what runs need if loading leaves
free memory in the heap, which runs use first. It shows whether runs retain more
than planned.

`--update FILE` writes the section `<!-- measured: activations-THREADS -->` of a document, for each
number of threads. Exits with status 1 if an arena is larger than onnxruntime's.

CASE is a folder as `make_models.py` writes it; the default is all of target/models/{real,built,hard}.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, options, programs, report

SCRIPT = environment.TOOLS / "peers" / "activations.py"
MIB = 1 << 20


def compare(args, case: Path, threads: int) -> dict:
    """One row, in bytes."""
    ask = [sys.executable, str(SCRIPT)]
    bench = programs.ours(args.cli, case, args.variant, "--threads", str(threads), "--seconds", "0")
    row = {"model": case.name, **programs.measured([*ask, "counted", str(case), str(threads)])}
    grown: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(args.rounds):
        ours = programs.measured(bench)
        if plan := ours.get("planned"):
            row |= {"planned": plan["arena"] + plan["outputs"], "dynamic": plan["dynamic_steps"]}
            row["bound"] = plan["live"] + plan["outputs"]
            grown["ours"].append((ours["rss_anon_mib"] - ours["rss_anon_loaded_mib"]) * MIB)
        theirs = programs.measured([*ask, "resident", str(case), str(threads)])
        grown["theirs"] += [theirs["resident"]] if "resident" in theirs else []
    return row | {f"{name}_resident": statistics.median(of) for name, of in grown.items() if of}


def size(n_bytes: float | None) -> str:
    """In MiB; small sizes have more digits."""
    return report.number(n_bytes / MIB if n_bytes is not None else None, 2)


def table(rows: list[dict]) -> list[list[str]]:
    heads = ["planned", "lower bound", "in use", "held", "resident: ours", "onnxruntime"]
    keys = ["planned", "bound", "in_use", "held", "ours_resident", "theirs_resident"]
    lines = [["model, MiB", *heads]]
    for row in rows:
        mark = " *" if row.get("dynamic") else ""
        lines.append([row["model"] + mark, *(size(row.get(key)) for key in keys)])
    return lines


def above(rows: list[dict], ours: str, theirs: str) -> list[str]:
    """The models for which ours is larger."""
    pairs = [(row["model"], row.get(ours), row.get(theirs)) for row in rows]
    return [f"{model} {a / max(b, 1):.2f}" for model, a, b in pairs
            if a is not None and b is not None and a > b]  # fmt: skip


def summary(rows: list[dict]) -> str:
    text = []
    for what, ours, theirs in (
        ("planned is larger than its arena", "planned", "held"),
        ("planned is larger than the peak use of its arena", "planned", "in_use"),
    ):
        text.append(f"{what}: {', '.join(above(rows, ours, theirs)) or 'none'}")
    failed = [row["model"] for row in rows if "planned" not in row or "held" not in row]
    text += [f"did not run: {', '.join(failed)}"] if failed else []
    if any(row.get("dynamic") for row in rows):
        text.append("with *, some steps use memory whose size is known only at run time")
    return ". ".join(part[0].upper() + part[1:] for part in text) + "."


def arguments() -> argparse.Namespace:
    made = options.parser(__doc__, "cli", "variant", "markdown", "json", rounds=3)
    made.add_argument("--threads", **options.SEVERAL_THREADS)
    return options.parsed_with_cases(made, lambda args: [f"activations-{n}" for n in args.threads])


def main() -> None:
    args = arguments()
    where = machine.describe(args.cli, ["onnxruntime"])
    record = {"machine": where, "command": report.command(), "tables": {}}
    for threads in args.threads:
        announced = report.announced(args.cases, f", threads: {threads}")
        rows = [compare(args, case, threads) for case in announced]
        record["tables"][threads] = rows
        lines, text = table(rows), summary(rows)
        section = report.section(where, report.as_markdown(lines), text)
        if args.update:
            report.update(args.update, f"activations-{threads}", section)
        if args.markdown:
            print(f"{section}\n")
        else:
            print(f"{where}; threads: {threads}\n{report.as_text(lines)}\n{text}\n", flush=True)
        if args.json:
            args.json.write_text(json.dumps(record, indent=1) + "\n")
    every = [row for rows in record["tables"].values() for row in rows]
    sys.exit(any("planned" not in r for r in every) or bool(above(every, "planned", "held")))


if __name__ == "__main__":
    main()
