"""Models that are optimized or packed once, and saved."""

from __future__ import annotations

import os
from typing import Any

from . import _native
from ._enums import GraphOptimizationLevel, OrtCompileApiFlags
from ._options import SessionOptions


def optimize(
    model: str | bytes | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    sess_options: SessionOptions | None = None,
) -> _native.Optimized:
    """Optimizes a model's graph, and saves it if `output` is given: as `.ort` by that extension, otherwise as `.onnx`.

    onnxruntime runs models saved at levels up to `ORT_ENABLE_LAYOUT`; the highest uses forms that only this package runs.
    """
    builder = (sess_options or SessionOptions())._builder()
    builder.config("session.graph_optimization_level", str(int(level)))
    optimized = builder.optimize(model)
    if output is not None:
        path = os.fspath(output)
        (optimized.write if path.endswith(".ort") else optimized.write_onnx)(path)
    return optimized


def packed(
    model: str | bytes | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    replace: bool = False,
    sess_options: SessionOptions | None = None,
) -> tuple[int, int, int]:
    """Saves a model with its weights packed for this machine's kernels, in a `.ort` file: a session of it loads
    quickly, and shares its weights with every process that has loaded it.

    `replace` leaves the original weights out: the file is smaller, and runs only on machines it was packed for. Returns
    the sizes of the file, of the packed weights, and of the weights that were left out, in bytes.
    """
    return (sess_options or SessionOptions())._builder().optimize(model).write_packed(output, replace=replace)


class ModelCompiler:
    """Saves a model for a provider. The CPU provider compiles nothing into the model: it is saved optimized at
    `graph_optimization_level`."""

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: Any = None,
    ) -> None:
        if flags & OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED:
            raise _native.Fail("[ONNXRuntimeError] : 1 : FAIL : the CPU provider compiles no nodes into a model")
        if external_initializers_file_path or get_initializer_location_func:
            raise _native.NotImplemented(
                "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : initializers are saved within the model"
            )
        self._refuses_old = bool(flags & OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS)
        self._model = input_model_path_or_bytes
        self._optimized = optimize(self._model, level=graph_optimization_level, sess_options=sess_options)

    def compile_to_file(self, output_model_path: str | None = None) -> None:
        """Writes a `.ort` file if the path has that extension, otherwise a `.onnx` file."""
        if output_model_path is None:
            if isinstance(self._model, bytes):
                raise _native.InvalidArgument("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : no path to write to")
            output_model_path = os.path.splitext(os.fspath(self._model))[0] + "_ctx.onnx"
        if self._refuses_old and os.path.exists(output_model_path):
            raise _native.Fail(f"[ONNXRuntimeError] : 1 : FAIL : {output_model_path} already exists")
        write = self._optimized.write if output_model_path.endswith(".ort") else self._optimized.write_onnx
        write(output_model_path)

    def compile_to_bytes(self) -> bytes:
        """The bytes of a `.onnx` file."""
        return self._optimized.to_onnx_bytes()

    def compile_to_stream(self, write_function: Any) -> None:
        """Calls `write_function` with the bytes of a `.onnx` file."""
        write_function(self.compile_to_bytes())

    def set_ep_context_binary_information(self, output_directory: Any, model_name: str) -> None:
        """Accepted; there is no context to write."""

    def set_ep_context_data_write_func(self, write_func: Any) -> None:
        """Accepted and never called; there is no context to write."""

    def clear_ep_context_data_write_func(self) -> None:
        """Accepted; there is none."""
