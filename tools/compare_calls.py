#!/usr/bin/env python3
"""Measures the overhead of a call of `run`, in onnxruntime and in ort_rs, on models of one node.

    python3 tools/compare_calls.py [--wheel WHEEL]

Both run in one process, alternating, on one thread. The result is the minimum of many rounds, in microseconds of CPU time per call,
which other load on the machine affects little.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import check_python
import environment


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the wheel to measure")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        return measure()
    requirements = environment.TOOLS / "requirements-python.txt"
    python = environment.prepare(environment.TARGET / "venv-python", requirements)
    wheel = arguments.wheel or check_python.built(python, "release")
    pip = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", str(wheel)]
    subprocess.run(pip, check=True)
    sys.exit(subprocess.call([str(python), __file__, "--measure"], cwd=environment.TARGET))


def measure() -> None:
    """Prints the table."""
    import time
    import timeit

    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper

    import ort_rs

    def model(n_inputs: int, shape: list[int]) -> bytes:
        names = [f"x{i}" for i in range(n_inputs)]
        node = helper.make_node("Add" if n_inputs == 2 else "Sum", names, ["y"])
        describe = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names]
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
        graph = helper.make_graph([node], "g", describe, [result])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()

    print("| model | onnxruntime, µs | ort_rs, µs | ratio |\n|---|---:|---:|---:|")
    for n_inputs, shape in ((2, [4]), (2, [2, 3]), (2, [64, 64]), (2, [1000, 1000]), (16, [4])):
        feed = {f"x{i}": np.ones(shape, np.float32) for i in range(n_inputs)}
        best = dict.fromkeys((onnxruntime, ort_rs), float("inf"))
        sessions = {}
        for package in best:
            options = package.SessionOptions()
            options.intra_op_num_threads = 1
            sessions[package] = package.InferenceSession(model(n_inputs, shape), options, ["CPUExecutionProvider"])
        n_calls = 20 if shape == [1000, 1000] else 1000
        for _ in range(15):
            for package, session in sessions.items():
                timer = timeit.Timer(lambda: session.run(None, feed), timer=time.process_time)
                best[package] = min(best[package], timer.timeit(n_calls) / n_calls)
        theirs, ours = (best[package] * 1e6 for package in (onnxruntime, ort_rs))
        name = f"{'Add' if n_inputs == 2 else f'Sum of {n_inputs}'} of {'x'.join(map(str, shape))}"
        print(f"| {name} | {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
