"""Runs one third-party program on onnxruntime or on ort_rs, and prints its results and time.

    python run_client.py NAME onnxruntime|ort_rs REPEATS

Each program is used as its documentation describes, with the models of its own wheel, on inputs generated here.
The time is the minimum of the repeats, without loading.
"""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path

import numpy as np


def drawing(lines, size, font_size=32):
    """An image with lines of text."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        draw.text((20, 16 + i * (font_size + 18)), line, "black", font=ImageFont.load_default(font_size))
    return image


def rapidocr():
    """Texts, their boxes and scores on a drawn page."""
    from rapidocr import RapidOCR

    engine = RapidOCR()
    page = np.array(drawing(["Invoice 2026-11-26", "Total 1234.50 EUR", "Thank you very much"], (640, 200)))

    def run():
        found = engine(page)
        return [
            {"text": text, "box": np.asarray(box).tolist(), "score": float(score)}
            for text, box, score in zip(found.txts, found.boxes, found.scores)
        ]

    return run


def ddddocr():
    """The text of a captcha, and the boxes of objects on a page."""
    import ddddocr as package

    reader, finder = package.DdddOcr(show_ad=False), package.DdddOcr(det=True, ocr=False, show_ad=False)
    captcha, page = io.BytesIO(), io.BytesIO()
    drawing(["x7Kq"], (160, 64)).save(captcha, "png")
    drawing(["A", "B"], (320, 200), 48).save(page, "png")

    def run():
        return {"text": reader.classification(captcha.getvalue()), "boxes": finder.detection(page.getvalue())}

    return run


def magika():
    """The file types of a few files."""
    from magika import Magika

    reader = Magika()
    source = Path(__file__).read_bytes()
    files = [
        source,
        b'{"a": [1, 2, 3], "b": {"c": null}}\n' * 20,
        b"<html><head><title>x</title></head><body><p>hello</p></body></html>\n" * 5,
        b"fn main() {\n    let x: Vec<u8> = Vec::new();\n    println!(\"{x:?}\");\n}\n" * 4,
        b"#include <stdio.h>\nint main(void) { printf(\"hi\\n\"); return 0; }\n" * 4,
    ]

    def run():
        found = [reader.identify_bytes(data) for data in files]
        return [{"label": str(it.output.label), "score": float(it.score)} for it in found]

    return run


def silero_vad():
    """The probability of speech in each chunk of generated audio."""
    import importlib.util

    import onnxruntime

    folder = Path(importlib.util.find_spec("silero_vad").submodule_search_locations[0])
    session = onnxruntime.InferenceSession(str(folder / "data" / "silero_vad.onnx"))
    times = np.arange(16000 * 2) / 16000
    noise = np.random.default_rng(0).normal(size=times.size)
    buzz = np.sign(np.sin(2 * np.pi * 120 * times)) * (0.5 + 0.5 * np.sin(2 * np.pi * 4 * times))
    audio = (0.3 * buzz * (times > 0.7) + 0.01 * noise).astype(np.float32)

    def run():
        state, context, found = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32), []
        for start in range(0, len(audio) - 511, 512):
            chunk = audio[None, start : start + 512]
            feed = {"input": np.concatenate([context, chunk], 1), "state": state, "sr": np.array(16000, np.int64)}
            speech, state = session.run(None, feed)
            context = chunk[:, -64:]
            found.append(float(speech[0, 0]))
        return found

    return run


CLIENTS = {client.__name__: client for client in (rapidocr, ddddocr, magika, silero_vad)}


def main():
    name, runtime, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if runtime == "ort_rs":
        import ort_rs

        ort_rs.install_as_onnxruntime()
    import onnxruntime

    start = time.perf_counter()
    run = CLIENTS[name]()
    loading = time.perf_counter() - start
    found, best = run(), float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    package = getattr(onnxruntime, "package_name", "")
    result = {"found": found, "seconds": best, "loading": loading, "package": package}
    print("RESULT " + json.dumps(result, default=lambda it: it.tolist() if hasattr(it, "tolist") else float(it)))


if __name__ == "__main__":
    main()
