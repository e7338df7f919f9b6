"""Compares small models with onnxruntime: the time of each runtime, alternating.

Ours runs in a separate process per model; onnxruntime runs in this one.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import helper

from . import programs

WARM_UP_RUNS = 2
FEWEST_RUNS = 5


class Failed(Exception):
    """A runtime did not run the model."""


def session(args: argparse.Namespace, model: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def value(x: np.ndarray) -> ort.OrtValue:
    """A tensor of onnxruntime, which has more types than numpy."""
    if x.dtype.isbuiltin == 1:
        return ort.OrtValue.ortvalue_from_numpy(x)
    number = helper.np_dtype_to_tensor_dtype(x.dtype)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(f"u{x.dtype.itemsize}"), number)


class Theirs:
    """onnxruntime, ready to run a model."""

    def __init__(self, args: argparse.Namespace, folder: Path, feed: dict[str, np.ndarray]):
        self.seconds = args.seconds
        feed = {name: value(x) for name, x in feed.items()}
        made = session(args, folder / "model.onnx")
        outputs = [output.name for output in made.get_outputs()]
        self.run = lambda: made.run_with_ort_values(outputs, feed)

    def milliseconds(self) -> float:
        """The 10th percentile of a round."""
        for _ in range(WARM_UP_RUNS):
            self.run()
        times, end = [], time.perf_counter() + self.seconds
        while time.perf_counter() < end or len(times) < FEWEST_RUNS:
            start = time.perf_counter()
            self.run()
            times.append(time.perf_counter() - start)
        return sorted(times)[len(times) // 10] * 1e3


def ours(args: argparse.Namespace, folder: Path) -> float:
    flags = ["--threads", str(args.threads), "--seconds", str(args.seconds)]
    record = programs.measured(programs.ours(args.cli, folder, "default", *flags))
    if "p10_ms" not in record:
        raise Failed(f"ours: {record.get('error')}")
    return record["p10_ms"]


def milliseconds(
    args: argparse.Namespace, folder: Path, feed: dict[str, np.ndarray], **others: Theirs
) -> dict[str, float]:
    """The time of each runtime: the minimum over the rounds.

    `others` are models that onnxruntime runs in the same rounds, whose times are in the result by
    their names. Raises Failed if one of the runtimes does not run the model.
    """
    best = dict.fromkeys(["ours", "theirs", *others], math.inf)
    try:
        theirs = Theirs(args, folder, feed)
        for _ in range(args.rounds):
            best["ours"] = min(best["ours"], ours(args, folder))
            for name, model in {"theirs": theirs, **others}.items():
                best[name] = min(best[name], model.milliseconds())
    except (RuntimeError, ValueError) as reason:
        raise Failed(f"theirs: {reason}") from None
    except Exception as reason:  # onnxruntime's exceptions share no narrower base
        if type(reason).__module__.startswith("onnxruntime"):
            raise Failed(f"theirs: {reason}") from None
        raise
    return best
