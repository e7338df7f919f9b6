"""Arrays of strings, bytes and objects go in, arrays of strings come out."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import unary
from onnx import TensorProto

import ort_rs
from ort_rs.capi.onnxruntime_pybind11_state import InvalidArgument


@pytest.fixture(scope="module")
def identity():
    return ort_rs.InferenceSession(unary("Identity", TensorProto.STRING))


class Named:
    def __str__(self):
        return "named"


TEXTS = [["a", "äöü", ""], ["日本", "🦀", "a" * 40]]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array(TEXTS), TEXTS),
        (np.array(TEXTS).T, np.array(TEXTS).T.tolist()),
        (np.array(TEXTS)[:, ::-2], [["", "a"], ["a" * 40, "日本"]]),
        (np.array(TEXTS).astype(np.array(TEXTS).dtype.newbyteorder()), TEXTS),
        (np.array(["a\0b\0", "\0"]), ["a\0b", ""]),
        (np.char.encode(np.array(TEXTS), "utf-8"), TEXTS),
        (np.array(TEXTS, object), TEXTS),
        (np.array(TEXTS, object).T, np.array(TEXTS).T.tolist()),
        (np.array(TEXTS, object)[:, ::-2], [["", "a"], ["a" * 40, "日本"]]),
        (np.array(["a\0b\0", "ä".encode(), np.str_("x"), 1, None, 1.5, Named()], object),
         ["a\0b\0", "ä", "x", "1", "None", "1.5", "named"]),
        (np.array("a", object), "a"),
        (np.array("ä"), "ä"),
        (np.zeros((0, 3), object), []),
        (np.zeros((2, 0), "U1"), [[], []]),
    ],
)
def test_texts_of_arrays(identity, array, expected):
    found = identity.run(None, {"x": array})[0]
    assert found.dtype == object and found.shape == array.shape and found.tolist() == expected


@pytest.mark.parametrize(
    "array",
    [np.array(["\ud800"]), np.array(["\ud800"], object), np.array([b"\xff"]), np.array([b"\xff"], object)],
)
def test_what_is_no_text_is_an_error(identity, array):
    with pytest.raises((InvalidArgument, UnicodeEncodeError)):
        identity.run(None, {"x": array})


@pytest.mark.parametrize("n", [15, 16, 3000])
def test_equal_texts_stay_in_order(identity, n):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(["a", "b", "ä", "12345678"], rng.integers(0, 6))) for _ in range(n)]
    for texts in (words, [str(i) for i in range(n)], ["same"] * n):
        found = identity.run(None, {"x": np.array(texts, object)})[0]
        assert found.tolist() == texts and found.flags.writeable and found.flags.aligned
        found[0] = "new"
        assert found.tolist() == ["new", *texts[1:]]
