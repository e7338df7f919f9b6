#!/usr/bin/env python3
"""Measures the memory of onnxruntime's runs of a model beyond that of loading; prints a line of JSON.

    activations.py counted|resident CASE THREADS

`counted` reads its arena's figures, which a profile contains since 1.31.1: `in_use` is the peak
use, `held` is what the arena allocated from the system. `resident` is the growth of the
process' anonymous memory, in a separate process, because profiling uses memory too. All in bytes.
CASE is a folder as `make_models.py` writes it; its `model.onnx` is run.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import measure
import onnxruntime as ort
import tensors

RUNS = 5


def session(case: Path, threads: int, profile: str | None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if profile:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    providers = ["CPUExecutionProvider"]
    return ort.InferenceSession(str(case / "model.onnx"), options, providers=providers)


def counted(case: Path, threads: int, feed: dict) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        model = session(case, threads, f"{folder}/profile")
        for _ in range(RUNS):
            model.run(None, feed)
        events = json.loads(Path(model.end_profiling()).read_text())
    nodes = [event["args"] for event in sorted(events, key=lambda event: event["ts"])
             if "mem_bytes_in_use" in event.get("args", {})]  # fmt: skip
    first, last = nodes[0], nodes[-1]
    loaded = int(first["mem_bytes_in_use"]) - int(first["mem_in_use_delta"])
    held = int(first["mem_arena_held"]) - int(first["mem_arena_held_delta"])
    # The peak includes temporary allocations of kernels, unless it is that of loading.
    peak = max(int(node["mem_bytes_in_use"]) for node in nodes)
    if int(last["mem_in_use_peak"]) > int(first["mem_in_use_peak"]):
        peak = max(peak, int(last["mem_in_use_peak"]))
    most_held = max(int(node["mem_arena_held"]) for node in nodes)
    return {"in_use": peak - loaded, "held": most_held - held}


def resident(case: Path, threads: int, feed: dict) -> dict:
    model = session(case, threads, None)
    before = measure.memory_mib()
    for _ in range(RUNS):
        model.run(None, feed)
    grown = measure.memory_mib()["rss_anon_mib"] - before["rss_anon_mib"]
    return {"resident": grown * (1 << 20)}


def main() -> None:
    kind, case, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    feed = tensors.read(case / "test_data_set_0", "input")
    print(json.dumps({"counted": counted, "resident": resident}[kind](case, threads, feed)))


if __name__ == "__main__":
    main()
