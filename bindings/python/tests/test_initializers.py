"""Initializers that a program passes to replace those of the model's files."""

import gc
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import FLOAT, model_of
from onnx import TensorProto, helper

import ort_rs
from ort_rs.capi.onnxruntime_pybind11_state import Fail

W = np.arange(6, dtype=np.float32).reshape(2, 3)
X = np.zeros((2, 3), np.float32)
GIVEN = np.full((2, 3), 5, np.float32)


def sum_of(weights):
    """y = x + w."""
    node = helper.make_node("Add", ["x", "w"], ["y"])
    return model_of([node], [("x", FLOAT, [2, 3])], [("y", FLOAT, [2, 3])], [weights])


PLAIN = sum_of(onnx.numpy_helper.from_array(W, "w"))


def external_model():
    """The same with its weights in an external file."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("length", "24")):
        tensor.external_data.add(key=key, value=value)
    return sum_of(tensor)


def made(package, model, *added, external=False):
    options = package.SessionOptions()
    if external:
        options.add_external_initializers([name for name, _ in added], [value for _, value in added])
    else:
        for name, value in added:
            options.add_initializer(name, value)
    return package.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("package", [onnxruntime, ort_rs], ids=["onnxruntime", "ort_rs"])
def test_a_given_value_is_read(package):
    value = package.OrtValue.ortvalue_from_numpy(GIVEN)
    for session, expected in (
        (made(package, PLAIN, ("w", value)), GIVEN),
        (made(package, PLAIN, ("of another model", value)), W),
        (made(package, external_model(), ("w", value), external=True), GIVEN),
    ):
        assert session.run(None, {"x": X})[0].tolist() == expected.tolist()


def test_sessions_share_the_memory_and_keep_it():
    given = GIVEN.copy()
    value = ort_rs.OrtValue.ortvalue_from_numpy(given)
    before = sys.getrefcount(given)
    sessions = [made(ort_rs, PLAIN, ("w", value)) for _ in range(2)]
    del value
    gc.collect()
    assert sys.getrefcount(given) == before
    for session in sessions:
        assert all(row["bytes"] == 0 for row in session.memory().kinds if row["kind"].startswith("weights copied"))
        assert session.run(None, {"x": X})[0].tolist() == GIVEN.tolist()
    del sessions, session
    gc.collect()
    assert sys.getrefcount(given) == before - 1


@pytest.mark.parametrize("package", [onnxruntime, ort_rs], ids=["onnxruntime", "ort_rs"])
def test_invalid_initializers_are_rejected_as_by_onnxruntime(package, tmp_path):
    value = package.OrtValue.ortvalue_from_numpy(GIVEN)
    wrong = [package.OrtValue.ortvalue_from_numpy(it) for it in (GIVEN[0].copy(), GIVEN.astype(np.int64))]
    failed = getattr(package.capi, "onnxruntime_pybind11_state").Fail
    for model, added in (
        (external_model(), ("v", value)), (PLAIN, ("w", value)), (external_model(), ("w", wrong[0])), (external_model(), ("w", wrong[1])),
    ):
        with pytest.raises(failed):
            made(package, model, added, external=True)
    (tmp_path / "model.onnx").write_bytes(external_model())
    for model in (external_model(), str(tmp_path / "model.onnx")):
        with pytest.raises(failed):
            package.InferenceSession(model)
    for added in ([("w", value), ("w", value)], [("w", GIVEN)], [("w", 3)]):
        with pytest.raises(RuntimeError):
            made(package, PLAIN, *added)


def test_an_initializer_of_another_shape_is_rejected_with_its_name():
    with pytest.raises(Fail, match=r"`w` is float\[2,3\], not float\[3\]"):
        made(ort_rs, PLAIN, ("w", ort_rs.OrtValue.ortvalue_from_numpy(GIVEN[0].copy())))


def test_files_in_memory_are_read_where_they_are():
    data = bytearray(GIVEN.tobytes())
    options = ort_rs.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [data], [len(data)])
    session = ort_rs.InferenceSession(external_model(), options)
    with pytest.raises(BufferError):
        data.append(0)
    assert session.run(None, {"x": X})[0].tolist() == GIVEN.tolist()
    options = ort_rs.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [data], [20])
    with pytest.raises(Fail):
        ort_rs.InferenceSession(external_model(), options)


def test_a_cache_has_a_file_for_each_value(tmp_path):
    n = 64
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    weights = onnx.numpy_helper.from_array(np.ones((n, n), np.float32), "w")
    model = model_of([node], [("x", FLOAT, ["m", n])], [("y", FLOAT, ["m", n])], [weights])
    x = np.ones((1, n), np.float32)
    for scale in (2, 3, 2):
        options = ort_rs.SessionOptions()
        options.add_initializer("w", ort_rs.OrtValue.ortvalue_from_numpy(np.full((n, n), scale, np.float32)))
        session = ort_rs.InferenceSession(model, options, cache_dir=tmp_path)
        assert session.run(None, {"x": x})[0].tolist() == [[scale * n] * n]
    assert len(list(tmp_path.glob("*.packed.ort"))) == 2
