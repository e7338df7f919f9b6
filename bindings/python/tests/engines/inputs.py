"""The inputs of the engines' tests: row `i` is a function of `i`, so that each process makes its own."""

import os
import pathlib
import signal

import numpy as np

#: As many rows as the proof asks for; ORT_RS_ROWS sets fewer, for a quick check.
N_ROWS = int(os.environ.get("ORT_RS_ROWS", "10000"))
SHAPE = (3, 48, 32)
MODEL = next(
    folder / "models" / "ppocr_cls" / "model.onnx"
    for folder in pathlib.Path(__file__).resolve().parents
    if (folder / "models" / "ppocr_cls").exists()
)
OUTPUT = "save_infer_model/scale_0.tmp_1"


def pixels(ids):
    """The rows with these numbers, float32 of `SHAPE`."""
    phase = np.asarray(ids, np.float32)[:, None] * np.float32(0.37)
    place = np.arange(np.prod(SHAPE), dtype=np.float32) * np.float32(0.011)
    return np.sin(phase + place).astype(np.float32).reshape(-1, *SHAPE)


def expected():
    """The outputs of all rows, by one session in this process."""
    import ort_rs

    session = ort_rs.InferenceSession(MODEL)
    return np.concatenate([session.run(None, {"x": pixels(range(i, min(i + 100, N_ROWS)))})[0] for i in range(0, N_ROWS, 100)])


def kill_once(marker):
    """Kills this process, unless one was already killed: the marker is created first, and only one process creates it."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def check(ids, outputs, wanted):
    """Each row is there once, with the output of one process."""
    ids, outputs = np.asarray(ids), np.asarray(outputs, np.float32)
    np.testing.assert_array_equal(np.sort(ids), np.arange(N_ROWS))
    np.testing.assert_array_equal(outputs, wanted[ids])
