#!/usr/bin/env python3
"""Alternates runs of onnxruntime sessions in one process, like our example `in_turns`.

    in_turns.py THREADS SECONDS FLUSH MODEL ...

FLUSH has a digit for each model: 1 if its session is configured to flush denormals.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import onnxruntime as ort


def session(model: str, threads: int, flush: str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.set_denormal_as_zero", flush)
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def feed(of: ort.InferenceSession) -> dict[str, np.ndarray]:
    """As in our example: unknown dimensions are 1."""

    def numbers(value) -> np.ndarray:
        shape = [dim if isinstance(dim, int) else 1 for dim in value.shape]
        indices = np.arange(np.prod(shape, dtype=np.int64))
        return (indices * 7919 % 2003 / 1001 - 1).astype(np.float32).reshape(shape)

    return {value.name: numbers(value) for value in of.get_inputs()}


def main() -> None:
    threads, seconds, flush, *models = sys.argv[1:]
    sessions = [session(model, int(threads), of) for model, of in zip(models, flush)]
    feeds = [feed(of) for of in sessions]
    least, start = [float("inf")] * len(sessions), time.perf_counter()
    while time.perf_counter() - start < float(seconds):
        for i, (of, given) in enumerate(zip(sessions, feeds)):
            run = time.perf_counter()
            of.run(None, given)
            least[i] = min(least[i], (time.perf_counter() - run) * 1e3)
    print(json.dumps({"ms": least}))


if __name__ == "__main__":
    main()
