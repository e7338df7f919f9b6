"""ResNet-50 with random weights, in f32 and quantized to int8."""

from __future__ import annotations

import numpy as np

from .batchnorm import calibrate_batchnorms, fake_images, fold_batchnorms
from .graph import Graph
from .quantize import calibrated


def resnet50():
    """torchvision's resnet50 (v1.5: the stride is in the 3x3 Conv), opset 13, fixed batch of 1,
    exported with constant folding, which folds BatchNormalization into Conv."""
    g = Graph("resnet50", opset=13, seed=2)

    def conv_bn(x, scope, param, conv, bn, c_in, c_out, kernel=1, stride=1, gamma=(0.5, 1.5)):
        x = g.conv(x, param + conv, c_in, c_out, kernel, f"{scope}/{conv}", stride)
        return g.batchnorm(x, param + bn, c_out, f"{scope}/{bn}", gamma)

    x = g.input("input", [1, 3, 224, 224])
    x = conv_bn(x, "", "", "conv1", "bn1", 3, 64, kernel=7, stride=2)
    x = g.op("Relu", x, scope="/relu")
    x = g.maxpool(x, 3, 2, 1, "/maxpool")
    c_in = 64
    for i, (mid, repeats) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], start=1):
        for j in range(repeats):
            scope, param = f"/layer{i}/layer{i}.{j}", f"layer{i}.{j}."
            stride, c_out = (2 if i > 1 and j == 0 else 1), mid * 4
            y = conv_bn(x, scope, param, "conv1", "bn1", c_in, mid)
            y = g.op("Relu", y, scope=f"{scope}/relu")
            y = conv_bn(y, scope, param, "conv2", "bn2", mid, mid, 3, stride)
            y = g.op("Relu", y, scope=f"{scope}/relu_1")
            y = conv_bn(y, scope, param, "conv3", "bn3", mid, c_out, gamma=(0.2, 0.8))
            if j == 0:
                x = conv_bn(
                    x,
                    f"{scope}/downsample",
                    param,
                    "downsample.0",
                    "downsample.1",
                    c_in,
                    c_out,
                    1,
                    stride,
                )
            y = g.op("Add", y, x, scope=scope)
            x = g.op("Relu", y, scope=f"{scope}/relu_2")
            c_in = c_out
    x = g.op("GlobalAveragePool", x, scope="/avgpool")
    x = g.op("Flatten", x, scope="", axis=1)
    weight = g.param("fc.weight", g.normal((1000, 2048), 0.05))
    bias = g.param("fc.bias", g.normal(1000, 0.05))
    g.op("Gemm", x, weight, bias, scope="/fc", out="output", alpha=1.0, beta=1.0, transB=1)
    g.output("output", [1, 1000])
    calibrate_batchnorms(g, {"input": fake_images(g.rng, 4, 224, 224)})

    def folded_names(_):
        g.value_id += 2
        return f"onnx::Conv_{g.value_id}", f"onnx::Conv_{g.value_id + 1}"

    fold_batchnorms(g, folded_names)
    return g.model(), {"input": fake_images(g.rng, 1, 224, 224)}


def resnet50_qdq_int8():
    """resnet50 through onnxruntime's static quantization, calibrated on image-like noise."""
    rng = np.random.default_rng(7)
    images = [{"input": fake_images(rng, 1, 224, 224)} for _ in range(16)]
    model, feed = resnet50()
    return calibrated(model, images), feed
