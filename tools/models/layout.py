"""The folder of a model: its `.ort` variants, its reference tensors and their tolerance."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

ERRORS_ONLY = 4
ort.set_default_logger_severity(ERRORS_ONLY)
LEVEL = ort.GraphOptimizationLevel
# The `.ort` variants: the level, and the disabled optimizers.
VARIANTS = {
    "raw": (LEVEL.ORT_DISABLE_ALL, []),
    "default": (LEVEL.ORT_ENABLE_ALL, ["NchwcTransformer"]),
    "all": (LEVEL.ORT_ENABLE_ALL, []),
}
# "rtol atol" by default.
TOLERANCE = "1e-3 1e-5"

Feed = dict[str, np.ndarray]


def save_as_ort(model: Path, ort_file: Path, level, left_out=()) -> ort.InferenceSession:
    """Has onnxruntime optimize `model` and write it to `ort_file`; returns the session."""
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.optimized_model_filepath = str(ort_file)
    options.add_session_config_entry("session.save_model_format", "ORT")
    return ort.InferenceSession(
        str(model),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=list(left_out),
    )


def write_tensors(folder: Path, kind: str, arrays: Feed) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for j, (name, array) in enumerate(arrays.items()):
        # ascontiguousarray makes a scalar one-dimensional; reshape undoes that.
        tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        (folder / f"{kind}_{j}.pb").write_bytes(tensor.SerializeToString())


def publish(model: Path, folder: Path, feed: Feed, tolerance: str = TOLERANCE) -> None:
    """Writes model.onnx, its `.ort` variants, the tolerance and one data set into `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(model, folder / "model.onnx")
    sessions = {
        variant: save_as_ort(model, folder / f"model.{variant}.ort", *how)
        for variant, how in VARIANTS.items()
    }
    raw = sessions["raw"]
    inputs = {i.name: feed[i.name] for i in raw.get_inputs()}
    outputs = dict(zip([o.name for o in raw.get_outputs()], raw.run(None, inputs)))
    (folder / "tol.txt").write_text(tolerance + "\n")
    write_tensors(folder / "test_data_set_0", "input", inputs)
    write_tensors(folder / "test_data_set_0", "output", outputs)


def publish_each(
    folder: Path,
    builders: dict[str, Callable[[], tuple[onnx.ModelProto, Feed]]],
    only: Iterable[str] | None = None,
    tolerances: dict[str, str] | None = None,
    is_standard: bool = True,
) -> None:
    """Publishes the models that functions build, as `folder`/NAME; checks those of standard operators."""
    for name, build in builders.items():
        if only and name not in only:
            continue
        model, feed = build()
        if is_standard:
            onnx.checker.check_model(model, full_check=True)
        with tempfile.TemporaryDirectory() as made:
            onnx.save(model, f"{made}/model.onnx")
            tolerance = (tolerances or {}).get(name, TOLERANCE)
            publish(Path(made) / "model.onnx", folder / name, feed, tolerance)
        print(f"{folder.name}: {name}", flush=True)
