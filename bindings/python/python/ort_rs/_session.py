"""Sessions: a model that is ready to run."""

from __future__ import annotations

import collections.abc
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _native
from ._environment import get_available_providers
from ._enums import OrtAllocatorType, OrtMemType
from ._options import SessionOptions, onnx_type_of
from ._recipe import Stamp, recipe_of, reopened, stamp_of
from ._values import OrtMemoryInfo, OrtValue, _check_cpu

Feed = Mapping[str, Any]
Providers = Sequence["str | tuple[str, dict[Any, Any]]"]


def check_and_normalize_provider_args(
    providers: Providers | None,
    provider_options: Sequence[dict[Any, Any]] | None,
    available_provider_names: Sequence[str],
) -> tuple[list[str], list[dict[str, str]]]:
    """The names and options of providers, each once; a warning for those that are not available."""
    if providers is None:
        return [], []
    if not isinstance(providers, collections.abc.Sequence):
        raise ValueError("'providers' should be a sequence.")
    if provider_options is not None:
        if not isinstance(provider_options, collections.abc.Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(providers) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(provider, str) for provider in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(options, dict) for options in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        providers = list(zip(providers, provider_options))  # type: ignore[arg-type]
    found: dict[str, dict[str, str]] = {}
    for provider in providers:
        name, options = (provider, {}) if isinstance(provider, str) else _pair(provider)
        if name not in available_provider_names:
            known = ", ".join(available_provider_names)
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names. Available providers: '{known}'"
            )
        if name in found:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.")
        else:
            found[name] = {str(key): str(value) for key, value in options.items()}
    return list(found), list(found.values())


def _pair(provider: Any) -> tuple[str, dict[Any, Any]]:
    if isinstance(provider, tuple) and len(provider) == 2:
        name, options = provider
        if isinstance(name, str) and isinstance(options, dict):
            return name, options
    raise ValueError("'providers' values must be either strings or (string, dict) tuples.")


class Session:
    """The base class of sessions."""

    _sess: _native.Session
    _sess_options: SessionOptions
    _inputs_meta: list[_native.NodeArg]
    _outputs_meta: list[_native.NodeArg]
    _overridable_initializers: list[_native.NodeArg]
    _model_meta: _native.ModelMetadata
    _providers: list[str]
    _provider_options: dict[str, dict[str, str]]
    _profiling_start: int

    def get_session_options(self) -> SessionOptions:
        """The options that the session was created with."""
        return self._sess_options

    def get_inputs(self) -> list[_native.NodeArg]:
        """The required inputs: their names, types and shapes."""
        return self._inputs_meta

    def get_outputs(self) -> list[_native.NodeArg]:
        """The outputs: their names, types and shapes."""
        return self._outputs_meta

    def get_overridable_initializers(self) -> list[_native.NodeArg]:
        """The inputs that the model has a default for."""
        return self._overridable_initializers

    def get_modelmeta(self) -> _native.ModelMetadata:
        """The model's metadata."""
        return self._model_meta

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """The memory in which each input is expected."""
        return [_cpu_memory() for _ in self._inputs_meta]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """The memory in which each output is."""
        return [_cpu_memory() for _ in self._outputs_meta]

    def get_input_epdevices(self) -> list[Any]:
        """The devices of the inputs' providers: none, since there are no plugins."""
        return []

    def get_providers(self) -> list[str]:
        """The providers of the session: the CPU provider."""
        return self._providers

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider."""
        return self._provider_options

    def get_provider_graph_assignment_info(self) -> list[Any]:
        """Rejected: one provider runs all nodes; :meth:`profile` lists them."""
        raise _native.Fail("[ONNXRuntimeError] : 1 : FAIL : one provider runs all nodes: nothing is recorded")

    def set_providers(
        self, providers: Providers | None = None, provider_options: Sequence[dict[Any, Any]] | None = None
    ) -> None:
        """Creates the session again with these providers."""
        raise NotImplementedError

    def disable_fallback(self) -> None:
        """Accepted; there is no provider to fall back from."""
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        """Accepted; there is no provider to fall back from."""
        self._enable_fallback = True

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Feed,
        run_options: _native.RunOptions | None = None,
    ) -> list[Any]:
        """Runs the model.

        C-contiguous arrays are read in place, others are copied once. The GIL is released during the run, and any
        number of threads may call it.

        :param output_names: the outputs to compute, in this order; all for None. Nodes that they do not need do not
            run.
        :param input_feed: an array, a list, a dictionary or an :class:`OrtValue` for each input, by name.
        :return: an array, a list, a dictionary or None for each output. Arrays own their memory.
        """
        return self._sess.run(output_names, input_feed, run_options)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Feed,
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: _native.RunOptions | None = None,
    ) -> None:
        """Runs the model in another thread, which calls `callback(results, user_data, error)`; `error` is empty
        unless the run failed."""

        def work() -> None:
            results, error = [], ""
            try:
                results = self._sess.run(output_names, input_feed, run_options)
            except Exception as failure:
                error = str(failure)
            callback(results, user_data, error)

        self._sess.check(output_names, input_feed, run_options)
        threading.Thread(target=work, name="ort_rs.run_async").start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: _native.RunOptions | None = None,
    ) -> list[OrtValue]:
        """Runs the model on values, and returns values."""
        values = self._sess.run_values(output_names, input_dict_ort_values, run_options)
        return [OrtValue(value) for value in values]

    def run_with_ortvaluevector(
        self, run_options: Any, feed_names: Sequence[str], feeds: Sequence[Any], fetch_names: Sequence[str],
        fetches: list[Any], fetch_devices: Sequence[Any],
    ) -> None:
        """Runs the model on a list of values and appends the outputs to `fetches`."""
        fetches.extend(self._sess.run_values(list(fetch_names), dict(zip(feed_names, feeds)), run_options))

    def io_binding(self) -> IOBinding:
        """Inputs and outputs that are bound to memory once, for many runs."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: _native.RunOptions | None = None) -> None:
        """Runs the model on bound inputs; outputs are written to the memory they are bound to."""
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        names = list(iobinding._outputs)
        if not names:
            raise RuntimeError("Error in execution: At least one output should be requested: none is bound")
        bound = {name: value for name, value in iobinding._outputs.items() if value is not None}
        try:
            made = iter(self._sess.run_bound(names, iobinding._inputs, list(bound.items()), run_options))
        except Exception as reason:
            raise RuntimeError(f"Error in execution: {reason}") from reason
        iobinding._made = {name: bound[name] if name in bound else next(made) for name in names}

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Zeros of a shape and a type."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def end_profiling(self) -> str:
        """Ends profiling, writes the profile, and returns the file's name; empty if the session is not profiled."""
        return self._sess.end_profiling() if self._sess_options.enable_profiling else ""

    def get_profiling_start_time_ns(self) -> int:
        """When profiling started, by the clock of `time.monotonic_ns`; 0 if the session is not profiled."""
        return self._profiling_start

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Accepted; only GPUs capture graphs."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Accepted; the CPU provider has no such options."""
        if not options:
            raise RuntimeError("the options are empty")

    def get_tuning_results(self) -> list[Any]:
        """Empty: kernels are chosen by a cost model, not by measuring."""
        return []

    def set_tuning_results(self, results: list[Any], *, error_on_invalid: bool = False) -> None:
        """Accepted; nothing is tuned."""

    def memory(self) -> Any:
        """The session's memory by kind, and how much of it is resident."""
        from ._reports import Memory

        return Memory(self._sess.memory())

    def profile(self, input_feed: Feed, n_runs: int = 1) -> Any:
        """Runs the model and reports the time of each node; notebooks show it as a table."""
        from ._reports import Profile

        return Profile([self._sess.profile(input_feed) for _ in range(max(n_runs, 1))])


def _cpu_memory() -> OrtMemoryInfo:
    return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0, OrtMemType.DEFAULT)


class InferenceSession(Session):
    """A model that is ready to run.

    :param path_or_bytes: a `.onnx` or `.ort` file, or its bytes, which are not copied.
    :param sess_options: the options of the session.
    :param providers: accepted as in onnxruntime; the CPU provider runs everything.
    :param cache_dir: a folder that caches packed models: the next session of the model, in any process, maps the
        file and loads quickly.
    :param disabled_optimizers: names of optimizer passes to disable; see docs/passes.md.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Providers | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        disabled_optimizers: Sequence[str] | set[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._model_path: str | None = os.fspath(path_or_bytes)
        elif isinstance(path_or_bytes, bytes):
            self._model_path = None
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._model = path_or_bytes
        self._enable_fallback = int(kwargs.pop("enable_fallback", 1)) == 1
        kwargs.pop("read_config_from_model", None)
        if kwargs:
            warnings.warn(f"InferenceSession: unknown arguments {', '.join(kwargs)}", stacklevel=2)
        if not isinstance(sess_options, (SessionOptions, type(None))):
            raise TypeError(f"sess_options must be a SessionOptions, not {sess_options!r}")
        self._sess_options = SessionOptions() if sess_options is None else sess_options
        self._cache_dir = None if cache_dir is None else os.path.abspath(os.fspath(cache_dir))
        self._disabled = list(disabled_optimizers or ())
        self._load(providers, provider_options)

    def _load(self, providers: Providers | None, provider_options: Sequence[dict[Any, Any]] | None) -> None:
        if providers is not None:
            # A value that is not a list is an error even with the fallback.
            iter(providers)
        try:
            check_and_normalize_provider_args(providers, provider_options, get_available_providers())
        except ValueError as wrong:
            if not self._enable_fallback:
                raise
            warnings.warn(f"{wrong} The CPU provider is used.", stacklevel=3)
        self._providers = ["CPUExecutionProvider"]
        # The provider has no options, whatever was given.
        self._provider_options: dict[str, dict[str, str]] = {name: {} for name in self._providers}
        builder = self._sess_options._builder()
        if self._cache_dir is not None:
            builder.cache_dir(self._cache_dir)
        builder.disable_optimizers([name for name in self._disabled if name in _native.optimizers])
        # What the session is pickled as: the state before it was created, whatever changes afterwards.
        self._file = None if self._model_path is None else os.path.abspath(self._model_path)
        self._stamps: dict[str, Stamp | None] = {} if self._file is None else {self._file: stamp_of(self._file)}
        self._digests: dict[str, str] = {}
        self._options_state = self._sess_options._state()
        self._profiling_start = time.monotonic_ns() if self._sess_options.enable_profiling else 0
        cancel = builder.cancel()
        self._sess_options._loading.append(cancel)
        try:
            self._sess = builder.load(self._model)
            self._stamps |= {path: stamp_of(path) for path in map(os.path.abspath, self._sess.external_files())}
            if self._sess_options.optimized_model_filepath:
                builder.save(self._model, self._sess_options.optimized_model_filepath)
        finally:
            self._sess_options._loading.remove(cancel)
        self._inputs_meta = self._sess.inputs()
        self._outputs_meta = self._sess.outputs()
        self._overridable_initializers = self._sess.overridable()
        self._model_meta = self._sess.modelmeta()

    def set_providers(
        self, providers: Providers | None = None, provider_options: Sequence[dict[Any, Any]] | None = None
    ) -> None:
        """Creates the session again with these providers."""
        self._load(providers, provider_options)

    def __repr__(self) -> str:
        where = "bytes" if self._model_path is None else repr(self._model_path)
        ends = (", ".join(arg.name for arg in args) for args in (self._inputs_meta, self._outputs_meta))
        return f"InferenceSession({where}: {' -> '.join(ends)})"

    def __copy__(self) -> InferenceSession:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> Any:
        """Pickles as the path or bytes of the model, the options and the digests of its files; see docs/python.md."""
        if type(self) is not InferenceSession:
            raise TypeError(f"cannot pickle {type(self).__name__!r} object: define its __reduce__")
        return reopened, (recipe_of(self),)


class IOBinding:
    """Inputs and outputs of a session that are bound to memory once, for many runs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, _native.OrtValue | None] = {}
        self._made: dict[str, _native.OrtValue] = {}

    def __copy__(self) -> IOBinding:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'IOBinding' object: pickle the session, and bind its inputs again")

    def _known(self, name: str, of: Sequence[_native.NodeArg], what: str) -> str:
        if all(arg.name != name for arg in of):
            raise RuntimeError(f"Failed to find {what} name: {name}; known are {', '.join(arg.name for arg in of)}")
        return name

    def _input(self, name: str) -> str:
        session = self._session
        return self._known(name, [*session.get_inputs(), *session.get_overridable_initializers()], "input")

    def _output(self, name: str) -> str:
        return self._known(name, self._session.get_outputs(), "output")

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Binds an input to an array, which each run reads in place."""
        if not isinstance(arr_on_cpu, np.ndarray):
            raise RuntimeError(f"Unable to create OrtValue from the given python object: {arr_on_cpu!r} is not an array")
        self._inputs[self._input(name)] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Binds an input to the memory at an address, which must stay valid while it is bound."""
        _check_cpu(device_type)
        value = _native.OrtValue.at_address(buffer_ptr, onnx_type_of(element_type), list(shape))
        self._inputs[self._input(name)] = value

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an input to a value."""
        self._inputs[self._input(name)] = ortvalue._ortvalue

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
        shape: Sequence[int] | None = None, buffer_ptr: int | None = None,
    ) -> None:
        """Binds an output to the memory at an address, or lets each run allocate it."""
        _check_cpu(device_type)
        value = None
        if buffer_ptr is not None:
            if element_type is None or shape is None:
                raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
            value = _native.OrtValue.at_address(buffer_ptr, onnx_type_of(element_type), list(shape))
        self._outputs[self._output(name)] = value

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an output to a value, which each run overwrites."""
        self._outputs[self._output(name)] = ortvalue._ortvalue

    def synchronize_inputs(self) -> None:
        """Accepted; the CPU has nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """Accepted; the CPU has nothing to wait for."""

    def get_outputs(self) -> list[OrtValue]:
        """The bound outputs of the last run, in the order in which they were bound."""
        return [OrtValue(value) for value in self._made.values()]

    def get_outputs_as_ortvaluevector(self) -> list[_native.OrtValue]:
        """The same, as values of the extension module."""
        return list(self._made.values())

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The bound outputs of the last run as :meth:`InferenceSession.run` returns them."""
        return [value.copied() for value in self._made.values()]

    def clear_binding_inputs(self) -> None:
        """Unbinds all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Unbinds all outputs."""
        self._outputs.clear()
        self._made.clear()
