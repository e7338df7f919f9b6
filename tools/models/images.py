"""Networks on large images: few long steps, and down- and upsampling."""

from __future__ import annotations

import numpy as np

from .graph import Graph


def conv3x3(g: Graph, x: str, c_in: int, c_out: int, stride: int = 1) -> str:
    return g.conv(x, f"conv{g.value_id}", c_in, c_out, 3, "", stride, bias=g.normal(c_out, 0.05))


def spectrogram():
    """Five convolutions over a spectrogram, each of which takes tens of milliseconds."""
    g = Graph("spectrogram", opset=17, seed=51)
    x, channels = g.input("spectrum", ["batch", 1, "time", "bins"]), 1
    for n_outputs, is_halved in ((112, False), (64, False), (64, False), (32, True), (32, True)):
        x = g.op("Relu", conv3x3(g, x, channels, n_outputs))
        x = g.maxpool(x, 2, 2, 0, "") if is_halved else x
        channels = n_outputs
    means = g.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    g.op("Sigmoid", g.op("MatMul", means, g.weight(channels, 4)), out="scores")
    g.output("scores", ["batch", 4])
    return g.model(), {"spectrum": g.normal((1, 1, 930, 170), 1.0)}


# Kernel of the transposed convolution, its padding, and its output padding.
GROWTH = [(4, 1, 0), (3, 1, 1), (5, 2, 1)]


def segment():
    """A U-Net with instance norms: three downsampling steps, and back by transposed convolutions."""
    g = Graph("segment", opset=17, seed=52)

    def block(x: str, c_in: int, c_out: int, stride: int = 1) -> str:
        y = conv3x3(g, x, c_in, c_out, stride)
        scale = g.folded("InstanceNormalization", g.rng.uniform(0.5, 1.5, c_out).astype(np.float32))
        y = g.op("InstanceNormalization", y, scale, g.weight(c_out, std=0.1))
        return g.op("LeakyRelu", y, alpha=0.1)

    def grown(x: str, c_in: int, c_out: int, how: tuple[int, int, int]) -> str:
        kernel, padding, more = how
        weight = g.weight(c_in, c_out, kernel, kernel, std=2 / kernel * c_in**-0.5)
        layout = {"kernel_shape": [kernel] * 2, "pads": [padding] * 4, "output_padding": [more] * 2}
        return g.op("ConvTranspose", x, weight, g.weight(c_out, std=0.05), strides=[2, 2], **layout)

    channels = [24, 48, 96]
    x = block(g.input("image", ["batch", 3, "height", "width"]), 3, channels[0])
    kept = [x]
    for before, after in zip(channels, channels[1:]):
        x = block(x, before, after, stride=2)
        kept.append(x)
    n_inner = 136
    x, size = block(block(x, channels[-1], n_inner, stride=2), n_inner, n_inner), n_inner
    for skip, n_skip, n_grown, n_out, how in zip(kept[::-1], channels[::-1], (96, 40, 24), (96, 48, 24), GROWTH):
        x = g.op("Concat", grown(x, size, n_grown, how), skip, axis=1)
        x, size = block(x, n_grown + n_skip, n_out), n_out
    y = g.op("Conv", x, g.weight(7, size, 1, 1, std=0.2))
    g.op("Softmax", y, axis=1, out="classes")
    g.output("classes", ["batch", 7, "height", "width"])
    return g.model(), {"image": g.normal((1, 3, 224, 288), 1.0)}
