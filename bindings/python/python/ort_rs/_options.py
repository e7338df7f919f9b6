"""Options of sessions: onnxruntime's, with their effects."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np

from . import _native
from ._environment import _DEFAULTS
from ._enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtExecutionProviderDevicePolicy,
)

T = TypeVar("T")

#: The Python types that onnxruntime accepts for each type.
_CONVERT: dict[type, Callable[[Any], Any]] = {bool: _native.flag, int: _native.number, str: _native.text}


class _Option(Generic[T]):
    """An attribute with a default and a type."""

    def __init__(self, default: T, doc: str) -> None:
        self.default = default
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> _Option[T]: ...
    @overload
    def __get__(self, instance: SessionOptions, owner: type) -> T: ...
    def __get__(self, instance: SessionOptions | None, owner: type) -> _Option[T] | T:
        return self if instance is None else instance._values.get(self.name, self.default)

    def __set__(self, instance: SessionOptions, value: T) -> None:
        kind: type = type(self.default)
        if kind in _CONVERT:
            instance._values[self.name] = _CONVERT[kind](value)
        elif isinstance(value, kind):
            instance._values[self.name] = value
        else:
            raise TypeError(f"{self.name} must be a {kind.__name__}, not {value!r}")


class SessionOptions:
    """The options of a session. See docs/options.md for every key of :meth:`add_session_config_entry`."""

    __slots__ = (
        "__weakref__",
        "_canceled",
        "_entries",
        "_external_files",
        "_free",
        "_initializers",
        "_libraries",
        "_loading",
        "_providers",
        "_values",
    )

    enable_cpu_mem_arena = _Option(True, "False releases the memory of every run at its end.")
    enable_mem_pattern = _Option(True, "False if shapes vary: memory is not retained for the largest.")
    enable_mem_reuse = _Option(True, "Accepted; the memory of values is always reused.")
    enable_profiling = _Option(False, "Records where time goes, until :meth:`InferenceSession.end_profiling`.")
    execution_mode = _Option(ExecutionMode.ORT_SEQUENTIAL, "Whether branches run in parallel.")
    execution_order = _Option(ExecutionOrder.DEFAULT, "Accepted; the plan always orders nodes for low memory use.")
    graph_optimization_level = _Option(GraphOptimizationLevel.ORT_ENABLE_ALL, "How far the graph is optimized.")
    inter_op_num_threads = _Option(0, "How many branches run at once in parallel mode; 0 for the number of threads.")
    intra_op_num_threads = _Option(0, "How many threads compute, including the caller's; 0 for the number of physical cores.")
    log_severity_level = _Option(-1, "The minimum severity that is logged: 0 verbose to 4 fatal; -1 for the default.")
    log_verbosity_level = _Option(0, "How detailed verbose messages are.")
    logid = _Option("", "The name of the session in messages.")
    optimized_model_filepath = _Option("", "Writes the optimized model there: as `.ort` by that extension, otherwise as `.onnx`.")
    profile_file_prefix = _Option("onnxruntime_profile_", "The start of the name of the profile.")
    use_deterministic_compute = _Option(False, "Accepted; results never depend on the number of threads.")
    use_per_session_threads = _Option(True, "Accepted; sessions share threads, which each run uses exclusively.")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._entries: dict[str, str] = {}
        self._free: dict[str, dict[str, int]] = {"name": {}, "denotation": {}}
        self._initializers: dict[str, tuple[_native.OrtValue, bool]] = {}
        self._external_files: dict[str, _native.OrtValue] = {}
        self._libraries: list[str] = []
        self._providers: list[str] = []
        self._canceled = False
        self._loading: list[_native.LoadCancel] = []

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in {**self._values, **self._entries}.items())
        return f"SessionOptions({settings})"

    def __reduce__(self) -> Any:
        return SessionOptions._of_state, (picklable(self._state()),)

    def _state(self) -> dict[str, tuple[Any, ...]]:
        """What another process needs to create the same options. The model that they save is not saved again."""
        values = {name: it for name, it in self._values.items() if name != "optimized_model_filepath"}
        of_dicts = {"values": values, "entries": self._entries, **self._free}
        lists = {"providers": self._providers, "initializers": self._initializers, "external": self._external_files}
        return {
            **{name: tuple(it.items()) for name, it in of_dicts.items()},
            **{name: tuple(it) for name, it in lists.items()},
        }

    @staticmethod
    def _of_state(state: dict[str, Any]) -> SessionOptions:
        options = SessionOptions()
        options._values, options._entries = dict(state["values"]), dict(state["entries"])
        options._free = {name: dict(state[name]) for name in ("name", "denotation")}
        options._providers = list(state["providers"])
        return options

    def add_session_config_entry(self, key: str, value: str, /) -> None:
        """Sets a key of docs/options.md. An unknown one is accepted, with a warning when a session is created."""
        key, value = _native.entry(key, value)
        self._entries[key] = value

    def get_session_config_entry(self, key: str, /) -> str:
        """The value of a key that was set."""
        key = _native.text(key)
        if key not in self._entries:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self._entries[key]

    def add_free_dimension_override_by_name(self, name: str, size: int, /) -> None:
        """Fixes the size of an input dimension that is only named."""
        self._free["name"][_native.text(name)] = _size(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int, /) -> None:
        """Fixes the size of all input dimensions with this denotation."""
        self._free["denotation"][_native.text(denotation)] = _size(size)

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[bytes], lengths: Sequence[int], /
    ) -> None:
        """The bytes of the model's external files, by their names in the model. They are kept, not copied."""
        names, lengths = [_native.text(name) for name in names], [_native.number(length) for length in lengths]
        if not len(names) == len(buffers) == len(lengths):
            raise RuntimeError("names, buffers and lengths must have the same number of items")
        for name, buffer, length in zip(names, buffers, lengths):
            data = np.frombuffer(buffer, np.uint8) if memoryview(buffer).nbytes else np.zeros(0, np.uint8)
            self._external_files[name] = _native.OrtValue.from_array(data[:length])

    def add_initializer(self, name: str, value: Any, /) -> None:
        """Overrides the value of an initializer with an :class:`OrtValue`. Its memory is kept and not copied: sessions
        with the same value share it. A model without the initializer ignores it; one with another type or shape
        does not load."""
        self._initialize(name, value, False)

    def add_external_initializers(self, names: list[str], values: list[Any], /) -> None:
        """The same for initializers that the model has in external files, which are then not read. The model must
        have them there."""
        if not (isinstance(names, list) and isinstance(values, list)):
            raise TypeError("names and values must be lists")
        if len(names) != len(values):
            raise RuntimeError("Expecting names and ort_values lists to have equal length")
        for name, value in zip(names, values):
            self._initialize(name, value, True)

    def _initialize(self, name: str, value: Any, is_external: bool) -> None:
        name, native = _native.text(name), getattr(value, "_ortvalue", None)
        if not isinstance(native, _native.OrtValue) or not native.is_tensor():
            raise RuntimeError(f"the value of initializer {name!r} must be an OrtValue of a tensor, not {value!r}")
        if name in self._initializers:
            raise RuntimeError(f"an OrtValue for the initializer {name!r} has already been added")
        self._initializers[name] = (native, is_external)

    def register_custom_ops_library(self, path: str, /) -> None:
        """Has no effect but a warning: operator libraries are written against onnxruntime's C++ API and are not loaded. A
        model with their operators fails to load, with their names in the error."""
        path = _native.text(path)
        if not os.path.exists(path):
            raise _native.Fail(f"[ONNXRuntimeError] : 1 : FAIL : Failed to load library {path}: no such file")
        self._libraries.append(path)
        warnings.warn(f"{path} is not loaded: operator libraries for onnxruntime are not supported", stacklevel=2)

    def add_provider(self, name: str, options: Mapping[str, str], /) -> None:
        """Requests a provider; only the CPU provider is available."""
        name = _native.text(name)
        if not isinstance(options, dict):
            raise TypeError("the options of a provider must be a dictionary")
        for key, value in options.items():
            _native.text(key), _native.text(value)
        if name not in ("CPUExecutionProvider", "AzureExecutionProvider"):
            raise RuntimeError(f"Unknown Provider Type: {name}: known are CPUExecutionProvider and AzureExecutionProvider")
        self._providers.append(name)

    def add_provider_for_devices(self, devices: Sequence[Any], options: Mapping[str, str], /) -> None:
        """Rejected: there are no plugin devices."""
        if not (isinstance(devices, list) and isinstance(options, dict)) or devices:
            raise TypeError("expected devices from get_ep_devices(), which returns none, and a dictionary of options")
        raise _native.InvalidArgument("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : no such device")

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy, /) -> None:
        """Accepted; there is only one provider."""
        if not isinstance(policy, OrtExecutionProviderDevicePolicy):
            raise TypeError(f"a policy must be an OrtExecutionProviderDevicePolicy, not {policy!r}")

    def set_provider_selection_policy_delegate(self, delegate: Callable[..., Any], /) -> None:
        """Accepted and never called; there is only one provider."""
        _check_function(delegate)

    def has_providers(self) -> bool:
        """Whether a provider was requested."""
        return bool(self._providers)

    def set_load_cancellation_flag(self, is_on: bool, /) -> None:
        """True cancels the loading of sessions with these options, from any thread, with `ModelLoadCanceled`."""
        is_on = self._canceled = _native.flag(is_on)
        if is_on:
            for loading in list(self._loading):
                loading.cancel()

    def set_ep_context_data_read_func(self, read_func: Callable[..., Any], max_data_size: int, /) -> None:
        """Accepted and never called; no provider here stores a context in the model."""
        if read_func is None:
            raise TypeError("read_func must be a function")
        _check_function(read_func)
        _native.number(max_data_size)

    def clear_ep_context_data_read_func(self) -> None:
        """Accepted; there is none."""

    def _builder(self) -> _native.Builder:
        """The extension module's builder with these options."""
        builder = _native.Builder()
        for key, value in self._keys().items():
            builder.config(key, value)
        for key, value in self._entries.items():
            if builder.knows(key):
                builder.config(key, value)
            else:
                warnings.warn(f"SessionOptions: unknown key {key!r}", stacklevel=4)
        for name, size in self._free["name"].items():
            builder.free_dimension(name, size)
        for name, size in self._free["denotation"].items():
            builder.free_dimension_by_denotation(name, size)
        for name, data in self._external_files.items():
            builder.external_data(name, data)
        for name, (tensor, is_external) in self._initializers.items():
            builder.initializer(name, tensor, is_external)
        if self._canceled:
            builder.cancel().cancel()
        return builder

    def _keys(self) -> dict[str, str]:
        """The attributes that were set, as keys."""
        flag = {True: "1", False: "0"}
        keys = {
            "session.graph_optimization_level": str(int(self.graph_optimization_level)),
            "session.intra_op_num_threads": str(max(self.intra_op_num_threads, 0)),
            "session.inter_op_num_threads": str(max(self.inter_op_num_threads, 0)),
            "session.execution_mode": ("sequential", "parallel")[int(self.execution_mode)],
        }
        for name in ("enable_cpu_mem_arena", "enable_mem_pattern"):
            if name in self._values:
                keys[f"session.{name}"] = flag[self._values[name]]
        severity = self.log_severity_level if self.log_severity_level >= 0 else _DEFAULTS.severity
        if severity <= 4:
            keys["session.log_severity_level"] = str(severity)
        if "log_verbosity_level" in self._values:
            keys["session.log_verbosity_level"] = str(max(self.log_verbosity_level, 0))
        if self.logid:
            keys["session.log_id"] = self.logid
        if self.enable_profiling:
            keys["session.enable_profiling"] = self.profile_file_prefix.rstrip("_")
        return keys


def picklable(state: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """The state of options. TypeError if they have values in memory, which other processes do not have."""
    for what in ("initializers", "external"):
        if state[what]:
            raise TypeError(f"cannot pickle SessionOptions with values in memory: {', '.join(state[what])}")
    return state


def _size(value: Any) -> int:
    if isinstance(value, float) or not hasattr(value, "__int__"):
        raise TypeError(f"a size must be an integer, not {value!r}")
    return int(value)


def _check_function(function: object) -> None:
    if function is not None and not callable(function):
        raise TypeError(f"{function!r} is not callable")


def onnx_type_of(element_type: Any) -> int:
    """ONNX's number of an element type, given as that number or as a type of numpy or ml_dtypes."""
    if isinstance(element_type, (int, np.integer)) and not isinstance(element_type, bool):
        return int(element_type)
    try:
        return _native.onnx_type(np.dtype(element_type))
    except TypeError as reason:
        raise RuntimeError(f"Not a valid numpy type: {reason}") from reason
