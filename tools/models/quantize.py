"""Applies onnxruntime's quantization tools, which work on files, to models in memory."""

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


def calibrated(model, feeds):
    """Static quantization in QDQ format: uint8 activations, int8 weights per channel, ranges from the
    minimum and maximum (MinMax) of the activations for `feeds`."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Feeds(CalibrationDataReader):
        def __init__(self):
            self.feeds = iter(feeds)

        def get_next(self):
            return next(self.feeds, None)

    model = through_files(model, quant_pre_process, skip_symbolic_shape=True)
    return through_files(
        model,
        quantize_static,
        calibration_data_reader=Feeds(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        calibrate_method=CalibrationMethod.MinMax,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
