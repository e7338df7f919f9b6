#!/usr/bin/env python3
"""Measures one runtime on one model in one process, and prints a line of JSON.

    measure.py RUNTIME CASE THREADS SECONDS

RUNTIME is `ort-onnx` (onnxruntime on model.onnx), `ort-raw`, `ort-default`, `ort-all` (on that
`.ort` variant), `ort-mapped` (on model.default.ort, mapped), `openvino` or `mnn`. CASE is a folder
as `make_models.py` writes it. The fields are those of `ort-cli bench --json`, and `rel_err`, the
largest error of the first run.
"""

from __future__ import annotations

import functools
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import tensors

WARM_UP_RUNS = 3
FEWEST_RUNS = 5
# A mapped .ort file whose constants stay in the mapping.
MAPPED = (
    "session.use_memory_mapped_ort_model",
    "session.use_ort_model_bytes_for_initializers",
)


def onnxruntime(model: Path, threads: int, feed: dict, config: tuple = ()):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    for key in config:
        options.add_session_config_entry(key, "1")
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feed)


def openvino(model: Path, threads: int, feed: dict):
    import openvino

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(str(model), "CPU", config)
    request = compiled.create_infer_request()

    def run():
        results = request.infer(feed, share_inputs=True)
        return [results[output] for output in compiled.outputs]

    return run


def mnn(model: Path, threads: int, feed: dict):
    """MNN, on the file that its converter makes beside the model."""
    import MNN

    made = model.with_suffix(".mnn")
    convert = Path(sys.executable).with_name("mnnconvert")
    command = [convert, "-f", "ONNX", "--modelFile", model, "--MNNModel", made, "--bizCode", "x"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    outputs = [output.name for output in onnx.load(model).graph.output]
    config = {"backend": "CPU", "precision": "high", "numThread": threads}
    manager = MNN.nn.create_runtime_manager((config,))
    net = MNN.nn.load_module_from_file(str(made), list(feed), outputs, runtime_manager=manager)
    feed = [MNN.expr.const(x, list(x.shape), MNN.expr.NCHW) for x in feed.values()]
    return lambda: [MNN.expr.convert(y, MNN.expr.NCHW).read() for y in net.forward(feed)]


# The packages of the runtimes that are not onnxruntime.
PACKAGES = {"openvino": "openvino", "mnn": "MNN"}


def loader(runtime: str, case: Path):
    if runtime in PACKAGES:
        return globals()[runtime], case / "model.onnx"
    if runtime == "ort-mapped":
        return functools.partial(onnxruntime, config=MAPPED), case / "model.default.ort"
    variant = runtime.removeprefix("ort-")
    return onnxruntime, case / ("model.onnx" if variant == "onnx" else f"model.{variant}.ort")


def memory_mib() -> dict[str, float]:
    """Private and file-backed resident memory, and the peak of both; empty without /proc."""
    fields = {"RssAnon": "rss_anon_mib", "RssFile": "rss_file_mib", "VmHWM": "peak_rss_mib"}
    try:
        lines = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    except OSError:
        return {}
    values = {line[0].rstrip(":"): line for line in lines if line}
    return {name: int(values[key][1]) / 1024 for key, name in fields.items() if key in values}


def relative_error(found: list, expected: list) -> float:
    """The largest |found - expected| / (1e-3 + |expected|); infinite if the shapes differ."""
    worst = 0.0
    for y, x in zip(found, expected):
        y = np.asarray(y)
        if y.shape != x.shape:
            return float("inf")
        if x.dtype.kind == "f" and x.size:
            x, y = x.astype(np.float64), y.astype(np.float64)
            worst = max(worst, float(np.nanmax(np.abs(y - x) / (1e-3 + np.abs(x)))))
    return worst


def timed(run) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    runtime, case, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    seconds = float(sys.argv[4])
    feed = tensors.read(case / "test_data_set_0", "input")
    expected = list(tensors.read(case / "test_data_set_0", "output").values())
    load, model = loader(runtime, case)
    before = memory_mib()
    # Importing the library is not part of loading a model.
    importlib.import_module(PACKAGES.get(runtime, "onnxruntime"))
    start = time.perf_counter()
    run = load(model, threads, feed)
    loaded = time.perf_counter()
    found = run()
    first = time.perf_counter()
    for _ in range(WARM_UP_RUNS):
        run()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < FEWEST_RUNS:
        times.append(timed(run))
    times.sort()
    percentiles = {f"p{p}_ms": times[len(times) * p // 100] for p in (10, 50, 90, 99)}
    record = {
        "load_ms": (loaded - start) * 1e3,
        "first_ms": (first - loaded) * 1e3,
        **percentiles,
        "runs": len(times),
        "threads": threads,
        # Python and numpy were loaded before: only memory added by the runtime counts.
        **{name: mib - before[name] for name, mib in memory_mib().items()},
        "before_anon_mib": before.get("rss_anon_mib", 0),
        "rel_err": relative_error(found, expected),
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
