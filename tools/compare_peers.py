#!/usr/bin/env python3
"""Compares our runtime with onnxruntime and OpenVINO, model by model.

    python3 tools/compare_peers.py [--threads 1,2] [--markdown] [--json FILE]
                                   [--update docs/benchmarks.md] [CASE ...]

Each round runs every runtime once, each in its own process, so that drift of the machine
affects all alike. A time is the minimum over the rounds of a round's 10th percentile; memory is
the median over the rounds. A ratio below 1 means that ours is faster; `best` is the ratio to the
fastest of onnxruntime, OpenVINO and MNN (`--peers`) on the `.onnx` of that model. Models above 1.05 are listed.

`--update FILE` writes the section `<!-- measured: SECTION-THREADS -->` of a document, for each
number of threads; `--section` names it; the default is peers.

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
from peers.report import number

# Each peer on its native format: `best` is the faster of them.
AT_THEIR_BEST = ("ort-onnx", "openvino", "mnn")
NAMED_ABOVE = 1.05


def compare(args, case: Path, threads: int) -> dict:
    """One row: the summary of all rounds for each runtime."""
    flags = ["--threads", str(threads), "--seconds", str(args.seconds), *args.extra.split()]
    commands = {"ours": programs.ours(args.cli, case, args.variant, *flags)}
    peers = {name: programs.peer(name, case, threads, args.seconds) for name in args.peers}
    rounds: dict[str, list[dict]] = {name: [] for name in (*commands, *peers)}
    for _ in range(args.rounds):
        for name, command in (commands | peers).items():
            rounds[name].append(programs.measured(command))
    return {"model": case.name, **{name: programs.summarized(r) for name, r in rounds.items()}}


def ratios(row: dict, peers: list[str]) -> dict[str, float]:
    """Our time over that of each peer, and of the best one, where both ran."""
    mine = row["ours"].get("p10_ms")
    times = {name: row[name]["p10_ms"] for name in peers if "p10_ms" in row[name]}
    if not mine:
        return {}
    best = [times[name] for name in AT_THEIR_BEST if name in times]
    times |= {"best": min(best)} if best else {}
    return {name: mine / ms for name, ms in times.items()}


def times_table(rows: list[dict], peers: list[str]) -> list[list[str]]:
    lines = [["model", "ours ms", *(head for name in peers for head in (f"{name} ms", "ratio"))]]
    lines[0].append("best")
    for row in rows:
        ratio = ratios(row, peers)
        line = [row["model"], number(row["ours"].get("p10_ms"), 2)]
        for name in peers:
            line += [number(row[name].get("p10_ms"), 2), number(ratio.get(name), 2)]
        lines.append([*line, number(ratio.get("best"), 2)])
    return lines


def start_table(rows: list[dict], peers: list[str]) -> list[list[str]]:
    """Load time, and the private memory of loading and running."""
    runtimes = ["ours", *peers]
    lines = [["model", "load ms: ours", *peers, "private MiB: ours", *peers]]
    for row in rows:
        figures = [number(row[name].get(key), 0) for key in ("load_ms", "rss_anon_mib")
                   for name in runtimes]  # fmt: skip
        lines.append([row["model"], *figures])
    return lines


def summary(rows: list[dict], peers: list[str]) -> str:
    """The geometric mean of each ratio, the models that are too slow, and those that did not run."""
    of = {name: [] for name in ("best", *peers)}
    for row in rows:
        for name, ratio in ratios(row, peers).items():
            of[name].append(ratio)
    means = [f"{name} {report.geometric_mean(r):.3f}" for name, r in of.items() if r]
    slow = [f"{row['model']} {best:.2f}" for row in rows
            if (best := ratios(row, peers).get("best", 0)) > NAMED_ABOVE]  # fmt: skip
    failed = [f"{row['model']} on {name}" for row in rows for name in ("ours", *peers)
              if "p10_ms" not in row[name]]  # fmt: skip
    text = f"Geometric means of ratios: {', '.join(means) or 'none'}."
    text += f" Above {NAMED_ABOVE} of the best: {', '.join(slow) or 'none'}."
    return text + (f" Did not run: {', '.join(failed)}." if failed else "")


def arguments() -> argparse.Namespace:
    made = options.parser(
        __doc__, "cli", "variant", "extra", "markdown", "json",
        rounds=6, seconds=0.5, peers="ort-onnx,openvino,ort-default",
    )  # fmt: skip
    made.add_argument("--threads", **options.SEVERAL_THREADS)
    made.add_argument("--section", default="peers", help="its name in the document")
    return options.parsed_with_cases(
        made, lambda args: [f"{args.section}-{n}" for n in args.threads]
    )


def main() -> None:
    args = arguments()
    where = machine.describe(args.cli, ["onnxruntime", "openvino"])
    record = {"machine": where, "command": report.command(), "tables": {}}
    for threads in args.threads:
        announced = report.announced(args.cases, f", threads: {threads}")
        rows = [compare(args, case, threads) for case in announced]
        record["tables"][threads] = rows
        tables = [times_table(rows, args.peers), start_table(rows, args.peers)]
        text = summary(rows, args.peers)
        times, start = map(report.as_markdown, tables)
        section = report.section(where, times, text, start)
        if args.update:
            report.update(args.update, f"{args.section}-{threads}", section)
        if args.markdown:
            print(f"{section}\n")
        else:
            times, start = map(report.as_text, tables)
            print(f"{where}; threads: {threads}\n{times}\n{text}\n{start}\n", flush=True)
        if args.json:
            args.json.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(any("p10_ms" not in r["ours"] for rows in record["tables"].values() for r in rows))


if __name__ == "__main__":
    main()
