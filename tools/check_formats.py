#!/usr/bin/env python3
"""Checks that a model gives the same results from `.onnx` and `.ort`, and that onnxruntime loads what `ort-cli convert` writes.

    python3 tools/check_formats.py [--cli target/release/ort-cli] [--levels disable,all] [CASE ...]

CASE is a folder with model.onnx, model.raw.ort (or model.ort) and test_data_set_0/, as make_models.py writes
it; the default is all of target/models/{real,built,hard}. For each case:

    LEVEL      `ort-cli run` gives the same outputs from both files at the level, bit for bit; close (within
               tol.txt), where ONNX Runtime inserted casts into the .ort around what it cannot compute in float16
    to ort     onnxruntime at ORT_DISABLE_ALL computes the same from the `.ort` that `convert` writes from the
    to onnx    `.onnx`, and from the `.onnx` that it writes from the `.ort`, as from model.onnx; bit for bit, or
               within the case's tolerance, which is reported

"not compared": onnxruntime does not run the original.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import environment

environment.enter()

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from peers import tensors

FATAL_ONLY = 4
ROW = "{:34} {:10} {}"


def cases(folders: list[Path]) -> list[Path]:
    if folders:
        return folders
    parts = (environment.TARGET / "models" / part for part in ("real", "built", "hard"))
    return [case for part in parts if part.is_dir() for case in sorted(part.iterdir())]


def call(*words) -> str:
    """Runs a command; returns its error message if it fails."""
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def same_bytes(cli: Path, models: list[Path], level: str, scratch: Path) -> str:
    """Compares the outputs of `ort-cli run` for both models."""
    made, data = [], models[0].parent / "test_data_set_0"
    tolerance = [float(number) for number in (models[0].parent / "tol.txt").read_text().split()]
    for i, model in enumerate(models):
        out = scratch / f"{level}-{i}"
        words = [cli, "run", model, "--inputs", data, "--level", level, "--threads", "1"]
        if failed := call(*words, "--output", out):
            return failed
        made.append({path.name: path.read_bytes() for path in out.iterdir()})
    if made[0] == made[1]:
        return "same"
    is_close = has_halves(models[0]) and all(close(made, name, tolerance) for name in made[0])
    return "close" if is_close else "DIFFERENT"


def has_halves(model: Path) -> bool:
    initializers = onnx.load(model, load_external_data=False).graph.initializer
    return any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in initializers)


def close(made: list[dict[str, bytes]], name: str, tolerance: list[float]) -> bool:
    protos = (onnx.TensorProto.FromString(files[name]) for files in made)
    a, b = (numpy_helper.to_array(proto) for proto in protos)
    return a.shape == b.shape and np.allclose(a, b, *tolerance)


def run(model: Path, feeds: dict) -> list:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = FATAL_ONLY
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(model), options, ["CPUExecutionProvider"])
    return session.run(None, feeds)


def interchange(cli: Path, source: Path, to: Path, feeds: dict, expected: list) -> str:
    if failed := call(cli, "convert", source, "-o", to):
        return failed
    try:
        found = run(to, feeds)
    except Exception as reason:  # its exceptions share no narrower base
        return f"REJECTED {reason}"
    pairs = list(zip(found, expected, strict=True))
    if all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs):
        return "same"
    is_close = all(np.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True) for a, b in pairs)
    return "close" if is_close else "DIFFERENT"


def check(args, case: Path, scratch: Path) -> dict[str, str]:
    raw = case / "model.raw.ort"
    files = [case / "model.onnx", raw if raw.exists() else case / "model.ort"]
    data = case / "test_data_set_0"
    outcomes = {level: same_bytes(args.cli, files, level, scratch) for level in args.levels}
    try:
        probe = ort.InferenceSession(str(files[0]), providers=["CPUExecutionProvider"])
        feeds = tensors.read(data, "input", [value.type for value in probe.get_inputs()])
        expected = run(files[0], feeds)
    except Exception as reason:
        return outcomes | {"to ort": f"not compared: {reason}"[:100]}
    for what, source in (("ort", files[0]), ("onnx", files[1])):
        to = scratch / f"converted.{what}"
        outcomes[f"to {what}"] = interchange(args.cli, source, to, feeds, expected)
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", type=Path, metavar="CASE")
    parser.add_argument("--cli", type=Path, default=environment.TARGET / "release/ort-cli")
    parser.add_argument("--levels", type=lambda text: text.split(","), default=["disable", "all"])
    args = parser.parse_args()
    n_wrong = 0
    for case in cases(args.cases):
        with tempfile.TemporaryDirectory() as scratch:
            for what, outcome in check(args, case, Path(scratch)).items():
                n_wrong += not outcome.startswith(("same", "close", "not compared"))
                print(ROW.format(case.name, what, outcome[:200]), flush=True)
    sys.exit(f"{n_wrong} are wrong" if n_wrong else 0)


if __name__ == "__main__":
    main()
