"""onnxruntime's quantization tools work on files; this puts them between models in memory."""

from __future__ import annotations

import tempfile

import onnx


def through_files(model, function, **options):
    """function(input_path, output_path, **options) applied to a model in memory."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = f"{folder}/before.onnx", f"{folder}/after.onnx"
        onnx.save(model, before)
        function(before, after, **options)
        return onnx.load(after)
