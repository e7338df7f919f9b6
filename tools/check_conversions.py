#!/usr/bin/env python3
"""Checks that onnxruntime gives the same results for the standard's backend tests before and after `ort-cli convert`.

    python3 tools/make_models.py standard
    python3 tools/check_conversions.py [--cli target/release/ort-cli] [--level disable]

Converts every `.onnx` file of target/models/standard to `.ort`. For each that onnxruntime's CPU provider runs from
`.onnx`, a line is printed unless the `.ort` gives the same results: DIFFERENT, REJECTED with the operator that has no
kernel for a `.ort` file, or NOT CONVERTED.
"""

from __future__ import annotations

import argparse
import collections
import re
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

STANDARD = environment.TARGET / "models/standard"
FATAL_ONLY = 4


def value(path: Path, kind: str) -> object:
    """The tensor, sequence or optional of a `.pb` file."""
    contents = path.read_bytes()
    if kind.startswith("seq"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(contents))
    if kind.startswith("optional"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(contents))
    return numpy_helper.to_array(onnx.TensorProto.FromString(contents))


def run(model: Path, data: Path) -> list:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = FATAL_ONLY
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(model), options, ["CPUExecutionProvider"])
    files = [(data / f"input_{i}.pb", given) for i, given in enumerate(session.get_inputs())]
    return session.run(None, {of.name: value(file, of.type) for file, of in files if file.exists()})


def is_same(a: object, b: object) -> bool:
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(is_same, a, b))
    if not isinstance(a, np.ndarray):
        return a == b
    if not isinstance(b, np.ndarray) or (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    return np.allclose(a.astype(float), b.astype(float), rtol=1e-3, atol=1e-5, equal_nan=True)


def check(case: Path, converted: Path) -> str | None:
    """The outcome of a conversion; None if onnxruntime does not run the original."""
    data = case / "test_data_set_0"
    try:
        expected = run(case / "model.onnx", data)
    except Exception:  # its exceptions share no narrower base
        return None
    if not converted.exists():
        return "NOT CONVERTED"
    try:
        found = run(converted, data)
    except Exception as reason:
        lacks = re.search(r"an implementation for (\S+)", str(reason))
        return f"REJECTED {lacks[1] if lacks else reason}"
    return "same" if is_same(expected, found) else "DIFFERENT"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cli", type=Path, default=environment.TARGET / "release/ort-cli")
    parser.add_argument("--level", default="disable")
    args = parser.parse_args()
    tally: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        convert = [args.cli, "convert", STANDARD, "-o", folder, "--level", args.level]
        subprocess.run(convert, check=False, capture_output=True)
        for case in sorted(model.parent for model in STANDARD.glob("*/*/model.onnx")):
            name = case.relative_to(STANDARD)
            outcome = check(case, Path(folder) / name / "model.ort")
            if outcome not in (None, "same"):
                print(f"{outcome:45} {name}", flush=True)
            tally[outcome or "not run from .onnx"] += 1
    print(*(f"{n:6} {outcome}" for outcome, n in tally.most_common()), sep="\n")
    sys.exit(tally["DIFFERENT"] > 0)


if __name__ == "__main__":
    main()
