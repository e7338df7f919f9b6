"""onnxruntime's extension module: the exceptions, and the classes that the package wraps."""

from .. import _enums, _environment
from .._enums import *  # noqa: F403
from .._environment import *  # noqa: F403
from .._native import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    LoraAdapter,
    ModelLoadCanceled,
    ModelLoaded,
    ModelMetadata,
    ModelRequiresCompilation,
    NodeArg,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,  # noqa: A004
    OrtValue,
    RunOptions,
    RuntimeException,
)
from .._options import SessionOptions
from .._session import InferenceSession
from .._session import IOBinding as SessionIOBinding
from .._values import OrtDevice, OrtMemoryInfo, SparseTensor, copy_tensors

OrtValueVector = list


def get_default_session_options() -> SessionOptions:
    """Default options."""
    return SessionOptions()


__all__ = [
    *(name for module in (_enums, _environment) for name in dir(module) if not name.startswith("_")),
    "DeviceReset",
    "EPFail",
    "EngineError",
    "Fail",
    "InferenceSession",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "LoraAdapter",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelMetadata",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NotFound",
    "NotImplemented",
    "OrtDevice",
    "OrtMemoryInfo",
    "OrtValue",
    "OrtValueVector",
    "RunOptions",
    "RuntimeException",
    "SessionIOBinding",
    "SessionOptions",
    "SparseTensor",
    "copy_tensors",
    "get_default_session_options",
]
