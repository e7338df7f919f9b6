"""Replaces onnxruntime in a process, on request."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from types import ModuleType


def install_as_onnxruntime() -> ModuleType:
    """Makes `import onnxruntime` import this package in this process from now on.

    Subpackages of an installed onnxruntime that are Python only, such as `onnxruntime.quantization` and
    `onnxruntime.transformers`, are still found, and run on this one. It is an error if onnxruntime was imported
    before: the program may already hold its classes.

    :return: the module `onnxruntime`.
    """
    import ort_rs
    from ort_rs.capi import (
        _pybind_state,
        onnxruntime_inference_collection,
        onnxruntime_pybind11_state,
        onnxruntime_validation,
    )

    known = sys.modules.get("onnxruntime")
    if known is not None:
        if getattr(known, "package_name", "") == "ort_rs":
            return known
        raise RuntimeError("onnxruntime is already imported: call install_as_onnxruntime() before any import of it")
    module = ModuleType("onnxruntime", ort_rs.__doc__)
    module.__dict__.update({name: value for name, value in vars(ort_rs).items() if not name.startswith("__")})
    module.__dict__.update(__version__=ort_rs.__version__, __author__=ort_rs.__author__, __file__=ort_rs.__file__)
    places = [*ort_rs.__path__, *_installed()]
    module.__path__ = places
    module.__spec__ = importlib.machinery.ModuleSpec("onnxruntime", None, is_package=True)
    module.__spec__.submodule_search_locations = places
    sys.modules["onnxruntime"] = module
    sys.modules["onnxruntime.capi"] = ort_rs.capi
    for inner in (
        _pybind_state,
        onnxruntime_inference_collection,
        onnxruntime_pybind11_state,
        onnxruntime_validation,
    ):
        sys.modules["onnxruntime.capi." + inner.__name__.rpartition(".")[2]] = inner
    return module


def _installed() -> list[str]:
    """The folders of an installed onnxruntime."""
    try:
        spec = importlib.machinery.PathFinder.find_spec("onnxruntime")
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or []) if spec else []
