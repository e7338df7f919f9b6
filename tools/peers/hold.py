#!/usr/bin/env python3
"""Loads several models at once in one runtime and process, which pauses at each stage for inspection.

    hold.py RUNTIME THREADS RUNS CASE [CASE ...]

It prints a stage's name and waits for a line: `base` (the runtime is imported, the inputs are read),
`loaded`, `ran` (each model, RUNS times), `dropped`. RUNTIME and CASE are those of `measure.py`.
"""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path

import tensors
from measure import loader


def stage(name: str) -> None:
    gc.collect()
    print(name, flush=True)
    sys.stdin.readline()


def main() -> None:
    runtime, threads, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    cases = [Path(case) for case in sys.argv[4:]]
    feeds = [tensors.read(case / "test_data_set_0", "input") for case in cases]
    importlib.import_module("openvino" if runtime == "openvino" else "onnxruntime")
    stage("base")
    sessions = []
    for case, feed in zip(cases, feeds):
        load, model = loader(runtime, case)
        sessions.append(load(model, threads, feed))
    stage("loaded")
    for run in sessions:
        for _ in range(runs):
            run()
    stage("ran")
    sessions.clear()
    # The loop variable holds the last one.
    run = None
    stage("dropped")


if __name__ == "__main__":
    main()
