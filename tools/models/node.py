"""The node cases of the onnx package: one operator each, with the standard's own outputs."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

from onnx import TensorProto, numpy_helper

from .layout import LEVEL, save_as_ort


def make(out: Path, only=None) -> None:
    """Writes the cases that onnxruntime has a kernel for and can therefore save as `.ort`."""
    import onnx.backend.test.case.node as node_cases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reference operators overflow on purpose
        cases = node_cases.collect_testcases(None)
    if only:
        cases = [case for case in cases if case.name in only]
    kept = sum(publish(case, out / "node" / case.name) for case in cases)
    print(f"node: {kept} of {len(cases)} cases saved as .ort")


def publish(case, folder: Path) -> bool:
    """Writes one case; False, and no folder, if onnxruntime cannot save it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    try:
        save_as_ort(folder / "model.onnx", folder / "model.ort", LEVEL.ORT_DISABLE_ALL)
    except Exception:  # its exceptions for "no such kernel" share no narrower base
        shutil.rmtree(folder)
        return False
    write_data(case, folder)
    return True


def write_data(case, folder: Path) -> None:
    """Writes the data sets of a case and its tolerance."""
    graph = case.model.graph
    kinds = {value.type.tensor_type.elem_type for value in graph.output}
    # As in the package's runner: two units in the last place of bfloat16.
    rtol = max(case.rtol, 2**-6) if TensorProto.BFLOAT16 in kinds else case.rtol
    (folder / "tol.txt").write_text(f"{rtol} {case.atol}\n")
    for k, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{k}"
        data.mkdir()
        for kind, values, infos in (
            ("input", inputs, graph.input),
            ("output", outputs, graph.output),
        ):
            for j, value in enumerate(values):
                (data / f"{kind}_{j}.pb").write_bytes(serialized(value, infos[j]))


def serialized(value, info) -> bytes:
    if info.type.HasField("sequence_type"):
        return numpy_helper.from_list(value, info.name).SerializeToString()
    if info.type.HasField("optional_type"):
        return numpy_helper.from_optional(value, info.name).SerializeToString()
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    return numpy_helper.from_array(value, info.name).SerializeToString()
