"""What a worker of an engine does: a session of a model in a process, and runs on rows that the worker makes itself.

    work.py hold RUNTIME CASE CACHE      loads, runs once, prints a line, and waits until its input ends
"""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "target" / "models" / "built"


def image(*shape: int):
    """Rows of an image, by their numbers."""

    def rows(ids: Any) -> np.ndarray:
        phase = np.asarray(ids, np.float32)[:, None] * np.float32(0.37)
        place = np.arange(np.prod(shape), dtype=np.float32) * np.float32(0.011)
        return np.sin(phase + place).reshape(-1, *shape)

    return rows


def numbers(length: int, most: int, kind: type):
    """Rows of integers below `most`, by their numbers."""

    def rows(ids: Any) -> np.ndarray:
        return ((np.asarray(ids, np.int64)[:, None] * 7919 + np.arange(length) * 104729) % most).astype(kind)

    return rows


def ones(length: int):
    return lambda ids: np.ones((len(ids), length), np.int64)


#: For each model: its file, its inputs, and the rows of a batch.
CASES: dict[str, tuple[Path, dict[str, Any], int]] = {
    "ppocr_cls": (ROOT / "models/ppocr_cls/model.onnx", {"x": image(3, 48, 192)}, 32),
    "magika": (ROOT / "models/magika/model.ort", {"bytes": numbers(2048, 256, np.int32)}, 32),
    "mobilenetv2": (BUILT / "mobilenetv2/model.onnx", {"input": image(3, 224, 224)}, 8),
    "resnet50": (BUILT / "resnet50/model.onnx", {"input": image(3, 224, 224)}, 1),
    "minilm": (
        BUILT / "minilm/model.onnx",
        {"input_ids": numbers(64, 30000, np.int64), "attention_mask": ones(64), "token_type_ids": numbers(64, 1, np.int64)},
        8,
    ),
}


@cache
def session(runtime: str, case: str, folder: str) -> Any:
    """The session of this process, on one thread. `ort_rs:no_arena` retains no memory of runs."""
    path = str(CASES[case][0])
    if runtime.startswith("ort_rs"):
        import ort_rs

        options = ort_rs.SessionOptions()
        options.intra_op_num_threads = 1
        if runtime.endswith(":no_arena"):
            options.enable_cpu_mem_arena = False
        return ort_rs.InferenceSession(path, options, cache_dir=folder)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(runtime: str, case: str, folder: str, start: int, n_rows: int) -> tuple[float, float]:
    """Runs a batch; returns the CPU seconds of the run, and the time at its end."""
    feed = {name: rows(range(start, start + n_rows)) for name, rows in CASES[case][1].items()}
    loaded = session(runtime, case, folder)
    before = time.thread_time()
    loaded.run(None, feed)
    return time.thread_time() - before, time.time()


def hold(runtime: str, case: str, folder: str) -> None:
    """A process of a runtime, with a model unless `case` is empty."""
    __import__(runtime.partition(":")[0])
    if case:
        run(runtime, case, folder, 0, 1)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    hold(*sys.argv[2:])
