#!/usr/bin/env python3
"""Our runtime beside onnxruntime and OpenVINO, model by model.

    python3 tools/compare_peers.py [--threads 1] [--markdown] [--json FILE] [CASE ...]

Each round runs every runtime once, in turns and each in its own process, so that a machine that
drifts hits all alike. The figure is the median over the rounds of a round's 10th percentile. A
ratio below 1 means that ours is faster; `best` is the ratio to the fastest peer on that model.

CASE is a folder as `make_models.py` writes it; without any, all of target/models/{real,built}.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine

ROOT = environment.TOOLS.parent
MEASURE = environment.TOOLS / "peers/measure.py"
TIMEOUT_S = 300


def ours(args, case: Path) -> list[str]:
    model = case / f"model.{args.variant}.ort"
    inputs = case / "test_data_set_0"
    flags = ["--threads", str(args.threads), "--seconds", str(args.seconds), "--json"]
    model = model if model.exists() else case / "model.ort"
    return [args.cli, "bench", str(model), "--inputs", str(inputs), *flags, *args.extra.split()]


def peer(args, name: str, case: Path) -> list[str]:
    return [sys.executable, str(MEASURE), name, str(case), str(args.threads), str(args.seconds)]


def measured(command: list[str]) -> dict:
    """The JSON of a command's last line, or {"error": …}."""
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        record = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, IndexError, ValueError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    if record.get("rel_err") == math.inf:
        return {"error": "an output has the wrong shape"}
    return record


def compare(args, case: Path) -> dict:
    """One row: for each runtime its figure, and the median of everything else it measured."""
    commands = {"ours": ours(args, case)}
    commands |= {name: peer(args, name, case) for name in args.peers}
    rounds = [{name: measured(command) for name, command in commands.items()}
              for _ in range(args.rounds)]  # fmt: skip
    return {"model": case.name, **{name: medians([r[name] for r in rounds]) for name in commands}}


def medians(records: list[dict]) -> dict:
    good = [record for record in records if "p10_ms" in record]
    if not good:
        return records[-1]
    numbers = [key for key, value in good[0].items() if isinstance(value, (int, float))]
    return {key: statistics.median(record[key] for record in good) for key in numbers}


def ratios(row: dict, peers: list[str]) -> dict[str, float]:
    """Our time over that of each peer, and of the best one, where both ran."""
    mine = row["ours"].get("p10_ms")
    times = {name: row[name]["p10_ms"] for name in peers if "p10_ms" in row[name]}
    if not mine or not times:
        return {}
    return {name: mine / ms for name, ms in (times | {"best": min(times.values())}).items()}


def table(rows: list[dict], peers: list[str]) -> list[list[str]]:
    """The lines of the report, the first of them the heads of the columns."""
    heads = ["model", "ours ms"]
    heads += [head for name in peers for head in (f"{name} ms", "ratio")]
    lines = [[*heads, "best", "load ms: ours", *peers, "private MiB: ours", *peers]]
    for row in rows:
        ratio = ratios(row, peers)
        figure = [number(row["ours"].get("p10_ms"), 2)]
        for name in peers:
            figure += [number(row[name].get("p10_ms"), 2), number(ratio.get(name), 2)]
        runtimes = ["ours", *peers]
        load = [number(row[name].get("load_ms"), 0) for name in runtimes]
        memory = [number(row[name].get("rss_anon_mib"), 0) for name in runtimes]
        lines.append([row["model"], *figure, number(ratio.get("best"), 2), *load, *memory])
    return lines


def number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def summary(rows: list[dict], peers: list[str]) -> str:
    """The geometric mean of each ratio, and what did not run."""
    logs: dict[str, list[float]] = {}
    for row in rows:
        for name, ratio in ratios(row, peers).items():
            logs.setdefault(name, []).append(math.log(ratio))
    means = [f"{name} {math.exp(statistics.mean(values)):.3f}" for name, values in logs.items()]
    failed = [f"{row['model']} on {name}" for row in rows for name in ("ours", *peers)
              if "p10_ms" not in row[name]]  # fmt: skip
    text = "Geometric mean of ratios: " + (", ".join(means) or "none")
    return text + (f". Did not run: {', '.join(failed)}" if failed else "") + "."


def as_markdown(lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(lines[0]) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def as_text(lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines)]
    aligned = ([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines)
    return "\n".join("  ".join(cells) for cells in aligned)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", type=Path, metavar="CASE")
    parser.add_argument("--cli", default=str(ROOT / "target/release/ort-cli"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--variant", default="default", help="the .ort that ours runs")
    parser.add_argument("--peers", default="ort-onnx,openvino", help="see peers/measure.py")
    parser.add_argument("--extra", default="", help="further flags for our bench")
    parser.add_argument("--markdown", action="store_true", help="a section for a document")
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    args = parser.parse_args()
    args.peers = [name for name in args.peers.split(",") if name]
    models = environment.TARGET / "models"
    args.cases = args.cases or sorted([*models.glob("real/*"), *models.glob("built/*")])
    if not args.cases:
        parser.error("no models: make them with tools/make_models.py")
    return args


def main() -> None:
    args = arguments()
    rows = []
    for case in args.cases:
        print(f"measuring {case.name}", file=sys.stderr, flush=True)
        rows.append(compare(args, case))
    lines = table(rows, args.peers)
    where = machine.describe(args.cli, ["onnxruntime", "openvino"])
    command = shlex.join(["python3", "tools/compare_peers.py", *sys.argv[1:]])
    if args.markdown:
        print(f"{where}.\n\n    {command}\n\n{as_markdown(lines)}\n\n{summary(rows, args.peers)}")
    else:
        print(f"{where}\n{as_text(lines)}\n{summary(rows, args.peers)}")
    if args.json:
        record = {"machine": where, "command": command, "rows": rows}
        args.json.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(any("p10_ms" not in row["ours"] for row in rows))


if __name__ == "__main__":
    main()
