"""MobileNetV2 with random weights, and a copy of it with denormal ones."""

from __future__ import annotations

import numpy as np

from .batchnorm import calibrate_batchnorms, fake_images
from .graph import Graph

# (expansion, channels, repeats, stride) of each stage
STAGES = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


def mobilenetv2(name="mobilenetv2", dead_channels=0.0):
    """timm's mobilenetv2_100 at 224x224, opset 13, exported with do_constant_folding=False and
    training=PRESERVE, which keep BatchNormalization apart from Conv. Dynamic batch.

    dead_channels: the fraction of each Conv's output channels to kill (see mobilenetv2_denormal).
    """
    g = Graph(name, opset=13, seed=1)
    dead_rng = np.random.default_rng(100)

    def conv_bn(
        x,
        scope,
        param,
        conv,
        bn,
        c_in,
        c_out,
        kernel=1,
        stride=1,
        groups=1,
        act=True,
        gamma=(0.5, 1.5),
    ):
        conv_param, bn_param = (f"{param}{p}" for p in (conv, bn))
        x = g.conv(x, conv_param, c_in, c_out, kernel, f"{scope}/{conv}", stride, groups)
        x = g.batchnorm(x, bn_param, c_out, f"{scope}/{bn}", gamma)
        kill_channels(g, conv_param, bn_param, dead_channels, dead_rng)
        if act:  # ReLU6
            limits = [g.const(v, f"{scope}/{bn}/act") for v in (0.0, 6.0)]
            x = g.op("Clip", x, *limits, scope=f"{scope}/{bn}/act")
        return x

    x = g.input("input", ["batch", 3, 224, 224])
    x = conv_bn(x, "", "", "conv_stem", "bn1", 3, 32, kernel=3, stride=2)
    c_in = 32
    for i, (expansion, c_out, repeats, first_stride) in enumerate(STAGES):
        for j in range(repeats):
            stride = first_stride if j == 0 else 1
            scope, param = f"/blocks/blocks.{i}/blocks.{i}.{j}", f"blocks.{i}.{j}."
            mid, shortcut = c_in * expansion, x
            last_gamma = (0.3, 0.9) if j else (0.5, 1.5)
            if expansion == 1:  # DepthwiseSeparableConv
                x = conv_bn(x, scope, param, "conv_dw", "bn1", mid, mid, 3, stride, mid)
                x = conv_bn(x, scope, param, "conv_pw", "bn2", mid, c_out, act=False)
            else:  # InvertedResidual
                x = conv_bn(x, scope, param, "conv_pw", "bn1", c_in, mid)
                x = conv_bn(x, scope, param, "conv_dw", "bn2", mid, mid, 3, stride, mid)
                x = conv_bn(
                    x, scope, param, "conv_pwl", "bn3", mid, c_out, act=False, gamma=last_gamma
                )
            if j:
                x = g.op("Add", x, shortcut, scope=scope)
            c_in = c_out
    x = conv_bn(x, "", "", "conv_head", "bn2", 320, 1280)
    x = g.op("GlobalAveragePool", x, scope="/global_pool/pool")
    x = g.op("Flatten", x, scope="/global_pool/flatten", axis=1)
    weight = g.param("classifier.weight", g.normal((1000, 1280), 0.1))
    bias = g.param("classifier.bias", g.normal(1000, 0.05))
    g.op("Gemm", x, weight, bias, scope="/classifier", out="output", alpha=1.0, beta=1.0, transB=1)
    g.output("output", ["batch", 1000])
    calibrate_batchnorms(g, {"input": fake_images(g.rng, 4, 224, 224)})
    return g.model(), {"input": fake_images(g.rng, 1, 224, 224)}


def kill_channels(g, conv_param, bn_param, fraction, rng):
    """Lets some output channels of a Conv + BatchNormalization die from weight decay.

    This is what training does to channels that the loss ignores: decay shrinks their filters
    geometrically, past the smallest normal float (1.2e-38) into denormals, with gamma shrinking
    more slowly and beta near 0. The outputs of such a channel are denormal, too.
    """
    weight = g.initializers[f"{conv_param}.weight"]
    dead = rng.random(len(weight)) < fraction
    magnitude = 10.0 ** rng.uniform(-41, -39, weight.shape)
    weight[dead] = (np.sign(weight) * magnitude).astype(np.float32)[dead]
    g.initializers[f"{bn_param}.weight"][dead] *= 1e-3
    g.initializers[f"{bn_param}.bias"][dead] = 0


def mobilenetv2_denormal():
    """mobilenetv2 in which 25% of each Conv's output channels hold float32 denormals.

    On x86 each vector instruction with a denormal operand needs a microcode assist, so the model
    is many times slower than mobilenetv2 unless denormals are flushed to zero.
    """
    return mobilenetv2("mobilenetv2_denormal", dead_channels=0.25)
