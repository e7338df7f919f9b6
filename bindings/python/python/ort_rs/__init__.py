"""Runs ONNX models: onnxruntime's API on a runtime written in Rust.

    import ort_rs as ort

    session = ort.InferenceSession("model.onnx")
    (y,) = session.run(["y"], {"x": x})

Beyond onnxruntime: ``InferenceSession(..., cache_dir=...)``, :meth:`InferenceSession.memory`,
:meth:`InferenceSession.profile`, :func:`optimize` and :func:`packed`. ``python -m ort_rs SCRIPT`` runs a program
that imports onnxruntime on this package, as does :func:`install_as_onnxruntime` from within. See docs/python.md.
"""

from . import capi
from ._adapters import AdapterFormat
from ._compile import ModelCompiler, optimize, packed
from ._enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtCompileApiFlags,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
)
from ._environment import (
    OrtArenaCfg,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_ep_devices,
    get_version_string,
    has_collective_ops,
    preload_dlls,
    print_debug_info,
    register_execution_provider_library,
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
    unregister_execution_provider_library,
)
from ._install import install_as_onnxruntime
from ._native import LoraAdapter, ModelMetadata, NodeArg, Optimized, RunOptions
from ._options import SessionOptions
from ._recipe import ModelChanged, ModelMissing
from ._reports import Memory, Profile
from ._session import InferenceSession, IOBinding
from ._sparse import SparseTensor
from ._values import OrtDevice, OrtMemoryInfo, OrtValue, copy_tensors
from .capi import onnxruntime_validation

SessionIOBinding = IOBinding
__author__ = "the authors of ort-rs"
#: The version of onnxruntime whose API this is: programs parse and compare it.
__version__ = "1.32.0"
#: The version of this package.
ort_rs_version = get_version_string()
package_name = "ort_rs"
version = __version__
cuda_version = ""

__all__ = [name for name in dir() if not name.startswith("_") and name != "capi"]
