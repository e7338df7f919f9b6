"""LoRA adapters: files that each runtime writes and the other reads, and runs with them."""

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from conftest import model_of
from onnx import TensorProto, helper

import ort_rs
from ort_rs.capi.onnxruntime_pybind11_state import InvalidArgument

FLOAT = TensorProto.FLOAT
X = np.array([10, 20, 30], np.float32)
W = np.array([1, 2, 3], np.float32)
#: onnxruntime's options do not keep their adapters alive.
ADAPTERS = []


@pytest.fixture
def model():
    """y = x + w + v, where w has a default and v has none."""
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Add", ["s", "v"], ["y"])]
    inputs = [(name, FLOAT, [3]) for name in "xwv"]
    return model_of(nodes, inputs, [("y", FLOAT, [3])], [helper.make_tensor("w", FLOAT, [3], [0, 0, 0])])


def written(package, path, **parameters):
    """A file with these parameters."""
    contents = package.AdapterFormat()
    contents.set_adapter_version(3)
    contents.set_model_version(7)
    values = {name: package.OrtValue.ortvalue_from_numpy(array) for name, array in parameters.items()}
    contents.set_parameters(values)
    contents.export_adapter(str(path))
    return path


def options(package, *paths):
    """Options of runs with the adapters in these files."""
    made = package.RunOptions()
    for path in paths:
        adapter = package.LoraAdapter()
        adapter.Load(str(path))
        ADAPTERS.append(adapter)
        made.add_active_adapter(adapter)
    return made


@pytest.mark.parametrize("writer", [onnxruntime, ort_rs])
@pytest.mark.parametrize("reader", [onnxruntime, ort_rs])
def test_files_are_read_by_both(writer, reader, tmp_path):
    arrays = {
        "floats": W, "halves": np.arange(6, dtype=np.float16).reshape(2, 3), "whole": np.arange(5),
        "bytes": np.arange(7, dtype=np.uint8),
    }
    path = written(writer, tmp_path / "a.onnx_adapter", **arrays)
    read = reader.AdapterFormat.read_adapter(str(path))
    assert (read.get_format_version(), read.get_adapter_version(), read.get_model_version()) == (1, 3, 7)
    parameters = read.get_parameters()
    assert parameters.keys() == arrays.keys()
    for name, array in arrays.items():
        found = parameters[name].numpy()
        assert found.dtype == array.dtype and found.shape == array.shape and (found == array).all()


@pytest.mark.parametrize("package", [onnxruntime, ort_rs])
def test_a_run_has_the_parameters_as_inputs(package, model, tmp_path):
    session = package.InferenceSession(model)
    both = written(package, tmp_path / "both", w=W, v=10 * W)
    (y,) = session.run(None, {"x": X, "v": W}, options(package, written(package, tmp_path / "w", w=W)))
    assert y.tolist() == [12, 24, 36]
    # They replace values in the feed.
    (y,) = session.run(["y"], {"x": X, "v": X, "w": X}, options(package, both))
    assert y.tolist() == [21, 42, 63]
    # An adapter without a file has no parameters.
    ADAPTERS.append(package.LoraAdapter())
    empty = package.RunOptions()
    empty.add_active_adapter(ADAPTERS[-1])
    (y,) = session.run(None, {"x": X, "v": W}, empty)
    assert y.tolist() == [11, 22, 33]


def test_every_kind_of_run_has_them(model, tmp_path):
    session = ort_rs.InferenceSession(model)
    active = options(ort_rs, written(ort_rs, tmp_path / "w", w=W), written(ort_rs, tmp_path / "v", v=10 * W))
    expected = [21, 42, 63]
    # Without `v`, which has no default.
    assert session.run(None, {"x": X}, active)[0].tolist() == expected
    value = ort_rs.OrtValue.ortvalue_from_numpy(X)
    assert session.run_with_ort_values(["y"], {"x": value}, active)[0].numpy().tolist() == expected
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    session.run_with_iobinding(binding, active)
    assert binding.copy_outputs_to_cpu()[0].tolist() == expected
    feed = {"x": X}
    session.run(None, feed, active)
    assert feed.keys() == {"x"}, "a caller's feed stays as it is"


def test_errors_name_the_file_or_the_parameter(model, tmp_path):
    (tmp_path / "not").write_bytes(b"\x08\0\0\0ORTM" + bytes(20))
    for load in (ort_rs.LoraAdapter().Load, ort_rs.AdapterFormat.read_adapter):
        with pytest.raises(RuntimeError, match="none: no such file"):
            load(str(tmp_path / "none"))
        with pytest.raises(RuntimeError, match='not: not an adapter: the identifier is "ORTM", not "TORT"'):
            load(str(tmp_path / "not"))
    session = ort_rs.InferenceSession(model)
    active = options(ort_rs, written(ort_rs, tmp_path / "q", q=W))
    with pytest.raises(InvalidArgument, match="q"):
        session.run(None, {"x": X, "v": W}, active)
    wrong = options(ort_rs, written(ort_rs, tmp_path / "v", v=np.zeros(3, ml_dtypes.bfloat16)))
    with pytest.raises(InvalidArgument, match="v"):
        session.run(None, {"x": X}, wrong)
    texts = ort_rs.AdapterFormat()
    texts.set_parameters({"t": ort_rs.OrtValue.ortvalue_from_numpy(np.array(["a"]))})
    with pytest.raises(RuntimeError, match="parameter `t` holds strings, which an adapter cannot"):
        texts.export_adapter(tmp_path / "t")
