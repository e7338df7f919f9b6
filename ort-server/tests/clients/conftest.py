"""Servers of small models, and what the tests share."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper
from onnx import numpy_helper

#: onnx's element types by the protocol's names.
TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "BF16": TensorProto.BFLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}


class Server:
    """A process of ort-server on free ports."""

    def __init__(self, folder: Path, *arguments: str):
        command = [os.environ["ORT_SERVER"], "--model-repository", str(folder), "--host", "127.0.0.1"]
        command += ["--http-port", "0", "--grpc-port", "0", "--threads", "1", *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"HTTP at (\S+), gRPC at (\S+)", line):
                self.http_address, self.grpc_address = found.groups()
            if line.endswith("ready\n"):
                break
        else:
            raise RuntimeError("".join(self.log))
        # The pipe must not fill up.
        self.reading = threading.Thread(target=lambda: self.log.extend(self.process.stderr))
        self.reading.start()

    def http(self, **options) -> tritonclient.http.InferenceServerClient:
        return tritonclient.http.InferenceServerClient(self.http_address, **options)

    def grpc(self, **options) -> tritonclient.grpc.InferenceServerClient:
        return tritonclient.grpc.InferenceServerClient(self.grpc_address, **options)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        self.terminate()
        code = self.process.wait(timeout=120)
        self.reading.join()
        return code


def save(folder: Path, name: str, graph: onnx.GraphProto, version: int = 1) -> None:
    """Writes a model into a model repository."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / name / str(version)
    path.mkdir(parents=True)
    onnx.save(model, path / "model.onnx")


def affine() -> onnx.GraphProto:
    """`y = x @ w`, by rows; also `negated = -x`."""
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Neg", ["x"], ["negated"])]
    outputs = [info("y", TensorProto.FLOAT, ["n", 4]), info("negated", TensorProto.FLOAT, ["n", 3])]
    inputs = [info("x", TensorProto.FLOAT, ["n", 3])]
    return helper.make_graph(nodes, "affine", inputs, outputs, [numpy_helper.from_array(w, "w")])


def affine_inputs(module, x, binary=True):
    """The input of `affine`, for a client of either protocol."""
    given = module.InferInput("x", list(x.shape), "FP32")
    if module.__name__.endswith("http"):
        given.set_data_from_numpy(x, binary_data=binary)
    else:
        given.set_data_from_numpy(x)
    return [given]


def identities() -> onnx.GraphProto:
    """An output for an input of each type."""
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", [f"in_{name}"], [f"out_{name}"]) for name in TYPES]
    inputs = [info(f"in_{name}", TYPES[name], ["k"]) for name in TYPES]
    outputs = [info(f"out_{name}", TYPES[name], ["k"]) for name in TYPES]
    return helper.make_graph(nodes, "identities", inputs, outputs)


def slow() -> onnx.GraphProto:
    """A loop of as many iterations as the input says."""
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["w"], ["w1"])]
    inputs = [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, [2])]
    outputs = [info("on", TensorProto.BOOL, []), info("w1", TensorProto.FLOAT, [2])]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    one = numpy_helper.from_array(np.ones(2, np.float32), "one")
    loop = helper.make_node("Loop", ["trips", "", "one"], ["v"], body=body)
    inputs, outputs = [info("trips", TensorProto.INT64, [1])], [info("v", TensorProto.FLOAT, [2])]
    return helper.make_graph([loop], "slow", inputs, outputs, [one])


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A model repository."""
    folder = tmp_path_factory.mktemp("models")
    for name, graph in [("affine", affine()), ("types", identities()), ("slow", slow())]:
        save(folder, name, graph)
    return folder


@pytest.fixture(scope="session")
def server(folder):
    """A server of the models, which clients may load and unload."""
    server = Server(folder, "--model-control-mode", "explicit", "--load-model", "*")
    yield server
    assert server.stop() == 0, "".join(server.log)


@pytest.fixture(params=["http", "grpc"])
def client(request, server):
    """A client of either protocol, and its module."""
    module = {"http": tritonclient.http, "grpc": tritonclient.grpc}[request.param]
    with getattr(server, request.param)() as client:
        yield client, module
