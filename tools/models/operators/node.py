"""A model of one operator, and its operands."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..layout import LEVEL, Feed, save_as_ort, write_tensors
from ..node_kinds import Node

# Our name of an element type -> those of numpy and onnxruntime.
TYPES = {
    "f32": ("f4", "float"),
    "f64": ("f8", "double"),
    "f16": ("f2", "float16"),
    "bf16": (ml_dtypes.bfloat16, "bfloat16"),
    **{f"i{8 * n}": (f"i{n}", f"int{8 * n}") for n in (1, 2, 4, 8)},
    **{f"u{8 * n}": (f"u{n}", f"uint{8 * n}") for n in (1, 2, 4, 8)},
    "bool": ("?", "bool"),
}
# Name -> bytes of the data: in or near the first-level cache, in the second-level cache, in neither.
SIZES = {"16 KiB": 1 << 14, "512 KiB": 1 << 19, "10 MiB": 10 << 20}


class Operands:
    """Reproducible data of one element type and approximate size."""

    def __init__(self, dtype: str, size: str):
        self.dtype = np.dtype(TYPES[dtype][0])
        self.n_bytes = SIZES[size]
        self.n = self.n_bytes // self.dtype.itemsize
        self.values = functools.cache(lambda *how: np.asarray(self._values(*how)))

    @property
    def is_float(self) -> bool:
        return self.dtype.kind in "fV" or self.dtype == ml_dtypes.bfloat16

    @property
    def image(self) -> tuple[int, ...]:
        """An NCHW shape with square channels, of about the size."""
        channels = {1 << 14: 16, 1 << 19: 32}.get(self.n_bytes, 64)
        edge = max(math.isqrt(self.n // channels), 2)
        return (1, channels, edge, edge)

    def rows(self, n: int) -> tuple[int, int]:
        """A shape with rows of n, of about the size."""
        return (max(self.n // n, 1), n)

    def _values(self, shape: tuple[int, ...], kind: str = "any", seed: int = 0) -> np.ndarray:
        """Values of kind `any`, `positive`, or `fraction` (−0.95 to 0.95)."""
        rng = np.random.default_rng(seed)
        if self.dtype.kind == "b":
            return rng.random(shape) > 0.5
        if not self.is_float:
            low = -8 if self.dtype.kind == "i" and kind == "any" else 1
            return rng.integers(low, 9, shape).astype(self.dtype)
        if kind == "fraction":
            return rng.uniform(-0.95, 0.95, shape).astype(self.dtype)
        x = np.asarray(rng.standard_normal(shape, "f4"))
        return (np.abs(x) + np.float32(0.1) if kind == "positive" else x).astype(self.dtype)

    def scalar(self, value: float) -> np.ndarray:
        return np.asarray(value).astype(self.dtype)


def model(node: Node) -> tuple[onnx.ModelProto, Feed]:
    """A model of one node and its inputs; the types of its outputs are inferred by the reader."""
    feed = {f"x{i}": np.asarray(x) for i, x in enumerate(node.feed)}
    constants = {f"c{i}": x for i, x in enumerate(node.constants) if x is not None}
    names = [f"c{i}" if x is not None else "" for i, x in enumerate(node.constants)]
    outputs = [f"y{i}" for i in range(node.outputs)]
    made = helper.make_node(node.op, [*feed, *names], outputs, domain=node.domain, **node.attributes)
    dtype = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [made],
        node.op,
        [helper.make_tensor_value_info(name, dtype(x.dtype), x.shape) for name, x in feed.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )
    opsets = [helper.make_opsetid("", node.opset)]
    if node.domain:
        opsets.append(helper.make_opsetid(node.domain, 3 if node.domain == "ai.onnx.ml" else 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feed


def write(node: Node, folder: Path) -> Feed:
    """Writes the model and its inputs into `folder`; returns the inputs.

    Raises onnxruntime's exception if it has no such kernel.
    """
    proto, feed = model(node)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(proto, folder / "model.onnx")
    save_as_ort(folder / "model.onnx", folder / "model.ort", LEVEL.ORT_DISABLE_ALL)
    write_tensors(folder / "test_data_set_0", "input", feed)
    return feed
