#!/usr/bin/env python3
"""Runs the onnx package's backend tests, by its own runner, on `ort-cli run`.

    python3 tools/run_backend_tests.py [--cli target/release/ort-cli] [--include REGEX]

Each test starts the program once for each data set; `ort-cli test target/models/standard` runs the same tests in
one process. Tests that download models are excluded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import environment

environment.enter()

import onnx.backend.test
from models.node import serialized
from onnx.backend.base import Backend, BackendRep
from peers import tensors

CLI = environment.TARGET / "release/ort-cli"


class Program(BackendRep):
    """A model that the program runs."""

    def __init__(self, model: onnx.ModelProto):
        self.model = model

    def run(self, inputs, **_) -> list:
        graph = self.model.graph
        constants = {tensor.name for tensor in graph.initializer}
        slots = [value for value in graph.input if value.name not in constants]
        slots += [value for value in graph.input if value.name in constants]
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "model.onnx").write_bytes(self.model.SerializeToString())
            for value, info in zip(inputs, slots, strict=False):
                if value is not None or info.type.HasField("optional_type"):
                    j = list(graph.input).index(info)
                    (folder / f"input_{j}.pb").write_bytes(serialized(value, info))
            words = [CLI, "run", folder / "model.onnx", "--output", folder / "out"]
            words += ["--inputs", folder] if any(folder.glob("input_*.pb")) else []
            done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip())
            types = [kind_of(info) for info in graph.output]
            return list(tensors.read(folder / "out", "output", types).values())


class Ours(Backend):
    """The program as a backend."""

    @classmethod
    def prepare(cls, model, device="CPU", **_) -> Program:
        return Program(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


def kind_of(info) -> str:
    kinds = {"sequence_type": "seq", "optional_type": "optional"}
    return next((kind for field, kind in kinds.items() if info.type.HasField(field)), "tensor") + "()"


def main() -> None:
    global CLI
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cli", type=Path, default=CLI)
    parser.add_argument("--include", default=".*_cpu")
    args = parser.parse_args()
    CLI = args.cli.resolve()
    tests = onnx.backend.test.BackendTest(Ours, __name__)
    tests.include(args.include)
    tests.exclude("OnnxBackendRealModelTest")
    suite = unittest.TestSuite()
    for name, case in tests.test_cases.items():
        if "Real" not in name:
            suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
