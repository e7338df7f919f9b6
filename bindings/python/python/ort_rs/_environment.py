"""Settings and queries outside of sessions: providers, devices, messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import _native


class _Defaults:
    """The defaults of sessions and runs."""

    severity = 2
    verbosity = 0


_DEFAULTS = _Defaults()


def get_available_providers() -> list[str]:
    """The available providers: the CPU provider."""
    return ["CPUExecutionProvider"]


def get_all_providers() -> list[str]:
    """The same: the build has all providers."""
    return ["CPUExecutionProvider"]


def get_device() -> str:
    """`CPU`."""
    return "CPU"


def get_version_string() -> str:
    """The version of this package."""
    return _native.__version__


def get_build_info() -> str:
    """The version and build profile."""
    return f"ort_rs {_native.__version__}, cargo {_native.build_profile}"


def has_collective_ops() -> bool:
    """False."""
    return False


def get_ep_devices() -> list[Any]:
    """The plugin devices: there are none."""
    return []


def set_default_logger_severity(severity: int, /) -> None:
    """The default of the minimum severity that is logged: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal."""
    _DEFAULTS.severity = _severity(severity)


def _severity(number: int) -> int:
    number = _native.number(number)
    if number not in range(5):
        raise RuntimeError(f"Invalid logging severity: {number}")
    return number


def set_default_logger_verbosity(verbosity: int, /) -> None:
    """The default of how detailed verbose messages are."""
    _DEFAULTS.verbosity = _native.number(verbosity)


def set_default_logger_callback(callback: Callable[[int, str, str, str, str], None] | None, severity: int = 2) -> None:
    """Calls `callback(severity, category, logid, code_location, message)` with messages instead of writing them to
    stderr, and makes `severity` the default; None writes them to stderr again.

    It is called on the thread that emits the message, which waits for it. Its exceptions go to
    `sys.unraisablehook`.
    """
    severity = _severity(severity)
    if callback is not None:
        _DEFAULTS.severity = severity
    _native.set_log_callback(callback)


def set_seed(seed: int, /) -> None:
    """Accepted; random operators without a seed draw one in each session."""
    if isinstance(seed, (str, float)):
        raise TypeError(f"a seed must be an integer, not {seed!r}")
    int(seed)


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Accepted; sessions always share threads, as many as the largest needs."""


def enable_telemetry_events() -> None:
    """Accepted; there is no telemetry."""


def disable_telemetry_events() -> None:
    """Accepted; there is no telemetry."""


def create_and_register_allocator(memory_info: Any, arena_cfg: Any = None, /) -> None:
    """Accepted; memory of runs is planned."""


def create_and_register_allocator_v2(
    provider_type: str, memory_info: Any, options: Mapping[str, str], arena_cfg: Any = None, /
) -> None:
    """Accepted; memory of runs is planned."""


def register_execution_provider_library(name: str, path: str, /) -> None:
    """Rejected: providers are written in Rust, against `ExecutionProvider` of ort-session."""
    raise _native.Fail(f"[ONNXRuntimeError] : 1 : FAIL : {path}: provider libraries are not supported")


def unregister_execution_provider_library(name: str, /) -> None:
    """Rejected: none was registered."""
    raise _native.Fail(f"[ONNXRuntimeError] : 1 : FAIL : no library was registered as {name}")


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None
) -> None:
    """Accepted; there are no libraries to load."""


def print_debug_info() -> None:
    """Prints versions for a bug report."""
    import platform
    import sys

    import numpy

    print(f"ort_rs {_native.__version__} (cargo {_native.build_profile})")
    print(f"Python {sys.version.split()[0]}, numpy {numpy.__version__}, {platform.platform()}")


class OrtArenaCfg:
    """How an arena of onnxruntime grows. Accepted; memory of runs is planned."""

    __slots__ = (
        "arena_extend_strategy",
        "initial_chunk_size_bytes",
        "initial_growth_chunk_size_bytes",
        "max_dead_bytes_per_chunk",
        "max_mem",
        "max_power_of_two_extend_bytes",
    )

    def __init__(self, *args: Any) -> None:
        names = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk")
        is_dict = len(args) == 1 and isinstance(args[0], Mapping)
        values: Mapping[str, int] = args[0] if is_dict else dict(zip(names, args))
        for name in self.__slots__:
            setattr(self, name, values.get(name, 0 if name == "max_mem" else -1))
