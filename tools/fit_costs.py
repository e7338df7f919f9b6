#!/usr/bin/env python3
"""Fits the cost model of docs/scale.md on measured points, and checks it on others.

    python3 tools/fit_costs.py [--wheel WHEEL] [--update docs/scale.md]

Each quantity is a straight line of one variable, fitted by least relative squares on some points, and compared with a measurement at
points that it was not fitted on. The last line is the largest error.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import check_engines
import check_python
import compare_engines
import environment

#: Models of the repository, and those of make_models.py if they are there.
CASES = ("ppocr_cls", "magika", "mobilenetv2", "minilm")
#: What a run reads that measures the bandwidth: more than caches hold.
READ_BYTES = 256 << 20
#: How often processes run at once: other load on the machine only slows them.
N_ROUNDS = 6
#: The largest error that the model is for.
MOST = 0.15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the wheel to measure")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--update", type=Path, metavar="FILE", help="a document to update")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.measure:
        python = check_engines.prepared()
        check_engines.install(python, args.wheel or check_python.built(python, "dist"))
        sys.exit(subprocess.call([str(python), *sys.argv, "--measure"]))
    measure(args)


def measure(args: argparse.Namespace) -> None:
    from engines.work import CASES as known
    from peers import machine, report

    cases = [name for name in args.cases.split(",") if known[name][0].exists()]
    lines = [["quantity", "model", "fixed", "slope", "at", "predicted", "measured", "error"]]
    errors: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for quantity, points, checks, measured in quantities(cases, folder):
            fixed, slope = line(points, [measured(x) for x in points])
            for x in checks:
                predicted, found = fixed + slope * x, measured(x)
                errors.append(abs(predicted / found - 1))
                numbers = [f"{fixed:.4g}", f"{slope:.4g}", str(x), f"{predicted:.4g}", f"{found:.4g}", f"{errors[-1] * 100:.1f} %"]
                lines.append([*quantity, *numbers])
                print(*lines[-1], file=sys.stderr, flush=True)
    where = machine.describe("", ["ort_rs"])
    last = f"The largest error is {max(errors) * 100:.1f} %; the model is for errors up to {MOST * 100:.0f} %."
    print(where, report.as_text(lines), last, sep="\n\n")
    if args.update:
        report.update(args.update, "costs", report.section(where, report.as_markdown(lines), last))


def quantities(cases: Sequence[str], folder: str):
    """Each quantity: its name and model, the points to fit, the points to check, and its measurement at a point."""
    for case in cases:
        # Before this process maps the packed file, too; the first process writes it.
        mib(case, folder, 1)
        yield ("MiB of all processes, by processes", case), (1, 2), (4, 8), lambda n, case=case: mib(case, folder, n)
        yield ("CPU ms of a run, by rows", case), (1, 4, 16), (2, 8, 32), lambda n, case=case: cpu_ms(case, folder, n)
        yield ("bytes of a batch, by rows", case), (1, 4), (2, 32), lambda n, case=case: n_bytes(case, folder, n)
        yield ("runs per second, by processes", case), (1,), (2,), lambda n, case=case: runs_per_s(case, folder, n)
    yield ("GB/s read from memory, by processes", "–"), (1,), (2,), lambda n: runs_per_s("", folder, n) * READ_BYTES / 1e9


def line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """`fixed + slope * x` with the least sum of squared relative errors; through 0 if there is one point."""
    import numpy as np

    if len(xs) == 1:
        return 0.0, ys[0] / xs[0]
    rows = np.array([[1 / y, x / y] for x, y in zip(xs, ys)])
    fixed, slope = np.linalg.lstsq(rows, np.ones(len(xs)), rcond=None)[0]
    return float(fixed), float(slope)


def cpu_ms(case: str, folder: str, n_rows: int) -> float:
    from engines import work

    return min(work.run("ort_rs", case, folder, 0, n_rows)[0] for _ in range(12)) * 1e3


def mib(case: str, folder: str, n_processes: int) -> float:
    return compare_engines.pss("ort_rs", case, folder, n_processes)


def n_bytes(case: str, folder: str, n_rows: int) -> float:
    """What an engine sends for a batch and back: the pickled inputs and outputs."""
    from engines import work

    feed = {name: rows(range(n_rows)) for name, rows in work.CASES[case][1].items()}
    outputs = work.session("ort_rs", case, folder).run(None, feed)
    return len(pickle.dumps(feed, 5)) + len(pickle.dumps(outputs, 5))


def _runs(case: str, folder: str, barrier, queue) -> None:
    run = _run_of(case, folder)
    run()
    for _ in range(N_ROUNDS):
        barrier.wait()
        start, n_runs = time.perf_counter(), 0
        while time.perf_counter() < start + 0.5:
            run()
            n_runs += 1
        queue.put(n_runs / (time.perf_counter() - start))


def _run_of(case: str, folder: str) -> Callable[[], object]:
    """Runs a model on a batch, or reads memory if there is none."""
    if not case:
        import numpy as np

        return np.ones(READ_BYTES // 8).max
    from engines import work

    n_rows = work.CASES[case][2]
    feed = {name: rows(range(n_rows)) for name, rows in work.CASES[case][1].items()}
    session = work.session("ort_rs", case, folder)
    return lambda: session.run(None, feed)


def runs_per_s(case: str, folder: str, n_processes: int) -> float:
    """Runs of a batch per second of `n_processes` that run at once: the best of the rounds."""
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(n_processes + 1), context.SimpleQueue()
    processes = [context.Process(target=_runs, args=(case, folder, barrier, queue)) for _ in range(n_processes)]
    for process in processes:
        process.start()
    rounds = []
    for _ in range(N_ROUNDS):
        barrier.wait()
        rounds.append(sum(queue.get() for _ in processes))
    for process in processes:
        process.join()
    return max(rounds)


if __name__ == "__main__":
    main()
