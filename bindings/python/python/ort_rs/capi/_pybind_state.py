"""The same as :mod:`ort_rs.capi.onnxruntime_pybind11_state`, under onnxruntime's other name."""

from .onnxruntime_pybind11_state import *  # noqa: F403
from .onnxruntime_pybind11_state import __all__  # noqa: F401
