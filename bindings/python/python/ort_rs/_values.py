"""Values outside of runs: :class:`OrtValue`, and descriptions of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _native
from ._enums import OrtAllocatorType, OrtDeviceMemoryType, OrtDeviceVendorId, OrtMemoryInfoDeviceType, OrtMemType
from ._options import onnx_type_of
from ._sparse import SparseTensor

_DEVICES = {"cpu": 0, "cuda": 1, "gpu": 1, "fpga": 2, "npu": 3, "cann": 3, "dml": 4, "webgpu": 4}


class OrtDevice:
    """A device: here, the CPU."""

    def __init__(self, device_type: int = 0, mem_type: int = 0, device_id: int = 0, vendor_id: int = 0) -> None:
        self._device_type, self._mem_type = int(device_type), int(mem_type)
        self._device_id, self._vendor_id = int(device_id), int(vendor_id)

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int | OrtDeviceVendorId = -1) -> OrtDevice:
        """A device by its name; only `cpu` has memory."""
        if ort_device_name not in _DEVICES:
            raise Exception("Unsupported device type: " + ort_device_name)
        return OrtDevice(_DEVICES[ort_device_name], 0, device_id, max(int(vendor_id), 0))

    @staticmethod
    def cpu() -> int:
        """The CPU's device type."""
        return 0

    @staticmethod
    def default_memory() -> int:
        """The memory type of a device's own memory."""
        return 0

    def device_id(self) -> int:
        """The index among devices of this type."""
        return self._device_id

    def device_type(self) -> int:
        """0 for the CPU."""
        return self._device_type

    def device_vendor_id(self) -> int:
        """The PCI vendor id; 0 for none."""
        return self._vendor_id

    def device_mem_type(self) -> int:
        """The memory type."""
        return self._mem_type

    def _get_c_device(self) -> OrtDevice:
        return self

    def __repr__(self) -> str:
        return f"OrtDevice(device_type={self._device_type}, device_id={self._device_id})"


def _check_cpu(device_type: str) -> None:
    OrtDevice.make(device_type, 0)
    if device_type != "cpu":
        raise RuntimeError(f"device `{device_type}` is not supported: values are in CPU memory")


class OrtMemoryInfo:
    """The location of memory: always the CPU's."""

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
        """The same, with all properties."""
        info = OrtMemoryInfo(name, allocator_type, device_id, OrtMemType.DEFAULT)
        info.device_mem_type, info.device_vendor_id = device_mem_type, vendor_id
        return info

    def __repr__(self) -> str:
        return f"OrtMemoryInfo(name={self.name!r}, device_id={self.device_id})"


class OrtValue:
    """A value that outlives runs: a tensor over its own or an array's memory, a sequence, a map or an optional."""

    def __init__(self, ortvalue: _native.OrtValue, numpy_obj: np.ndarray | None = None, session: Any = None) -> None:
        if not isinstance(ortvalue, _native.OrtValue):
            raise ValueError("`Provided ortvalue` needs to be of type `ort_rs.capi.onnxruntime_pybind11_state.OrtValue`")
        self._ortvalue = ortvalue
        self._sparse: SparseTensor | None = None

    def _get_c_value(self) -> _native.OrtValue:
        return self._ortvalue

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A value over an array's memory, which it keeps alive: writes to one are visible in the other. Only an array
        that is not contiguous is copied."""
        _check_cpu(device_type)
        return cls(_native.OrtValue.from_array(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> OrtValue:
        """The same, with the array's bits interpreted as elements of another type of the same width."""
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
        """Zeros of a shape and a type, given as a numpy type or ONNX's number."""
        _check_cpu(device_type)
        return cls(_native.OrtValue.zeros(list(shape), onnx_type_of(element_type)))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> OrtValue:
        """A sparse tensor, which runs read as a dense one."""
        value = cls(_native.OrtValue.from_array(sparse_tensor._dense()))
        value._sparse = sparse_tensor
        return value

    @classmethod
    def ortvalue_from_sequence(cls, items: Sequence[np.ndarray | OrtValue]) -> OrtValue:
        """A sequence of tensors, which onnxruntime's OrtValue does not support."""
        return cls(_native.OrtValue.sequence(list(items)))

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor that it was created from; outputs of runs are dense."""
        if self._sparse is None:
            raise RuntimeError("Only OrtValues that contain SparseTensors are currently supported: this is dense")
        return self._sparse

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._ortvalue.data_ptr()

    def device_name(self) -> str:
        """`cpu`."""
        return self._ortvalue.device_name()

    def shape(self) -> Sequence[int]:
        """The dimensions of a tensor."""
        return self._ortvalue.shape()

    def data_type(self) -> str:
        """The type, such as `tensor(int64)`."""
        return ("" if self._sparse is None else "sparse_") + self._ortvalue.data_type()

    def element_type(self) -> int:
        """ONNX's number of the element type."""
        return self._ortvalue.element_type()

    def tensor_size_in_bytes(self) -> int:
        """The size of the elements in bytes."""
        return self._ortvalue.tensor_size_in_bytes()

    def has_value(self) -> bool:
        """Whether an optional has a value; true for other kinds."""
        return self._ortvalue.has_value()

    def is_tensor(self) -> bool:
        """Whether it is a tensor, and not a sparse one."""
        return self._sparse is None and self._ortvalue.is_tensor()

    def is_sparse_tensor(self) -> bool:
        """Whether it was created from a sparse tensor."""
        return self._sparse is not None

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence."""
        return self._ortvalue.is_tensor_sequence()

    def numpy(self) -> np.ndarray:
        """A tensor as an array over its memory."""
        return self._ortvalue.numpy()

    def to_object(self) -> Any:
        """The value as :meth:`InferenceSession.run` would return it: an array, a list, a dictionary or None."""
        return self._ortvalue.object()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if copy is None:
            return np.asarray(array, dtype=dtype)
        return np.array(array, dtype=dtype, copy=copy)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        """A DLPack capsule over the tensor's memory, for `torch.from_dlpack`, `jax.dlpack` and others: of every type
        except strings, those below 8 bits packed. Read-only memory is a `BufferError`."""
        return self._ortvalue.to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): the CPU."""
        return self._ortvalue.__dlpack_device__()

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """A value over the memory of a tensor that supports DLPack, or of a capsule. It must be row-major; read-only
        memory stays read-only."""
        if hasattr(data, "__dlpack__"):
            try:
                data = data.__dlpack__(max_version=(1, 0))
            except TypeError:
                # It supports only the unversioned protocol.
                data = data.__dlpack__()
        return cls(_native.OrtValue.from_dlpack(data))

    def update_inplace(self, data: np.ndarray | OrtValue) -> None:
        """Copies elements of the same type and shape into the value's memory."""
        if not isinstance(data, (np.ndarray, OrtValue)):
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        self._ortvalue.update_inplace(data)

    def __repr__(self) -> str:
        return repr(self._ortvalue)

    def __copy__(self) -> OrtValue:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'OrtValue' object: pickle its numpy() instead")


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies each tensor into the one at the same index."""
    if len(src) != len(dst):
        raise ValueError(f"{len(src)} tensors cannot be copied to {len(dst)}")
    for source, target in zip(src, dst):
        target.update_inplace(source)
