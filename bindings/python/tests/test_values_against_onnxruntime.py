"""Values compared with onnxruntime's: created from every kind of array, type and shape."""

import ml_dtypes
import numpy as np
import pytest
from outcomes import Cases

X = np.ones((2, 3), np.float32)
CASES = Cases({
    "there are values of more types": [
        f"OrtValue of {name}" for name in ("complex64", "complex128", "text", "objects", "bfloat16", "int4")
    ] + [f"OrtValue of 2x3 of type {it}" for it in (8, 14, 15, "'str'", "bfloat16")],
    "read-only memory stays read-only": ["OrtValue of read-only"],
    "onnxruntime interprets the bytes in this machine's order": ["OrtValue of another order"],
    "onnxruntime copies bits as they are": [
        f"update with {name}" for name in ("float64", "int64", "uint64", "int32", "uint32", "float128", "complex64", "complex128")
    ],
})
_read_only = X.copy()
_read_only.flags.writeable = False
ARRAYS = {
    **{name: np.ones((2, 3), name) for name in (
        "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
        "complex64", "complex128", "longdouble", "datetime64[s]", "timedelta64[s]",
    )},
    "strided": np.ones((2, 6), np.float32)[:, ::2], "fortran": np.asfortranarray(X), "0-d": np.array(3, np.float32),
    "empty": np.zeros((0, 3), np.float32), "another order": X.astype(">f4"), "read-only": _read_only,
    "broadcast": np.broadcast_to(np.float32(1), (2, 3)), "text": np.array(["a"]), "objects": np.array(["a"], object),
    "bfloat16": np.ones(2, ml_dtypes.bfloat16), "int4": np.ones(3, ml_dtypes.int4),
    "structs": np.zeros(2, [("a", "i4")]), "a list": [1.0], "a numpy scalar": np.float32(1), "None": None, "3": 3,
}
ARRAYS["float128"] = ARRAYS.pop("longdouble")
#: Smaller than the value that they would update, and read out of bounds by onnxruntime.
SMALLER = ("bool", "int8", "uint8", "int16", "uint16", "float16")


def facts(value):
    whole = [value.data_type(), value.shape(), value.element_type(), value.tensor_size_in_bytes(), value.has_value()]
    return [*whole, value.is_tensor(), value.is_sparse_tensor(), value.is_tensor_sequence(), value.device_name(), value.numpy()]


def value_of(package, array=X):
    return package.OrtValue.ortvalue_from_numpy(array)


def updated(package, data):
    value = value_of(package, np.zeros((2, 3), np.float32))
    value.update_inplace(data)
    return value.numpy()


for _name, _array in ARRAYS.items():
    CASES.add(f"OrtValue of {_name}", lambda package, array=_array: facts(value_of(package, array)))
    if _name not in ("another order", *SMALLER):
        CASES.add(f"update with {_name}", lambda package, array=_array: updated(package, array))
for _device in ("CPU", "cuda", "foo", ""):
    CASES.add(f"OrtValue on {_device!r}", lambda package, device=_device: facts(package.OrtValue.ortvalue_from_numpy(X, device)))
for _type in [*range(-1, 30), "float32", "str", np.float32, bool, None, "foo", 2.5, ml_dtypes.bfloat16]:
    # With 0, onnxruntime creates an empty value.
    if _type not in (-1, 0):
        _said = _type.__name__ if isinstance(_type, type) else repr(_type)
        CASES.add(f"OrtValue of 2x3 of type {_said}", 
            lambda package, it=_type: package.OrtValue.ortvalue_from_shape_and_type([2, 3], it).data_type()
        )
    if _type in range(21, 24) or _type in range(25, 27) or not isinstance(_type, int):
        continue
    for _name in ("uint16", "uint8", "float32"):
        CASES.add(f"OrtValue of the bits of {_name} as {_type}", 
            lambda package, name=_name, it=_type: package.OrtValue.ortvalue_from_numpy_with_onnx_type(ARRAYS[name], it).data_type()
        )
for _shape in ((), [0], [-1], 2, ["a"], np.array([2]), [2.5]):
    CASES.add(f"OrtValue of shape {_shape!r}", 
        lambda package, shape=_shape: facts(package.OrtValue.ortvalue_from_shape_and_type(shape, np.int64))[:4]
    )
CASES.add("OrtValue(3)", lambda package: package.OrtValue(3))
CASES.add("update with a value", lambda package: updated(package, value_of(package)))
CASES.add("as_sparse_tensor of a dense one", lambda package: value_of(package).as_sparse_tensor())
for _how in ({}, {"dtype": np.float64}, {"copy": True}, {"copy": False}, {"dtype": np.float64, "copy": False}):
    CASES.add(f"np.array(value, **{_how})", lambda package, how=_how: np.array(value_of(package), **how))


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_in_onnxruntime(name):
    CASES.compare(name)


def test_every_difference_is_a_case():
    assert [name for name in CASES.different if name not in CASES] == []
