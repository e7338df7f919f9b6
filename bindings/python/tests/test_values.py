"""Values outside of runs, and inputs and outputs that are bound to memory."""

import gc
import sys

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

import ort_rs

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_value_and_its_array_are_one_memory():
    x = X.copy()
    value = ort_rs.OrtValue.ortvalue_from_numpy(x)
    x[0, 0] = 9
    array = value.numpy()
    assert np.shares_memory(array, x) and array[0, 0] == 9
    assert (value.data_type(), value.shape(), value.device_name()) == ("tensor(float)", [2, 3], "cpu")
    assert (value.element_type(), value.tensor_size_in_bytes(), value.data_ptr()) == (1, 24, x.ctypes.data)
    assert value.is_tensor() and value.has_value() and not value.is_tensor_sequence()
    del value, x
    gc.collect()
    assert array[1].tolist() == [3, 4, 5]


def test_values_are_created_from_shapes_and_bits():
    for element_type in (np.float16, TensorProto.FLOAT16, np.dtype("float16")):
        value = ort_rs.OrtValue.ortvalue_from_shape_and_type([2, 2], element_type)
        assert value.data_type() == "tensor(float16)" and not value.numpy().any()
    bits = np.array([0x3F80], np.uint16)
    value = ort_rs.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    assert value.numpy().dtype == ml_dtypes.bfloat16 and value.numpy().tolist() == [1.0]
    packed = ort_rs.OrtValue.ortvalue_from_numpy(np.array([-8, 7, 1], ml_dtypes.int4))
    assert packed.tensor_size_in_bytes() == 2 and packed.numpy().astype(int).tolist() == [-8, 7, 1]


def test_bits_are_taken_from_arrays_of_any_layout_and_only_of_this_machine():
    bits = np.array([0x3F80, 1, 0x4000, 1], np.uint16)[::2]
    value = ort_rs.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    assert value.numpy().dtype == ml_dtypes.bfloat16 and value.numpy().tolist() == [1.0, 2.0]
    for array, element_type in [(X, TensorProto.INT64), (X, TensorProto.STRING), (X, TensorProto.INT4)]:
        with pytest.raises(RuntimeError):
            ort_rs.OrtValue.ortvalue_from_numpy_with_onnx_type(array, element_type)
    with pytest.raises(RuntimeError, match="byte order"):
        ort_rs.OrtValue.ortvalue_from_numpy(X.astype(X.dtype.newbyteorder()))


def test_read_only_memory_stays_unchanged(add):
    data = X.tobytes()
    frozen = np.frombuffer(data, np.float32).reshape(2, 3)
    value = ort_rs.OrtValue.ortvalue_from_numpy(frozen)
    assert np.shares_memory(value.numpy(), frozen) and not value.numpy().flags.writeable
    with pytest.raises(RuntimeError, match="read-only"):
        value.update_inplace(np.ones((2, 3), np.float32))
    session = ort_rs.InferenceSession(add)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", X)
    binding.bind_ortvalue_output("z", value)
    with pytest.raises(RuntimeError, match="read-only"):
        session.run_with_iobinding(binding)
    assert data == X.tobytes()


def test_updates_are_in_place_and_of_the_same_shape():
    value = ort_rs.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
    address = value.data_ptr()
    value.update_inplace(X.T.copy().T)
    assert value.numpy().tolist() == X.tolist() and value.data_ptr() == address
    other = ort_rs.OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
    ort_rs.copy_tensors([value], [other])
    assert other.numpy().tolist() == X.tolist()
    with pytest.raises(RuntimeError):
        value.update_inplace(np.zeros(3, np.float32))
    with pytest.raises(TypeError):
        value.update_inplace([1, 2])


def test_dlpack_shares_memory_both_ways():
    x = X.copy()
    value = ort_rs.OrtValue.from_dlpack(x)
    assert value.data_ptr() == x.ctypes.data
    assert np.shares_memory(np.from_dlpack(value), x)
    capsule = x.__dlpack__()
    value = ort_rs.OrtValue.from_dlpack(capsule)
    assert value.data_ptr() == x.ctypes.data
    value.update_inplace(X + 1)
    assert x.tolist() == (X + 1).tolist()
    with pytest.raises(TypeError, match="unused DLPack capsule"):
        ort_rs.OrtValue.from_dlpack(capsule)
    empty = np.zeros((0, 2), np.float32)
    assert ort_rs.OrtValue.from_dlpack(empty.__dlpack__()).shape() == [0, 2]
    assert ort_rs.OrtValue.from_dlpack(np.array(3.0)).numpy().tolist() == 3.0
    with pytest.raises(TypeError):
        ort_rs.OrtValue.from_dlpack(3)
    for rejected in (np.ones((2, 6))[:, ::2], X.T):
        with pytest.raises(RuntimeError, match="contiguous"):
            ort_rs.OrtValue.from_dlpack(rejected)


DLPACK_TYPES = [number for number in range(1, 27) if number != TensorProto.STRING]
NOT_IN_ONNXRUNTIME = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)


@pytest.mark.parametrize("number", DLPACK_TYPES)
def test_dlpack_has_every_type_as_onnxruntime_has_it(number):
    value = ort_rs.OrtValue.ortvalue_from_shape_and_type([2, 3], number)
    again = ort_rs.OrtValue.from_dlpack(value)
    assert (again.element_type(), again.shape(), again.data_ptr()) == (number, [2, 3], value.data_ptr())
    if number in NOT_IN_ONNXRUNTIME:
        return
    theirs = onnxruntime.OrtValue.from_dlpack(value)
    assert (theirs.data_type(), theirs.shape(), theirs.data_ptr()) == (value.data_type(), [2, 3], value.data_ptr())
    theirs = onnxruntime.OrtValue.ortvalue_from_shape_and_type([2, 3], number)
    ours = ort_rs.OrtValue.from_dlpack(theirs)
    assert (ours.data_type(), ours.shape(), ours.data_ptr()) == (theirs.data_type(), [2, 3], theirs.data_ptr())


def test_memory_lent_through_dlpack_lives_as_long_as_it_is_referenced():
    x = X.copy()
    value = ort_rs.OrtValue.from_dlpack(x)
    before = sys.getrefcount(x)
    del value
    gc.collect()
    assert sys.getrefcount(x) == before - 1
    value = ort_rs.OrtValue.ortvalue_from_numpy(x)
    before = sys.getrefcount(x)
    imported = np.from_dlpack(value)
    unused = value.__dlpack__()
    del value
    gc.collect()
    assert imported.tolist() == X.tolist() and sys.getrefcount(x) == before
    del imported, unused
    gc.collect()
    assert sys.getrefcount(x) == before - 1


def test_dlpack_keeps_memory_read_only():
    x = X.copy()
    x.flags.writeable = False
    with pytest.raises(BufferError):
        ort_rs.OrtValue.ortvalue_from_numpy(x).__dlpack__()
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        with pytest.raises(RuntimeError, match="read-only"):
            ort_rs.OrtValue.from_dlpack(x).update_inplace(X)
    with pytest.raises(BufferError, match="strings"):
        ort_rs.OrtValue.ortvalue_from_numpy(np.array(["a"])).__dlpack__()


def test_sequences_are_values():
    value = ort_rs.OrtValue.ortvalue_from_sequence([X, X[0]])
    assert value.is_tensor_sequence() and value.data_type() == "seq(tensor(float))"
    assert [item.shape for item in value.to_object()] == [(2, 3), (3,)]
    with pytest.raises(RuntimeError):
        value.numpy()


def test_runs_take_and_return_values(add):
    session = ort_rs.InferenceSession(add)
    x = ort_rs.OrtValue.ortvalue_from_numpy(X)
    assert session.run(None, {"x": x, "y": X})[0].tolist() == (X + X).tolist()
    (z,) = session.run_with_ort_values(["z"], {"x": x, "y": x})
    assert isinstance(z, ort_rs.OrtValue) and z.numpy().tolist() == (X + X).tolist()
    (again,) = session.run_with_ort_values(None, {"x": z, "y": x})
    assert again.numpy().tolist() == (3 * X).tolist()


def test_bound_outputs_are_written_to_their_memory(add):
    session = ort_rs.InferenceSession(add)
    out = np.zeros((2, 3), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_ortvalue_input("y", ort_rs.OrtValue.ortvalue_from_numpy(X))
    binding.bind_output("z", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    for _ in range(2):
        session.run_with_iobinding(binding)
        assert out.tolist() == (X + X).tolist()
    (copied,) = binding.copy_outputs_to_cpu()
    assert copied.tolist() == out.tolist() and not np.shares_memory(copied, out)
    assert binding.get_outputs()[0].data_ptr() == out.ctypes.data


def test_outputs_without_memory_are_allocated(two_outputs):
    session = ort_rs.InferenceSession(two_outputs)
    x = np.array([-1, 2], np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, TensorProto.FLOAT, [2], x.ctypes.data)
    kept = ort_rs.OrtValue.ortvalue_from_shape_and_type([2], np.float32)
    binding.bind_output("b")
    binding.bind_ortvalue_output("a", kept)
    session.run_with_iobinding(binding)
    assert [value.numpy().tolist() for value in binding.get_outputs()] == [[1, 2], [1, -2]]
    assert kept.numpy().tolist() == [1, -2]
    binding.clear_binding_outputs()
    assert binding.get_outputs() == []


def test_outputs_may_be_bound_to_the_same_memory(two_outputs):
    session = ort_rs.InferenceSession(two_outputs)
    kept = ort_rs.OrtValue.ortvalue_from_shape_and_type([2], np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.array([-1, 2], np.float32))
    binding.bind_ortvalue_output("a", kept)
    binding.bind_ortvalue_output("b", kept)
    session.run_with_iobinding(binding)
    assert kept.numpy().tolist() == [1, 2]


def test_an_output_may_be_bound_to_the_memory_of_an_input(add):
    session = ort_rs.InferenceSession(add)
    value = ort_rs.OrtValue.ortvalue_from_numpy(X.copy())
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_input("y", value)
    binding.bind_ortvalue_output("z", value)
    for times in (2, 4, 8):
        session.run_with_iobinding(binding)
        assert value.numpy().tolist() == (times * X).tolist()


def test_invalid_bindings_are_rejected(add):
    session = ort_rs.InferenceSession(add)
    binding = session.io_binding()
    with pytest.raises(RuntimeError, match="no_such"):
        binding.bind_cpu_input("no_such", X)
    with pytest.raises(RuntimeError, match="no_such"):
        binding.bind_output("no_such")
    with pytest.raises(RuntimeError, match="cuda"):
        binding.bind_output("z", "cuda")
    with pytest.raises(ValueError):
        ort_rs.InferenceSession(add).run_with_iobinding(binding)
    binding.bind_cpu_input("x", X)
    binding.bind_cpu_input("y", X)
    binding.bind_ortvalue_output("z", ort_rs.OrtValue.ortvalue_from_shape_and_type([5], np.float32))
    with pytest.raises(RuntimeError, match="`z`"):
        session.run_with_iobinding(binding)


def test_sparse_tensors_become_dense_and_keep_their_format():
    shape, values = [2, 3], np.array([1, 2], np.float32)
    rows = np.array([1, 2], np.int64), np.array([0, 1, 2], np.int64)
    made = []
    for package in (ort_rs, onnxruntime):
        device = package.OrtDevice.make("cpu", 0)
        coo = package.SparseTensor.sparse_coo_from_numpy(shape, values, np.array([1, 5]), device)
        pairs = package.SparseTensor.sparse_coo_from_numpy(shape, values, np.array([[0, 1], [1, 2]]), device)
        csr = package.SparseTensor.sparse_csr_from_numpy(shape, values, *rows, device)
        views = [coo.as_coo_view().indices(), pairs.as_coo_view().indices(), csr.as_csrc_view().inner(), csr.as_csrc_view().outer()]
        facts = [[it.data_type(), it.dense_shape(), it.device_name(), it.format().name, it.values().tolist()] for it in (coo, csr)]
        held = package.OrtValue.ort_value_from_sparse_tensor(coo)
        facts += [held.is_sparse_tensor(), held.data_type(), held.as_sparse_tensor().values().tolist()]
        made.append([*facts, *(view.tolist() for view in views)])
        for wrong in (coo.as_csrc_view, csr.as_coo_view, coo.as_blocksparse_view, lambda: coo.to_cuda(device)):
            with pytest.raises(RuntimeError):
                wrong()
        with pytest.raises(RuntimeError):
            package.SparseTensor.sparse_coo_from_numpy(shape, values, np.array([1]), device)
        if package is ort_rs:
            for sparse in (coo, pairs, csr):
                dense = ort_rs.OrtValue.ort_value_from_sparse_tensor(sparse).numpy()
                assert dense.tolist() == [[0, 1, 0], [0, 0, 2]]
            with pytest.raises(RuntimeError, match="do not fit"):
                ort_rs.SparseTensor.sparse_coo_from_numpy(shape, values, np.array([1, 50]), device)
    assert made[0] == made[1]
