"""Models of one convolution, for which a higher optimization level gains little and could be slower."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx

from .graph import Graph
from .layout import publish

# Name -> input channels, output channels, groups, kernel, stride, height and width.
CONVOLUTIONS = {
    **{f"conv{k}x{k}_64": (64, 64, 1, k, 1, 56) for k in (3, 5, 7, 9, 11)},
    **{f"stem{k}x{k}_3_64": (3, 64, 1, k, 2, 224) for k in (3, 7, 9, 11)},
    **{
        f"depthwise{k}x{k}_{c}_{size}": (c, c, c, k, 1, size)
        for k in (3, 5, 7)
        for c in (64, 96, 256)
        for size in (56, 14)
    },
    **{
        f"grouped{stride}_{c}_{groups}_{size}": (c, c, groups, 3, stride, size)
        for c, groups, size in ((64, 2, 56), (120, 5, 28), (256, 8, 14), (512, 32, 14), (1024, 32, 7))
        for stride in (1, 2)
    },
    **{
        f"pointwise_{i}_{o}_{size}": (i, o, 1, 1, 1, size)
        for i, o, size in ((64, 64, 56), (96, 24, 56), (256, 64, 14), (64, 256, 14), (512, 512, 7))
    },
}


def make(out: Path, only=None) -> None:
    for name, (c_in, c_out, groups, kernel, stride, size) in CONVOLUTIONS.items():
        if only and name not in only:
            continue
        graph = Graph(name, opset=17, seed=7)
        x = graph.input("x", [1, c_in, size, size])
        bias = graph.normal([c_out], 0.2)
        graph.conv(x, "conv", c_in, c_out, kernel, "", stride, groups, bias, out="y")
        padded = size + 2 * (kernel // 2)
        out_size = (padded - kernel) // stride + 1
        graph.output("y", [1, c_out, out_size, out_size])
        model = graph.model()
        onnx.checker.check_model(model, full_check=True)
        feed = {"x": np.random.default_rng(7).normal(0, 1, (1, c_in, size, size)).astype("f4")}
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/model.onnx")
            publish(Path(folder) / "model.onnx", out / "single" / name, feed, "1e-3 1e-4")
        print(f"single: {name}", flush=True)
