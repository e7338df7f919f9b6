#!/usr/bin/env python3
"""Measures the effect of a cache folder on the first, the second and later starts.

    python3 tools/compare_cache.py [--threads N] [--rounds N] [--update docs/memory.md] [CASE ...]

For each model: load time without a cache; of the first start with an empty one, which creates the
packed file and reads all of it back; and of two later starts, which know that it was verified. Then the
ratio of the tenth percentiles of runs with packed constants from the cache and packed in
memory, and private memory after the load of both. Every start is a separate process, the two
variants alternate, and a time is the minimum over the rounds.

`--update FILE` writes the section `<!-- measured: cache -->` of a document.
CASE is a folder as `make_models.py` writes it; the default is all of target/models/{real,built,hard}.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import environment

environment.enter("requirements-peers.txt", "venv-peers")

from peers import machine, options, programs, report
from peers.report import number, ratio

SECTION = "cache"
STARTS = ["first", "second", "third"]
# Long enough for the file system's clock to advance, so that the verification is remembered.
SETTLED_S = "0.1"


def measure(args, case: Path) -> dict:
    flags = ["--threads", str(args.threads), "--seconds"]
    plain = programs.ours(args.cli, case, "default", *flags, str(args.seconds))
    rounds: dict[str, list[dict]] = {name: [] for name in ("plain", "cached", *STARTS)}
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as folder:
            cached = [*plain, "--cache-dir", folder]
            short = programs.ours(args.cli, case, "default", *flags, SETTLED_S)
            for start in STARTS:
                rounds[start].append(programs.measured([*short, "--cache-dir", folder]))
            rounds["plain"].append(programs.measured(plain))
            rounds["cached"].append(programs.measured(cached))
    return {"model": case.name} | {name: programs.summarized(r) for name, r in rounds.items()}


def table(rows: list[dict]) -> list[list[str]]:
    starts = [f"{start} start" for start in STARTS]
    lines = [["load ms", "no cache", *starts, "run: cached / packed", "private MiB: cached", "packed"]]
    for row in rows:
        plain, cached = row["plain"], row["cached"]
        loads = [of.get("load_ms") for of in (plain, *(row[start] for start in STARTS))]
        runs = ratio(cached.get("p10_ms"), plain.get("p10_ms"))
        private = [of.get("rss_anon_loaded_mib") for of in (cached, plain)]
        cells = [*(number(ms, 1) for ms in loads), number(runs, 3)]
        lines.append([row["model"], *cells, *(number(mib, 1) for mib in private)])
    return lines


def arguments() -> argparse.Namespace:
    made = options.parser(__doc__, "cli", "threads", rounds=4, seconds=0.5)
    return options.parsed_with_cases(made, lambda _: [SECTION])


def main() -> None:
    args = arguments()
    where = machine.describe(args.cli, [])
    rows = [measure(args, case) for case in report.announced(args.cases)]
    lines = table(rows)
    if args.update:
        report.update(args.update, SECTION, report.section(where, report.as_markdown(lines)))
    print(where, report.as_text(lines), sep="\n\n")


if __name__ == "__main__":
    main()
