"""Threads, forks, exits of processes, and programs for onnxruntime that run on ort_rs."""

import multiprocessing
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import ort_rs

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def python(code, *arguments):
    """The output of a new interpreter."""
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_many_threads_run_many_sessions(add):
    sessions = [ort_rs.InferenceSession(add) for _ in range(4)]
    failed = []

    def work(number):
        y = np.full((1, 3), number, np.float32)
        for i in range(20):
            (z,) = sessions[(number + i) % 4].run(None, {"x": X, "y": y})
            if z.tolist() != (X + number).tolist():
                failed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_run_does_not_hold_the_gil(slow):
    session = ort_rs.InferenceSession(slow)
    options, turns = ort_rs.RunOptions(), []

    def count():
        for _ in range(50):
            turns.append(None)
            time.sleep(0.001)
        options.terminate = True

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.raises(ort_rs.capi.onnxruntime_pybind11_state.Fail):
        session.run(None, {"n": np.array(1 << 40), "x": np.eye(64, dtype=np.float32)}, options)
    thread.join()
    assert len(turns) == 50


def of_child(session, feed, queue):
    queue.put(session.run(None, feed)[0].tolist())


@pytest.mark.skipif(not hasattr(multiprocessing, "get_context") or sys.platform == "win32", reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_session_runs_in_a_process_that_was_forked_after_it(slow):
    session = ort_rs.InferenceSession(slow)
    feed = {"n": np.array(3), "x": np.eye(64, dtype=np.float32)}
    expected = session.run(None, feed)[0].tolist()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=of_child, args=(session, feed, queue)) for _ in range(3)]
    for child in children:
        child.start()
    assert [queue.get(timeout=60) for _ in children] == [expected] * 3
    for child in children:
        child.join(60)
        assert child.exitcode == 0


def test_an_interpreter_exits_with_sessions_and_outputs_alive(add, tmp_path):
    (tmp_path / "add.onnx").write_bytes(add)
    code = """
import sys, threading, numpy as np, ort_rs
session = ort_rs.InferenceSession(sys.argv[1])
x = np.ones((2, 3), np.float32)
kept = session.run(None, {"x": x, "y": x})
value = ort_rs.OrtValue.ortvalue_from_numpy(x)
def forever():
    while True:
        session.run(None, {"x": x, "y": x})
threading.Thread(target=forever, daemon=True).start()
print(kept[0].sum())
"""
    assert python(code, str(tmp_path / "add.onnx")) == "12.0"


PROGRAM = """
import sys
import onnxruntime as ort
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from onnxruntime.capi import _pybind_state as C
import onnxruntime.quantization, onnxruntime.capi.onnxruntime_inference_collection as inner
assert inner.InferenceSession is InferenceSession
from packaging.version import Version
assert Version(ort.__version__) >= Version("1.20")
print(ort.package_name, ort.get_device(), *sys.argv[1:])
"""


def test_a_program_for_onnxruntime_runs_unchanged(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    for named in ([str(script)], ["-m", "program"]):
        command = [sys.executable, "-m", "ort_rs", *named, "a", "-b"]
        run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
        assert run.stdout.split() == ["ort_rs", "CPU", "a", "-b"], run.stderr
    run = subprocess.run([sys.executable, "-m", "ort_rs"], capture_output=True, text=True)
    assert run.returncode != 0 and "usage" in run.stderr


def test_onnxruntime_is_never_replaced_by_accident():
    assert python("import ort_rs, onnxruntime; print(onnxruntime.get_available_providers()[-1], onnxruntime.__file__)")
    code = "import onnxruntime, ort_rs\ntry: ort_rs.install_as_onnxruntime()\nexcept RuntimeError as e: print('rejected')"
    assert python(code) == "rejected"


def test_quantization_of_an_installed_onnxruntime_works_on_this_one(tmp_path):
    code = """
import sys, numpy as np, onnx
import ort_rs
ort = ort_rs.install_as_onnxruntime()
from onnx import helper, TensorProto as T
from onnxruntime.quantization import quantize_dynamic, QuantType
w = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
g = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
    [helper.make_tensor_value_info("x", T.FLOAT, ["n", 16])], [helper.make_tensor_value_info("y", T.FLOAT, ["n", 8])],
    [onnx.numpy_helper.from_array(w, "w")])
m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.save(m, sys.argv[1] + "/m.onnx")
quantize_dynamic(sys.argv[1] + "/m.onnx", sys.argv[1] + "/q.onnx", weight_type=QuantType.QUInt8)
x = np.random.default_rng(1).normal(size=(4, 16)).astype(np.float32)
y = ort.InferenceSession(sys.argv[1] + "/q.onnx").run(None, {"x": x})[0]
print(abs(y - x @ w).max() < 0.2)
"""
    assert python(code, str(tmp_path)) == "True"


def test_transformers_of_an_installed_onnxruntime_work_on_this_one():
    code = """
import numpy as np, onnx, ort_rs
ort = ort_rs.install_as_onnxruntime()
from onnx import helper, TensorProto as T
from onnxruntime.transformers.float16 import convert_float_to_float16
from onnxruntime.transformers.onnx_model import OnnxModel
w = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
g = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, ["n", 16])],
    [helper.make_tensor_value_info("y", T.FLOAT, ["n", 8])], [onnx.numpy_helper.from_array(w, "w")])
m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
half = OnnxModel(convert_float_to_float16(m, keep_io_types=True))
assert {node.op_type for node in half.nodes()} == {"Cast", "MatMul", "Relu"}
x = np.random.default_rng(1).normal(size=(4, 16)).astype(np.float32)
y = ort.InferenceSession(half.model.SerializeToString()).run(None, {"x": x})[0]
print(ort.package_name, abs(y - np.maximum(x @ w, 0)).max() < 0.05)
"""
    assert python(code) == "ort_rs True"
