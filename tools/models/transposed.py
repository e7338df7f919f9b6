"""Networks with transposed convolutions, one for each architecture that uses them in its own way.

    dcgan        a generator: from a vector to 4x4, and doubled four times, with 4x4/2
    unet         2x2/2 up to 112x112, with skip connections
    centernet    a head of detection: 4x4/2 three times, 256 channels
    fsrcnn       superresolution: 9x9/3 from 56 channels to one
    fcn          semantic segmentation: bilinear filters of each class apart, 4x4/2 and 16x16/8
    dbnet        text detection: 2x2/2 twice, to one channel
    style        style transfer: 3x3/2 with an output padding, and instance norms
    hifigan      a vocoder, in one dimension: 16/8, 16/8, 4/2, 4/2 and dilated convolutions
    unet3d       2x2x2/2 in three dimensions
"""

from __future__ import annotations

from pathlib import Path

from .graph import Graph
from .layout import publish_each


class Net(Graph):
    """Convolutions of either direction, in any number of dimensions."""

    def conv_nd(self, x, c_in: int, c_out: int, kernel: int, rank: int = 2, stride: int = 1, dilation: int = 1):
        weight = self.weight(c_out, c_in, *[kernel] * rank, std=(c_in * kernel**rank) ** -0.5)
        layout = {"kernel_shape": [kernel] * rank, "strides": [stride] * rank, "dilations": [dilation] * rank}
        pads = [dilation * (kernel // 2)] * 2 * rank
        return self.op("Conv", x, weight, self.weight(c_out, std=0.05), pads=pads, **layout)

    def grow(self, x, c_in: int, c_out: int, kernel: int, stride: int, rank: int = 2, more: int = 0, groups: int = 1):
        """ConvTranspose to `stride` times the size."""
        per_group = c_in // groups * (kernel / stride) ** rank
        weight = self.weight(c_in, c_out // groups, *[kernel] * rank, std=per_group**-0.5)
        pad = (kernel - stride + more) // 2
        layout = {"kernel_shape": [kernel] * rank, "strides": [stride] * rank, "group": groups}
        edges = {"pads": [pad] * 2 * rank, "output_padding": [more] * rank}
        return self.op("ConvTranspose", x, weight, self.weight(c_out, std=0.05), **layout, **edges)

    def relu(self, x):
        return self.op("Relu", x)

    def finished(self, y, last: str, rank: int, feed: dict):
        self.op(last, y, out="y")
        self.output("y", ["batch", "channels", *[f"size{i}" for i in range(rank)]])
        return self.model(), {name: self.normal(shape, 1.0) for name, shape in feed.items()}


def dcgan():
    g, size = Net("dcgan", opset=17, seed=71), 512
    x = g.relu(g.grow(g.input("noise", ["batch", 100, 1, 1]), 100, size, 4, 4))
    for n in (256, 128, 64):
        x, size = g.relu(g.grow(x, size, n, 4, 2)), n
    return g.finished(g.grow(x, size, 3, 4, 2), "Tanh", 2, {"noise": (1, 100, 1, 1)})


def unet():
    g, widths = Net("unet", opset=17, seed=72), [32, 64, 128, 256]
    x, size, skips = g.input("image", ["batch", 3, 112, 112]), 3, []
    for n in widths:
        x = g.maxpool(x, 2, 2, 0, "") if skips else x
        x, size = g.relu(g.conv_nd(g.relu(g.conv_nd(x, size, n, 3)), n, n, 3)), n
        skips.append(x)
    for n, skip in zip(widths[-2::-1], skips[-2::-1]):
        x = g.op("Concat", skip, g.grow(x, 2 * n, n, 2, 2), axis=1)
        x = g.relu(g.conv_nd(g.relu(g.conv_nd(x, 2 * n, n, 3)), n, n, 3))
    return g.finished(g.conv_nd(x, widths[0], 2, 1), "Sigmoid", 2, {"image": (1, 3, 112, 112)})


def centernet():
    g, size = Net("centernet", opset=17, seed=73), 512
    x = g.input("features", ["batch", size, 8, 8])
    for _ in range(3):
        x, size = g.relu(g.grow(x, size, 256, 4, 2)), 256
    heat = g.conv_nd(g.relu(g.conv_nd(x, 256, 64, 3)), 64, 80, 1)
    return g.finished(heat, "Sigmoid", 2, {"features": (1, 512, 8, 8)})


def fsrcnn():
    g = Net("fsrcnn", opset=17, seed=74)
    x = g.relu(g.conv_nd(g.input("image", ["batch", 1, 80, 80]), 1, 56, 5))
    x = g.relu(g.conv_nd(x, 56, 12, 1))
    for _ in range(4):
        x = g.relu(g.conv_nd(x, 12, 12, 3))
    x = g.relu(g.conv_nd(x, 12, 56, 1))
    return g.finished(g.grow(x, 56, 1, 9, 3), "Clip", 2, {"image": (1, 1, 80, 80)})


def fcn():
    g, classes = Net("fcn", opset=17, seed=75), 21
    deep = g.conv_nd(g.input("deep", ["batch", 256, 14, 14]), 256, classes, 1)
    skip = g.conv_nd(g.input("skip", ["batch", 128, 28, 28]), 128, classes, 1)
    x = g.op("Add", g.grow(deep, classes, classes, 4, 2, groups=classes), skip)
    y = g.grow(x, classes, classes, 16, 8, groups=classes)
    return g.finished(y, "Identity", 2, {"deep": (1, 256, 14, 14), "skip": (1, 128, 28, 28)})


def dbnet():
    g = Net("dbnet", opset=17, seed=76)
    x = g.relu(g.conv_nd(g.input("features", ["batch", 96, 80, 80]), 96, 24, 3))
    x = g.relu(g.grow(x, 24, 24, 2, 2))
    return g.finished(g.grow(x, 24, 1, 2, 2), "Sigmoid", 2, {"features": (1, 96, 80, 80)})


def style():
    g = Net("style", opset=17, seed=77)

    def norm(x, n: int):
        scale = g.folded("InstanceNormalization", g.rng.uniform(0.5, 1.5, n).astype("float32"))
        return g.relu(g.op("InstanceNormalization", x, scale, g.weight(n, std=0.1)))

    x = norm(g.conv_nd(g.input("image", ["batch", 3, 128, 128]), 3, 32, 9), 32)
    x = norm(g.conv_nd(x, 32, 64, 3, stride=2), 64)
    x = norm(g.conv_nd(x, 64, 128, 3, stride=2), 128)
    for _ in range(2):
        x = g.op("Add", x, g.conv_nd(norm(g.conv_nd(x, 128, 128, 3), 128), 128, 128, 3))
    x = norm(g.grow(x, 128, 64, 3, 2, more=1), 64)
    x = norm(g.grow(x, 64, 32, 3, 2, more=1), 32)
    return g.finished(g.conv_nd(x, 32, 3, 9), "Identity", 2, {"image": (1, 3, 128, 128)})


def hifigan():
    g, size = Net("hifigan", opset=17, seed=78), 128
    x = g.conv_nd(g.input("mel", ["batch", 80, 40]), 80, size, 7, rank=1)
    for kernel, stride in ((16, 8), (16, 8), (4, 2), (4, 2)):
        x = g.op("LeakyRelu", x, alpha=0.1)
        x, size = g.grow(x, size, size // 2, kernel, stride, rank=1), size // 2
        for dilation in (1, 3, 5):
            x = g.op("Add", x, g.conv_nd(g.op("LeakyRelu", x, alpha=0.1), size, size, 3, 1, dilation=dilation))
    return g.finished(g.conv_nd(x, size, 1, 7, rank=1), "Tanh", 1, {"mel": (1, 80, 40)})


def unet3d():
    g = Net("unet3d", opset=17, seed=79)
    x = skip = g.relu(g.conv_nd(g.input("volume", ["batch", 1, 32, 32, 32]), 1, 16, 3, rank=3))
    x = g.relu(g.conv_nd(x, 16, 32, 3, rank=3, stride=2))
    x = g.op("Concat", skip, g.grow(x, 32, 16, 2, 2, rank=3), axis=1)
    x = g.relu(g.conv_nd(x, 32, 16, 3, rank=3))
    return g.finished(g.conv_nd(x, 16, 3, 1, rank=3), "Identity", 3, {"volume": (1, 1, 32, 32, 32)})


def make(out: Path, only=None) -> None:
    builds = (dcgan, unet, centernet, fsrcnn, fcn, dbnet, style, hifigan, unet3d)
    publish_each(out / "transposed", {build.__name__: build for build in builds}, only)
