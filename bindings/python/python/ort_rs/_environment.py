"""What belongs to no session: providers, devices, messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import _native


class _Defaults:
    """What sessions and runs take that say nothing."""

    severity = 2
    verbosity = 0


_DEFAULTS = _Defaults()


def get_available_providers() -> list[str]:
    """The providers there are: the CPU's."""
    return ["CPUExecutionProvider"]


def get_all_providers() -> list[str]:
    """The same: none is left out of the build."""
    return ["CPUExecutionProvider"]


def get_device() -> str:
    """`CPU`."""
    return "CPU"


def get_version_string() -> str:
    """The version of this package."""
    return _native.__version__


def get_build_info() -> str:
    """What was built, and how."""
    return f"ort_rs {_native.__version__}, cargo {_native.build_profile}"


def has_collective_ops() -> bool:
    """False."""
    return False


def get_ep_devices() -> list[Any]:
    """The devices of plugins: there are none."""
    return []


def set_default_logger_severity(severity: int, /) -> None:
    """The least severity that is logged where options say nothing: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal."""
    _DEFAULTS.severity = _severity(severity)


def _severity(number: int) -> int:
    number = _native.number(number)
    if number not in range(5):
        raise RuntimeError(f"Invalid logging severity: {number}")
    return number


def set_default_logger_verbosity(verbosity: int, /) -> None:
    """How detailed verbose messages are where options say nothing."""
    _DEFAULTS.verbosity = _native.number(verbosity)


def set_default_logger_callback(callback: Callable[[int, str, str, str, str], None] | None, severity: int = 2) -> None:
    """Calls `callback(severity, category, logid, code_location, message)` with messages instead of writing them to
    the standard error, and makes `severity` the default; None writes them again.

    It is called by the thread that tells something, which goes on when it returns. What it raises goes to
    `sys.unraisablehook`.
    """
    severity = _severity(severity)
    if callback is not None:
        _DEFAULTS.severity = severity
    _native.set_log_callback(callback)


def set_seed(seed: int, /) -> None:
    """Accepted; random operators without a seed of their own draw one in each session."""
    if isinstance(seed, (str, float)):
        raise TypeError(f"a seed is a whole number, not {seed!r}")
    int(seed)


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Accepted; sessions share threads anyway, as many as the largest needs."""


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
    """Refused: providers are written in Rust, against `ExecutionProvider` of ort-session."""
    raise _native.Fail(f"[ONNXRuntimeError] : 1 : FAIL : {path}: libraries of providers are not loaded")


def unregister_execution_provider_library(name: str, /) -> None:
    """Refused: none was registered."""
    raise _native.Fail(f"[ONNXRuntimeError] : 1 : FAIL : no library was registered as {name}")


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None
) -> None:
    """Accepted; there are no libraries to load."""


def print_debug_info() -> None:
    """Prints versions that a report of a problem needs."""
    import platform
    import sys

    import numpy

    print(f"ort_rs {_native.__version__} (cargo {_native.build_profile})")
    print(f"Python {sys.version.split()[0]}, numpy {numpy.__version__}, {platform.platform()}")


class OrtArenaCfg:
    """How an arena of onnxruntime's grows. Accepted; memory of runs is planned."""

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
