#!/usr/bin/env python3
"""Compares onnxruntime with ort_rs in the worker processes of engines: memory, and rows per second and core.

    python3 tools/compare_engines.py [--wheel WHEEL] [--cases A,B] [--engines A,B] [--rounds N] [--update docs/scale.md]

Memory: PSS, summed over 1, 2, 4 and 8 processes that have loaded a model and run it on one row, above as many processes that have
imported the runtime; of ort_rs, also with sessions that return the memory of each run (`enable_cpu_mem_arena = False`). Throughput: rows per CPU second of the runs and per second of the job, in each engine with two workers of one
thread; the runtimes alternate, and the result is the best of the rounds. Tasks: empty ones that each engine runs per second. Models that `make_models.py` has not written are omitted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import check_engines
import check_python
import environment

RUNTIMES = ("ort_rs", "onnxruntime")
#: What holds a model when memory is measured.
HOLDERS = {"ort_rs": "ort_rs", "ort_rs:no_arena": "ort_rs, no arena", "onnxruntime": "onnxruntime"}
COUNTS = (1, 2, 4, 8)
#: How many empty tasks are timed.
N_TASKS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the wheel to measure")
    parser.add_argument("--cases", default="ppocr_cls,magika,mobilenetv2,resnet50,minilm")
    parser.add_argument("--engines", default="pool,dask,ray,spark")
    parser.add_argument("--only", choices=["memory", "throughput", "tasks"], help="measure one of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="about how long a job takes")
    parser.add_argument("--update", type=Path, metavar="FILE", help="a document to update")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure(args)
    python = check_engines.prepared()
    check_engines.install(python, args.wheel or check_python.built(python, "dist"))
    sys.exit(subprocess.call([str(python), *sys.argv, "--measure"]))


def measure(args: argparse.Namespace) -> None:
    from engines.work import CASES
    from peers import machine, report

    cases = [name for name in args.cases.split(",") if CASES[name][0].exists()]
    engines = args.engines.split(",")
    packages = [{"spark": "pyspark", "dask": "distributed"}.get(name, name) for name in engines if name != "pool"]
    parts = {
        "memory": memory,
        "throughput": lambda cases, folder: throughput(args, cases, engines, folder),
        "tasks": lambda cases, folder: tasks(engines),
    }
    for name, part in parts.items():
        if args.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                lines = part(cases, folder)
            where = machine.describe("", ["ort_rs", "onnxruntime", *(packages if name != "memory" else [])])
            print(where, report.as_text(lines), sep="\n\n")
            if args.update:
                report.update(args.update, f"engines-{name}", report.section(where, report.as_markdown(lines)))


def memory(cases: list[str], folder: str) -> list[list[str]]:
    lines = [["PSS, MiB, of processes", "runtime", *map(str, COUNTS), "8 / 1"]]
    base = {runtime: [pss(runtime, "", folder, n) for n in COUNTS] for runtime in RUNTIMES}
    lines += [["no model", runtime, *(f"{it:.0f}" for it in base[runtime]), "–"] for runtime in RUNTIMES]
    for case in cases:
        for runtime, title in HOLDERS.items():
            # The first process of ort_rs writes the packed file, and is not counted.
            pss(runtime, case, folder, 1)
            none = base[runtime.partition(":")[0]]
            above = [pss(runtime, case, folder, n) - without for n, without in zip(COUNTS, none)]
            lines.append([case, title, *(f"{it:.1f}" for it in above), f"{above[-1] / above[0]:.2f}"])
            print(*lines[-1], file=sys.stderr, flush=True)
    return lines


def pss(runtime: str, case: str, folder: str, n_processes: int) -> float:
    """The sum of the processes' proportional set sizes, in MiB."""
    command = [sys.executable, str(environment.TOOLS / "engines" / "work.py"), "hold", runtime, case, folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = []
    try:
        # One after the other: the first writes the packed file.
        for _ in range(n_processes):
            processes.append(subprocess.Popen(command, **pipes))
            if processes[-1].stdout.readline() != "ready\n":
                raise SystemExit(f"{' '.join(command)} failed")
        return sum(map(pss_of, processes))
    finally:
        for process in processes:
            process.communicate()


def pss_of(process: subprocess.Popen) -> float:
    for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("the system does not report PSS")


def throughput(args: argparse.Namespace, cases: list[str], engines: list[str], folder: str) -> list[list[str]]:
    from engines.jobs import ENGINES

    head = ["rows per second", "engine"]
    lines = [[*head, "a core: ort_rs", "onnxruntime", "ratio", "the job: ort_rs", "onnxruntime", "ratio"]]
    for engine in engines:
        with ENGINES[engine]() as job:
            for case in cases:
                best = rates(args, job, case, folder)
                cells = []
                for kind in (0, 1):
                    ours, theirs = (best[runtime][kind] for runtime in RUNTIMES)
                    cells += [f"{ours:.0f}", f"{theirs:.0f}", f"{ours / theirs:.2f}"]
                lines.append([case, engine, *cells])
                print(*lines[-1], file=sys.stderr, flush=True)
    return lines


def rates(args: argparse.Namespace, job, case: str, folder: str) -> dict[str, tuple[float, float]]:
    """For each runtime, rows per CPU second of a run and per second of the job: the best of the rounds."""
    from engines.work import CASES

    n_rows, best = CASES[case][2], {runtime: (0.0, 0.0) for runtime in RUNTIMES}
    for runtime in RUNTIMES:
        job(runtime, case, folder, [0] * 8, n_rows)
    once = max(min(job(runtime, case, folder, [0] * 8, n_rows)) for runtime in RUNTIMES)
    starts = [i * n_rows for i in range(max(4, int(2 * args.seconds / once)))]
    for _ in range(args.rounds):
        for runtime in RUNTIMES:
            before = time.perf_counter()
            seconds = job(runtime, case, folder, starts, n_rows)
            of_job = len(starts) * n_rows / (time.perf_counter() - before)
            of_core = len(starts) * n_rows / sum(seconds)
            best[runtime] = (max(best[runtime][0], of_core), max(best[runtime][1], of_job))
    return best


def tasks(engines: list[str]) -> list[list[str]]:
    """How many tasks that do nothing each engine runs per second."""
    from engines.jobs import ENGINES

    lines = [["engine", "tasks per second"]]
    for engine in engines:
        with ENGINES[engine]() as job:
            rates = []
            for _ in range(3):
                before = time.perf_counter()
                job("", "", "", list(range(N_TASKS)), 1)
                rates.append(N_TASKS / (time.perf_counter() - before))
        lines.append([engine, f"{max(rates):.0f}"])
    return lines


if __name__ == "__main__":
    main()
