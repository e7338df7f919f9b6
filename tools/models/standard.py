"""The unmodified backend tests of the onnx package: models, data sets and tolerances."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper

from .node import write_data

DATA = Path(onnx.backend.test.__file__).parent / "data"
# Folders of the package that contain models and their data.
FOLDERS = ("simple", "pytorch-operator", "pytorch-converted")


def make(out: Path, only=None) -> None:
    """Writes OUT/standard/KIND/NAME/ for every test; `light` are architectures with constant weights."""
    out = out / "standard"
    counts = [f"{len(write_cases(out / 'node', only))} node"]
    for folder in FOLDERS:
        found = [test for test in sorted((DATA / folder).glob("test_*")) if wanted(test.name, only)]
        for test in found:
            shutil.copytree(test, out / folder / test.name, dirs_exist_ok=True)
        counts.append(f"{len(found)} {folder}")
    light = [model for model in sorted(DATA.glob("light/*.onnx")) if wanted(model.stem, only)]
    for model in light:
        write_light(model, out / "light" / model.stem)
    print(f"standard: {', '.join(counts)}, {len(light)} light cases")


def wanted(name: str, only) -> bool:
    return not only or name in only


def write_cases(out: Path, only) -> list[str]:
    import onnx.backend.test.case.node as node_cases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reference operators overflow on purpose
        cases = node_cases.collect_testcases(None)
    cases = [case for case in cases if wanted(case.name, only)]
    for case in cases:
        folder = out / case.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(case.model.SerializeToString())
        write_data(case, folder)
    return [case.name for case in cases]


def write_light(path: Path, folder: Path) -> None:
    """The package's runner feeds such a model ramps; the expected outputs are next to the model."""
    shutil.rmtree(folder, ignore_errors=True)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    shutil.copyfile(path, folder / "model.onnx")
    graph = onnx.load(path).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    for j, value in enumerate(inputs):
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        size = int(np.prod(shape))
        ramp = (np.arange(size).reshape(shape) / size).astype(np.float32)
        tensor = numpy_helper.from_array(ramp, value.name)
        (data / f"input_{j}.pb").write_bytes(tensor.SerializeToString())
    for j in range(len(graph.output)):
        shutil.copyfile(path.with_name(f"{path.stem}_output_{j}.pb"), data / f"output_{j}.pb")
