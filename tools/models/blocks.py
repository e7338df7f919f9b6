"""Random small convolutional networks, to test onnxruntime's NCHWc layout."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from .graph import Graph
from .layout import publish

N_NETWORKS = 600
CHANNELS = [3, 4, 5, 8, 12, 16, 20, 24, 32, 36, 48, 64, 80]
SIZES = [6, 8, 11, 12]
ACTIVATIONS = [
    ("Relu", {}),
    ("LeakyRelu", {"alpha": 0.1}),
    ("Sigmoid", {}),
    ("Tanh", {}),
    ("HardSigmoid", {"alpha": 0.2}),
    ("Softplus", {}),
    ("Erf", {}),
    ("Elu", {}),
    ("Sqrt", {}),
]


class Image:
    """A value of the network: its name, its channels, and the number of times its size was halved or doubled."""

    def __init__(self, name: str, channels: int, scale: int = 0, odd: int = 0):
        self.name, self.channels, self.scale, self.odd = name, channels, scale, odd

    def fits(self, other: Image) -> bool:
        """Whether height and width are equal."""
        return (self.scale, self.odd) == (other.scale, other.odd)


class Network:
    """A network under construction: each step creates a value from existing ones."""

    def __init__(self, name: str, seed: int):
        self.graph = Graph(name, opset=17, seed=seed)
        self.rng = np.random.default_rng([seed, 1])
        self.n_oddities = 0
        shape, self.feed_shape = self.input_shape()
        self.images = [Image(self.graph.input("x", shape), shape[1])]

    def input_shape(self) -> tuple[list, list[int]]:
        """The declared shape, with or without free dimensions, and that of the data."""
        size = [int(self.rng.choice([1, 1, 2])), self.pick(CHANNELS)]
        size += [self.pick(SIZES), self.pick(SIZES)]
        declared = list(size)
        for axes in [(0,), (2, 3), (3,)]:
            if self.rng.random() < 0.4:
                for axis in axes:
                    declared[axis] = f"d{axis}"
        return declared, size

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def op(self, op_type: str, *inputs: str, **attrs):
        return self.graph.op(op_type, *inputs, **attrs)

    def weights(self, *shape: int, std: float) -> str:
        return self.graph.folded("Conv", self.graph.normal(shape, std))

    # -- steps: each creates an image from another --

    def conv(self, x: Image, channels=None, kernel=None, stride=1, groups=1) -> Image:
        channels, kernel = channels or self.pick(CHANNELS), kernel or self.pick([1, 1, 3])
        std = (kernel * kernel * x.channels / groups) ** -0.5
        inputs = [x.name, self.weights(channels, x.channels // groups, kernel, kernel, std=std)]
        if self.rng.random() < 0.6:
            inputs.append(self.weights(channels, std=0.2))
        layout = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4}
        y = self.op("Conv", *inputs, group=groups, strides=[stride] * 2, **layout)
        return Image(y, channels, x.scale - (stride > 1), x.odd)

    def strided(self, x: Image) -> Image:
        return self.conv(x, kernel=3, stride=2) if x.scale > -1 else self.conv(x)

    def depthwise(self, x: Image) -> Image:
        return self.conv(x, x.channels, 3, groups=x.channels)

    def grouped(self, x: Image) -> Image:
        groups = [g for g in (2, 4) if x.channels % g == 0]
        return self.conv(x, x.channels, groups=self.pick(groups)) if groups else self.conv(x)

    def activation(self, x: Image) -> Image:
        op, attrs = self.pick(ACTIVATIONS)
        name = self.op("Abs", x.name) if op == "Sqrt" else x.name
        return Image(self.op(op, name, **attrs), x.channels, x.scale, x.odd)

    def clip(self, x: Image) -> Image:
        bounds = [self.graph.const(bound) for bound in (-0.5, 2.0)]
        return Image(self.op("Clip", x.name, *bounds), x.channels, x.scale, x.odd)

    def swish(self, x: Image) -> Image:
        gate = self.op(self.pick(["Sigmoid", "HardSigmoid"]), x.name)
        return Image(self.op("Mul", x.name, gate), x.channels, x.scale, x.odd)

    def residual(self, x: Image) -> Image:
        branch = self.activation(self.conv(x))
        branch = self.conv(branch, x.channels)
        y = self.op("Add", *self.either_way(x.name, branch.name))
        return Image(y, x.channels, x.scale, x.odd)

    def joined(self, x: Image) -> Image:
        """Combined with an image of another part of the network."""
        others = [y for y in self.images if x.fits(y) and x.channels == y.channels]
        op = self.pick(["Add", "Add", "Mul", "Sum", "Max", "Sub"])
        y = self.op(op, *self.either_way(x.name, self.pick(others).name))
        return Image(y, x.channels, x.scale, x.odd)

    def either_way(self, a: str, b: str) -> list[str]:
        return [a, b] if self.rng.random() < 0.5 else [b, a]

    def concat(self, x: Image) -> Image:
        others = [y for y in self.images if x.fits(y)]
        parts = [x, *(self.pick(others) for _ in range(self.pick([1, 1, 2])))]
        y = self.op("Concat", *(part.name for part in parts), axis=1)
        return Image(y, sum(part.channels for part in parts), x.scale, x.odd)

    def attention(self, x: Image) -> Image:
        """Squeeze and excite: a gate for each channel."""
        pooled = Image(self.op("GlobalAveragePool", x.name), x.channels)
        inner = Image(self.op("Relu", self.conv(pooled, kernel=1).name), 0)
        inner.channels = int(self.graph.initializers[self.graph.nodes[-2].input[1]].shape[0])
        gate = self.conv(inner, x.channels, kernel=1)
        gate = self.op(self.pick(["Sigmoid", "HardSigmoid"]), gate.name)
        return Image(self.op("Mul", *self.either_way(x.name, gate)), x.channels, x.scale, x.odd)

    def scaled(self, x: Image) -> Image:
        """Scaled by one number per channel."""
        scale = self.weights(1, x.channels, 1, 1, std=1.0)
        op = self.pick(["Mul", "Add"])
        return Image(self.op(op, *self.either_way(x.name, scale)), x.channels, x.scale, x.odd)

    def batchnorm(self, x: Image) -> Image:
        return Image(self.graph.batchnorm(x.name, x.name, x.channels, ""), x.channels, x.scale, x.odd)

    def pool(self, x: Image) -> Image:
        op = self.pick(["MaxPool", "AveragePool"])
        stride = self.pick([1, 2]) if x.scale > -1 else 1
        layout = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [stride] * 2}
        return Image(self.op(op, x.name, **layout), x.channels, x.scale - (stride > 1), x.odd)

    def padded(self, x: Image) -> Image:
        """Padded to a size that no other image has."""
        self.n_oddities += 1
        pads = self.graph.const([0, 0, 1, 0, 0, 0, 0, 1])
        return Image(self.op("Pad", x.name, pads), x.channels, x.scale, self.n_oddities)

    def enlarged(self, x: Image) -> Image:
        if x.scale > 0:
            return self.activation(x)
        self.n_oddities += 1  # a halved size may be odd
        scales = self.graph.const([1.0, 1.0, 2.0, 2.0])
        nearest = {"mode": "nearest", "nearest_mode": "floor"}
        linear = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
        how = self.pick([nearest | {"coordinate_transformation_mode": "asymmetric"}, linear])
        y = self.op("Resize", x.name, None, scales, **how)
        return Image(y, x.channels, x.scale + 1, self.n_oddities if x.scale < 0 else x.odd)

    def part(self, x: Image) -> Image:
        """Some of the channels."""
        if x.channels % 2:
            return self.activation(x)
        half = x.channels // 2
        if self.rng.random() < 0.5:
            sizes = self.graph.const([half, half])
            first, second = self.op("Split", x.name, sizes, outputs=2, axis=1)
            self.images.append(Image(second, half, x.scale, x.odd))
            return Image(first, half, x.scale, x.odd)
        y = self.graph.slice(x.name, half, x.channels, 1, "")
        return Image(y, half, x.scale, x.odd)

    def around(self, x: Image) -> Image:
        """Through NHWC and back."""
        y = self.op("Softmax", self.op("Transpose", x.name, perm=[0, 2, 3, 1]), axis=-1)
        return Image(self.op("Transpose", y, perm=[0, 3, 1, 2]), x.channels, x.scale, x.odd)

    STEPS = (
        [conv] * 5 + [residual] * 4 + [joined] * 3 + [activation] * 3 + [depthwise] * 2
        + [concat] * 2 + [attention] * 2 + [swish] * 2 + [pool] * 2
        + [strided, grouped, clip, scaled, batchnorm, padded, enlarged, part, around]
    )  # fmt: skip

    def grow(self) -> onnx.ModelProto:
        for _ in range(self.rng.integers(3, 12)):
            recent = self.images[-1 if self.rng.random() < 0.7 else self.rng.integers(len(self.images))]
            self.images.append(self.pick(self.STEPS)(self, recent))
        for i, image in enumerate(self.images[-1:] + self.images[1:-1][: self.pick([0, 0, 1])]):
            self.graph.op("Identity", image.name, out=f"y{i}")
            self.graph.output(f"y{i}", ["a", image.channels, f"b{i}", f"c{i}"])
        return self.graph.model()


def make(out: Path, only=None) -> None:
    for seed in range(N_NETWORKS):
        name = f"blocks_{seed:03}"
        if only and name not in only:
            continue
        network = Network(name, seed)
        model = network.grow()
        onnx.checker.check_model(model, full_check=True)
        feed = {"x": np.random.default_rng(seed).normal(0, 1, network.feed_shape).astype("f4")}
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/model.onnx")
            publish(Path(folder) / "model.onnx", out / "blocks" / name, feed, "1e-3 1e-4")
    print(f"blocks: {N_NETWORKS} networks", flush=True)
