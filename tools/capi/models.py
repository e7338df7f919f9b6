"""The models of models/, and programs that run them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from .library import ROOT, WORK, run


def models() -> Iterator[Path]:
    found = sorted([*(ROOT / "models").glob("*/model.ort"), *(ROOT / "models").glob("*/model.onnx")])
    assert found, "there are no models"
    yield from found


def tensors(model: Path, kind: str) -> list[onnx.TensorProto]:
    files = sorted((model.parent / "test_data_set_0").glob(f"{kind}_*.pb"))
    return [onnx.load_tensor(str(file)) for file in files]


def compare(command: list[str], **more: object) -> str:
    """Runs every model with a program, and compares its outputs."""
    for model in models():
        folder = WORK / "data"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        inputs = []
        for i, tensor in enumerate(tensors(model, "input")):
            array = numpy_helper.to_array(tensor)
            (folder / f"input_{i}").write_bytes(array.tobytes())
            shape = ",".join(map(str, array.shape)) or "s"
            inputs.append(f"{tensor.name}:{tensor.data_type}:{shape}:{folder / f'input_{i}'}")
        run([*command, str(model), str(folder), *inputs], **more)
        for i, tensor in enumerate(tensors(model, "output")):
            expected = numpy_helper.to_array(tensor)
            actual = np.fromfile(folder / f"{i}.bin", expected.dtype)
            assert actual.size == expected.size, f"{model}: output {i} has {actual.size} elements"
            close = np.allclose(actual, expected.ravel(), rtol=1e-3, atol=1e-4)
            assert close, f"{model}: output {i} differs by {np.abs(actual - expected.ravel()).max()}"
    return f"{len(list(models()))} models"
