"""ONNX's backend API: `prepare`, `run_model`, `supports_device`, as in onnxruntime.backend."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.backend.base import Backend, BackendRep
from onnx.checker import check_model

from .. import InferenceSession, RunOptions, SessionOptions, get_device

__all__ = [
    "OrtBackend",
    "OrtBackendRep",
    "is_compatible",
    "prepare",
    "run",
    "run_model",
    "run_node",
    "supports_device",
]


class OrtBackendRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """The outputs for a list of inputs in the model's order, or for one input."""
        options = RunOptions()
        for name, value in kwargs.items():
            if name in ("log_severity_level", "log_verbosity_level", "logid"):
                setattr(options, name, value)
        names = [arg.name for arg in self._session.get_inputs()]
        inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        if len(inputs) != len(names):
            raise RuntimeError(f"the model has {len(names)} inputs, and {len(inputs)} were given")
        values = [np.asarray(value) if isinstance(value, np.generic) else value for value in inputs]
        return self._session.run(None, dict(zip(names, values)), options)


class OrtBackend(Backend):
    """ONNX's backend API on sessions."""

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Whether there is such a device."""
        return device is None or cls.supports_device(device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is the CPU."""
        return device == get_device()

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> OrtBackendRep:
        """Loads a model from a path, bytes or a `ModelProto`. Attributes of `SessionOptions` may be given."""
        if isinstance(model, OrtBackendRep):
            return model
        if isinstance(model, InferenceSession):
            return OrtBackendRep(model)
        if device is not None and not cls.supports_device(device):
            raise RuntimeError(f"Incompatible device expected '{device}', got '{get_device()}'")
        if isinstance(model, ModelProto):
            model = model.SerializeToString()
            check_model(model)
        options = SessionOptions()
        for name, value in kwargs.items():
            if name in vars(SessionOptions) and name not in ("enable_profiling", "optimized_model_filepath"):
                setattr(options, name, value)
        return OrtBackendRep(InferenceSession(model, options))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any) -> Any:
        """Prepares a model and runs it."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str | None = None, outputs_info: Any = None, **kwargs: Any) -> Any:
        """Rejected, as by onnxruntime: only a model specifies the versions of operators."""
        raise NotImplementedError("it is much more efficient to run a whole model than every node independently")


is_compatible = OrtBackend.is_compatible
prepare = OrtBackend.prepare
run = OrtBackend.run_model
run_model = OrtBackend.run_model
run_node = OrtBackend.run_node
supports_device = OrtBackend.supports_device
