"""Values outside of runs: :class:`OrtValue`, and what says where memory is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _native
from ._enums import OrtAllocatorType, OrtDeviceMemoryType, OrtDeviceVendorId, OrtMemoryInfoDeviceType, OrtMemType
from ._options import onnx_type_of

_DEVICES = {"cpu": 0, "cuda": 1, "gpu": 1, "fpga": 2, "npu": 3, "cann": 3, "dml": 4, "webgpu": 4}


class OrtDevice:
    """A device: here, the CPU."""

    def __init__(self, device_type: int = 0, mem_type: int = 0, device_id: int = 0, vendor_id: int = 0) -> None:
        self._device_type, self._mem_type = int(device_type), int(mem_type)
        self._device_id, self._vendor_id = int(device_id), int(vendor_id)

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int | OrtDeviceVendorId = -1) -> OrtDevice:
        """A device by its name; only `cpu` has memory here."""
        if ort_device_name.lower() not in _DEVICES:
            raise Exception("Unsupported device type: " + ort_device_name)
        return OrtDevice(_DEVICES[ort_device_name.lower()], 0, device_id, max(int(vendor_id), 0))

    @staticmethod
    def cpu() -> int:
        """The number of the CPU among device types."""
        return 0

    @staticmethod
    def default_memory() -> int:
        """The number of a device's own memory."""
        return 0

    def device_id(self) -> int:
        """Which of several."""
        return self._device_id

    def device_type(self) -> int:
        """0 for the CPU."""
        return self._device_type

    def device_vendor_id(self) -> int:
        """PCI's number of the vendor; 0 for none."""
        return self._vendor_id

    def device_mem_type(self) -> int:
        """Which of its memories."""
        return self._mem_type

    def _get_c_device(self) -> OrtDevice:
        return self

    def __repr__(self) -> str:
        return f"OrtDevice(device_type={self._device_type}, device_id={self._device_id})"


def _check_cpu(device_type: str) -> None:
    OrtDevice.make(device_type, 0)
    if device_type.lower() != "cpu":
        raise RuntimeError(f"there is no memory of a device `{device_type}`: values are the CPU's")


class OrtMemoryInfo:
    """Where memory is: here, beside the CPU."""

    __slots__ = ("allocator_type", "device_id", "device_mem_type", "device_vendor_id", "mem_type", "name")

    def __init__(self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType) -> None:
        self.name, self.allocator_type, self.device_id, self.mem_type = name, allocator_type, device_id, mem_type
        self.device_mem_type, self.device_vendor_id = OrtDeviceMemoryType.DEFAULT, 0

    @staticmethod
    def create_v2(
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        device_mem_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> OrtMemoryInfo:
        """The same, said in full."""
        info = OrtMemoryInfo(name, allocator_type, device_id, OrtMemType.DEFAULT)
        info.device_mem_type, info.device_vendor_id = device_mem_type, vendor_id
        return info

    def __repr__(self) -> str:
        return f"OrtMemoryInfo(name={self.name!r}, device_id={self.device_id})"


class OrtValue:
    """A value that outlives runs: a tensor over memory of its own or of an array, a sequence, a map or an optional."""

    def __init__(self, ortvalue: _native.OrtValue, numpy_obj: np.ndarray | None = None, session: Any = None) -> None:
        if not isinstance(ortvalue, _native.OrtValue):
            raise ValueError("`Provided ortvalue` needs to be of type `ort_rs.capi.onnxruntime_pybind11_state.OrtValue`")
        self._ortvalue = ortvalue

    def _get_c_value(self) -> _native.OrtValue:
        return self._ortvalue

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A value over an array's memory, which it keeps: what is written to one is seen in the other. Only an array
        whose elements are not one after the other is copied."""
        _check_cpu(device_type)
        return cls(_native.OrtValue.from_array(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> OrtValue:
        """The same, with the array's bits taken as elements of another type of as many bits."""
        return cls(_native.OrtValue.from_array(data, int(onnx_element_type)))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """Zeros of a shape and a type: one of numpy's or ONNX's number."""
        _check_cpu(device_type)
        return cls(_native.OrtValue.zeros(list(shape), onnx_type_of(element_type)))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> OrtValue:
        """The dense tensor of a sparse one."""
        return cls(_native.OrtValue.from_array(sparse_tensor._dense()))

    @classmethod
    def ortvalue_from_sequence(cls, items: Sequence[np.ndarray | OrtValue]) -> OrtValue:
        """A sequence of tensors, which onnxruntime's OrtValue cannot be made of."""
        return cls(_native.OrtValue.sequence(list(items)))

    def as_sparse_tensor(self) -> SparseTensor:
        """Refused: values of runs are dense here."""
        raise RuntimeError("values are dense here: there is no sparse tensor in it")

    def data_ptr(self) -> int:
        """Where the first element is."""
        return self._ortvalue.data_ptr()

    def device_name(self) -> str:
        """`cpu`."""
        return self._ortvalue.device_name()

    def shape(self) -> Sequence[int]:
        """The dimensions of a tensor."""
        return self._ortvalue.shape()

    def data_type(self) -> str:
        """The type, such as `tensor(int64)`."""
        return self._ortvalue.data_type()

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return self._ortvalue.element_type()

    def tensor_size_in_bytes(self) -> int:
        """The bytes that the elements take."""
        return self._ortvalue.tensor_size_in_bytes()

    def has_value(self) -> bool:
        """Whether an optional has one; anything else does."""
        return self._ortvalue.has_value()

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return self._ortvalue.is_tensor()

    def is_sparse_tensor(self) -> bool:
        """False."""
        return self._ortvalue.is_sparse_tensor()

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence."""
        return self._ortvalue.is_tensor_sequence()

    def numpy(self) -> np.ndarray:
        """A tensor as an array over its memory."""
        return self._ortvalue.numpy()

    def to_object(self) -> Any:
        """What :meth:`InferenceSession.run` would return: an array, a list, a dictionary or None."""
        return self._ortvalue.object()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if copy:
            return np.array(array, dtype=dtype)
        return array if dtype is None else np.asarray(array, dtype=dtype)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        """A DLPack capsule over the tensor's memory, for `torch.from_dlpack`, `jax.dlpack` and others."""
        return self.numpy().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): the CPU."""
        return (1, 0)

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A value over the memory of a tensor that speaks DLPack, or of a capsule."""
        source = _Source(data)
        array = np.from_dlpack(source)
        if source.says_what_may_be_written or not (array.flags.c_contiguous and array.size):
            return cls(_native.OrtValue.from_array(array))
        # numpy takes memory for read-only of which nothing is said; its owner, who lends it, does not.
        element_type = onnx_type_of(array.dtype)
        return cls(_native.OrtValue.at_address(array.ctypes.data, element_type, list(array.shape), array))

    def update_inplace(self, data: np.ndarray | OrtValue) -> None:
        """Copies elements of the same type and shape into the value's memory."""
        if not isinstance(data, (np.ndarray, OrtValue)):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        self._ortvalue.update_inplace(data)

    def __repr__(self) -> str:
        return repr(self._ortvalue)

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'OrtValue' object: pickle its numpy()")


class _Source:
    """A tensor that speaks DLPack, or a capsule of the CPU's, and whether its capsule is of version 1: those say
    whether their memory may be written."""

    says_what_may_be_written = False

    def __init__(self, data: Any) -> None:
        if type(data).__name__ != "PyCapsule" and not hasattr(data, "__dlpack__"):
            raise TypeError(f"expected a tensor that speaks DLPack or a capsule, not {type(data).__name__}")
        self._data = data

    def __dlpack__(self, **how: Any) -> Any:
        capsule = self._data.__dlpack__(**how) if hasattr(self._data, "__dlpack__") else self._data
        self.says_what_may_be_written = "dltensor_versioned" in repr(capsule)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__() if hasattr(self._data, "__dlpack_device__") else (1, 0)


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies each tensor into the one at the same place."""
    if len(src) != len(dst):
        raise ValueError(f"{len(src)} tensors cannot be copied to {len(dst)}")
    for source, target in zip(src, dst):
        target.update_inplace(source)


class SparseTensor:
    """A sparse tensor in coordinates or rows, made dense where a model wants it: nothing here computes with zeros
    left out."""

    def __init__(self, dense: np.ndarray, values: np.ndarray, format: str) -> None:
        self._array, self._values, self._format = dense, values, format

    @classmethod
    def sparse_coo_from_numpy(
        cls, dense_shape: Any, values: np.ndarray, coo_indices: np.ndarray, ort_device: OrtDevice
    ) -> SparseTensor:
        """Of coordinates: flat ones, or a row of them for each value."""
        dense = np.zeros(tuple(dense_shape), values.dtype)
        indices = np.asarray(coo_indices)
        if indices.ndim == 2:
            dense[tuple(indices.T)] = values
        else:
            dense.reshape(-1)[indices] = values
        return cls(dense, values, "ORT_SPARSE_COO")

    @classmethod
    def sparse_csr_from_numpy(
        cls, dense_shape: Any, values: np.ndarray, inner_indices: np.ndarray, outer_indices: np.ndarray,
        ort_device: OrtDevice,
    ) -> SparseTensor:
        """Of compressed rows."""
        dense = np.zeros(tuple(dense_shape), values.dtype)
        rows = np.repeat(np.arange(len(outer_indices) - 1), np.diff(outer_indices))
        dense[rows, inner_indices] = values
        return cls(dense, values, "ORT_SPARSE_CSRC")

    def _dense(self) -> np.ndarray:
        return self._array

    def values(self) -> np.ndarray:
        """The elements that are stored."""
        return self._values

    def format(self) -> str:
        """How it was made."""
        return self._format

    def dense_shape(self) -> np.ndarray:
        """The dimensions of the dense tensor."""
        return np.array(self._array.shape, np.int64)

    def data_type(self) -> str:
        """The type, such as `sparse_tensor(float)`."""
        return "sparse_" + _native.OrtValue.from_array(self._array).data_type()

    def device_name(self) -> str:
        """`cpu`."""
        return "cpu"
