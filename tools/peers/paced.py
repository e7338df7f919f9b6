#!/usr/bin/env python3
"""Runs onnxruntime at a fixed rate, from several threads, like our example `paced`, with the same output.

    paced.py MODEL THREADS CALLERS SECONDS HERTZ [KEY=VALUE ...]

KEY=VALUE are session options of onnxruntime.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np
import onnxruntime as ort

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
         "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}  # fmt: skip


def zeros(value) -> np.ndarray:
    """Zeros; unknown dimensions are 1."""
    shape = [dim if isinstance(dim, int) else 1 for dim in value.shape]
    return np.zeros(shape, TYPES[value.type])


def caller(session, feed: dict, seconds: float, pace: float, done: list) -> None:
    start, runs, busy = time.perf_counter(), 0, 0.0
    while time.perf_counter() - start < seconds:
        run = time.perf_counter()
        session.run(None, feed)
        took = time.perf_counter() - run
        busy, runs = busy + took, runs + 1
        time.sleep(max(pace - took, 0))
    done.append((runs, busy))


def main() -> None:
    model, threads, callers, seconds, hertz, *settings = sys.argv[1:]
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(threads)
    for key, _, value in (setting.partition("=") for setting in settings):
        options.add_session_config_entry(key, value)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {value.name: zeros(value) for value in session.get_inputs()}
    for _ in range(3):
        session.run(None, feed)
    pace = 1 / float(hertz) if float(hertz) else 0.0
    done: list[tuple[int, float]] = []
    start, before = time.perf_counter(), time.process_time()
    work = (session, feed, float(seconds), pace, done)
    all_callers = [threading.Thread(target=caller, args=work) for _ in range(int(callers))]
    for thread in all_callers:
        thread.start()
    for thread in all_callers:
        thread.join()
    record = {
        "runs": sum(runs for runs, _ in done),
        "seconds": time.perf_counter() - start,
        "busy_ms": sum(busy for _, busy in done) * 1e3,
        "cpu_ms": (time.process_time() - before) * 1e3,
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
