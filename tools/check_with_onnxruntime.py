#!/usr/bin/env python3
"""What we save, onnxruntime loads, and it computes the same as what it saved itself.

    python3 tools/check_with_onnxruntime.py --rewrite 'target/release/examples/rewrite' [CASE ...]
    python3 tools/check_with_onnxruntime.py --close \\
        --rewrite 'target/release/ort-cli optimize {in} -o {out} --level extended'

The command makes our version of a `.ort` file; {in} and {out} stand for the two paths, which go to
its end if it does not name them. onnxruntime runs both files at ORT_DISABLE_ALL on the stored
inputs. Outputs must be equal bit for bit, or with --close within the case's tolerance.

CASE is a folder with `*.ort` beside test_data_set_K/; without any, the models in models/ and the
node cases in the packed fixture are taken. A case that onnxruntime cannot run itself, or does not
give the same answers to twice, counts as "not compared"; our file must load all the same.

Where onnxruntime cannot be installed this says "skipped" and succeeds.
"""

from __future__ import annotations

import argparse
import collections
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import environment

try:
    environment.enter()
except environment.Unavailable as reason:
    print(f"skipped: {reason}")
    sys.exit(0)

import numpy as np
import onnxruntime as ort
from pack_node_cases import unpack
from peers import tensors

ROOT = environment.TOOLS.parent
FIXTURE = ROOT / "ort-conformance/fixtures/node_cases.bin"
FATAL_ONLY = 4


class Refused(Exception):
    """onnxruntime does not load or run a model."""


def rewritten(command: str, model: Path, out: Path) -> None:
    words = shlex.split(command)
    if "{in}" not in words:
        words += ["{in}", "{out}"]
    paths = {"{in}": str(model), "{out}": str(out)}
    out.unlink(missing_ok=True)  # the one of the model before must not pass for this one
    words = [paths.get(word, word) for word in words]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(f"our command failed: {done.stderr.strip()}")


def load(model: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions share no narrower base
        raise Refused(f"onnxruntime does not load it: {error}") from None


def run(session: ort.InferenceSession, data_set: Path) -> list:
    types = [value.type for value in session.get_inputs()]
    try:
        return session.run(None, tensors.read(data_set, "input", types))
    except Exception as error:  # likewise; also types that Python cannot pass to it
        raise Refused(f"onnxruntime does not run it: {error}") from None


def equal(x, y, tolerance=None) -> bool:
    """Equal bit for bit, or within (rtol, atol)."""
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(equal(a, b, tolerance) for a, b in zip(x, y))
    if x is None or y is None or isinstance(x, dict):
        return x == y
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype == object:
        return x.tolist() == y.tolist()
    if tolerance is None or x.dtype == bool:
        return x.tobytes() == y.tobytes()
    return np.allclose(y, x, *tolerance, equal_nan=True)


def check(model: Path, command: str, close: bool, folder: Path) -> str:
    """ "equal" or "not compared: …"; raises Refused or ValueError where ours is wrong."""
    original = load(model)
    rewritten(command, model, folder / "ours.ort")
    ours = load(folder / "ours.ort")
    tolerance = read_tolerance(model.parent) if close else None
    for data_set in sorted(model.parent.glob("test_data_set_*")):
        try:
            expected, again = run(original, data_set), run(load(model), data_set)
        except Refused:
            return "not compared: onnxruntime cannot run the original from Python"
        if not equal(expected, again):
            return "not compared: the original is random"
        if not equal(expected, run(ours, data_set), tolerance):
            raise ValueError(f"outputs differ on {data_set.name}")
    return "equal"


def read_tolerance(case: Path) -> tuple[float, float]:
    path = case / "tol.txt"
    rtol, atol = path.read_text().split() if path.exists() else ("1e-3", "1e-5")
    return float(rtol), float(atol)


def models(cases: list[Path], folder: Path) -> list[Path]:
    """The `.ort` files of `cases` or, without any, of the repository."""
    if not cases:
        for path, content in unpack(FIXTURE.read_bytes()).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        cases = [ROOT / "models", folder]
    found = [model for case in cases for model in case.rglob("*.ort")]
    return sorted(model for model in found if any(model.parent.glob("test_data_set_*")))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", type=Path, metavar="CASE")
    parser.add_argument("--rewrite", required=True, metavar="COMMAND")
    parser.add_argument("--close", action="store_true", help="compare with the case's tolerance")
    args = parser.parse_args()
    ort.set_default_logger_severity(FATAL_ONLY)
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as unpacked:
        for model in models(args.cases, Path(unpacked)):
            try:
                counts[check(model, args.rewrite, args.close, Path(made))] += 1
            except (Refused, ValueError) as error:
                counts["wrong"] += 1
                print(f"{model.parent.name}/{model.name}: {error}", flush=True)
    for result, count in sorted(counts.items()):
        print(f"{count} {result}")
    sys.exit(counts["wrong"] > 0 or not counts)


if __name__ == "__main__":
    main()
