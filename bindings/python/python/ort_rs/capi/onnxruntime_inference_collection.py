"""Sessions and values, in the module in which onnxruntime defines them."""

from .._compile import ModelCompiler
from .._enums import OrtDeviceVendorId
from .._session import InferenceSession, IOBinding, Session, check_and_normalize_provider_args
from .._values import OrtDevice, OrtValue, SparseTensor, copy_tensors

__all__ = [
    "IOBinding",
    "InferenceSession",
    "ModelCompiler",
    "OrtDevice",
    "OrtDeviceVendorId",
    "OrtValue",
    "Session",
    "SparseTensor",
    "check_and_normalize_provider_args",
    "copy_tensors",
]
