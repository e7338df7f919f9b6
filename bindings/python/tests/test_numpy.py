"""Arrays: every type, stride and shape that numpy has, in and out."""

import sys

import ml_dtypes
import numpy as np
import pytest
from conftest import unary
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper

import ort_rs

TYPES = {
    TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16,
    TensorProto.INT8: np.int8, TensorProto.INT16: np.int16, TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64, TensorProto.UINT8: np.uint8, TensorProto.UINT16: np.uint16,
    TensorProto.UINT32: np.uint32, TensorProto.UINT64: np.uint64, TensorProto.BOOL: np.bool_,
    TensorProto.COMPLEX64: np.complex64, TensorProto.COMPLEX128: np.complex128,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16, TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2, TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz, TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
}
IDENTITY = {number: ort_rs.InferenceSession(unary("Identity", number)) for number in TYPES}


@pytest.mark.parametrize("number", TYPES, ids=lambda number: helper.tensor_dtype_to_string(number))
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 0, 3), (2, 3, 4, 5)])
def test_every_type_goes_in_and_comes_out(number, shape):
    x = (np.arange(np.prod(shape, dtype=int)) % 7).astype(TYPES[number]).reshape(shape)
    (y,) = IDENTITY[number].run(None, {"x": x})
    assert y.dtype == x.dtype and y.shape == x.shape
    assert y.tobytes() == x.tobytes()


def test_integers_hold_the_bits_of_a_type_that_numpy_lacks():
    bits = np.array([0x3F80, 0x4000], np.uint16)
    (y,) = IDENTITY[TensorProto.BFLOAT16].run(None, {"x": bits})
    assert y.astype(np.float32).tolist() == [1.0, 2.0]


@settings(deadline=None, max_examples=400)
@given(st.data())
def test_strided_arrays_are_read_as_numpy_reads_them(data):
    number = data.draw(st.sampled_from([number for number, dtype in TYPES.items() if np.dtype(dtype).num < 256]))
    whole = data.draw(hnp.arrays(TYPES[number], hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)))
    whole.flags.writeable = data.draw(st.booleans())
    view = whole
    if whole.ndim:
        view = whole[data.draw(hnp.basic_indices(whole.shape, allow_ellipsis=True, allow_newaxis=True))]
        view = np.asarray(view)
        view = view.transpose(data.draw(st.permutations(range(view.ndim))))
    before = view.copy()
    (y,) = IDENTITY[number].run(None, {"x": view})
    assert y.dtype == before.dtype and y.shape == before.shape and y.tobytes() == before.tobytes()
    value = ort_rs.OrtValue.ortvalue_from_numpy(view)
    assert value.numpy().shape == before.shape and value.numpy().tobytes() == before.tobytes()
    other = view.astype(view.dtype.newbyteorder(">" if sys.byteorder == "little" else "<"))
    if other.dtype.itemsize > 1:
        with pytest.raises(ort_rs.capi.onnxruntime_pybind11_state.InvalidArgument, match="byte order"):
            IDENTITY[number].run(None, {"x": other})
    assert not np.shares_memory(y, whole)


def test_read_only_arrays_and_broadcast_ones_are_inputs():
    x = np.ones((2, 3), np.float32)
    x.flags.writeable = False
    for array in (x, np.broadcast_to(np.float32(3), (4, 5))):
        assert IDENTITY[TensorProto.FLOAT].run(None, {"x": array})[0].tolist() == array.tolist()


def test_memory_that_is_not_aligned_is_copied():
    memory = np.zeros(4 * 3 + 1, np.uint8)
    x = memory[1:].view(np.float32)
    x[:] = [1, 2, 3]
    assert not x.flags.aligned
    assert IDENTITY[TensorProto.FLOAT].run(None, {"x": x})[0].tolist() == [1, 2, 3]


def test_another_byte_order_is_rejected_and_named():
    x = np.ones(3, ">f4")
    with pytest.raises(ort_rs.capi.onnxruntime_pybind11_state.InvalidArgument, match="`x`.*byte order"):
        IDENTITY[TensorProto.FLOAT].run(None, {"x": x})


def test_types_that_onnx_lacks_are_rejected_and_named():
    for array in (np.ones(3, np.longdouble), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "i4")])):
        with pytest.raises(ort_rs.capi.onnxruntime_pybind11_state.InvalidArgument, match="`x`"):
            IDENTITY[TensorProto.FLOAT].run(None, {"x": array})
