"""Files that the processes of a machine share, and runs on rows."""

import multiprocessing
import os
import sys

import numpy as np
import pytest
from conftest import FLOAT, model_of
from onnx import helper

import ort_rs
from ort_rs import _node, _rows

SPAWN = multiprocessing.get_context("spawn")


def written(folder, key, log):
    """Asks for a file, and logs if this process had to make its bytes."""

    def model():
        with open(log, "a") as file:
            file.write("made\n")
        return b"the model" * 100000

    path = _node.file_of(folder, key, model)
    with open(path, "rb") as file:
        return path, len(file.read())


def test_one_of_many_processes_writes_a_file(tmp_path):
    folder, log = _node.folder_of(tmp_path / "node"), str(tmp_path / "log")
    with SPAWN.Pool(4) as pool:
        found = pool.starmap(written, [(folder, "a-key", log)] * 16)
    assert len(set(found)) == 1 and found[0][1] == 900000
    assert open(log).read() == "made\n"
    # Another key of the same bytes leads to the same file.
    assert written(folder, "another-key", log)[0] == found[0][0]
    assert not [name for name in os.listdir(folder) if name.startswith("writing-")]
    # A file that was removed is written again.
    os.unlink(found[0][0])
    assert written(folder, "a-key", log) == found[0]


def test_a_failed_write_leaves_nothing(tmp_path):
    folder = _node.folder_of(tmp_path / "node")

    def model():
        raise OSError("the store is gone")

    with pytest.raises(OSError, match="the store is gone"):
        _node.file_of(folder, "a-key", model)
    assert os.listdir(folder) == ["model-a-key.lock"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs modes of folders")
def test_a_folder_that_others_may_write_to_is_rejected(tmp_path):
    assert os.stat(_node.folder_of(tmp_path / "new")).st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="open belongs to another user, or others may write to it"):
        _node.folder_of(tmp_path / "open")


def negated(*shape):
    return ort_rs.InferenceSession(
        model_of([helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, list(shape))], [("y", FLOAT, list(shape))])
    )


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 4, 5])
def test_a_model_of_a_fixed_number_of_rows_runs_on_any(n_rows):
    x = np.arange(n_rows * 3, dtype=np.float32).reshape(n_rows, 3)
    for session in (negated(2, 3), negated(1, 3), negated("n", 3)):
        made = _rows.run_rows(session, {"x": x})["y"]
        assert made.shape == x.shape
        np.testing.assert_array_equal(made, -x)


def test_rows_of_another_number_or_shape_are_errors():
    session = negated("n", 3)
    with pytest.raises(_rows.RowError, match="'b': 2 rows, but 3 in 'a'"):
        _rows.n_rows_of({"a": np.zeros(3), "b": np.zeros(2)})
    with pytest.raises(_rows.RowError, match="'a': an input of rows has at least one axis"):
        _rows.n_rows_of({"a": np.array(1.0)})
    with pytest.raises(_rows.RowError, match="there are none with rows"):
        _rows.run_rows(session, {})
    (arg,) = session.get_inputs()
    assert _rows.fit(np.zeros((4, 3)), arg).shape == (4, 3)
    assert _rows.fit(np.zeros((4, 1, 3)), arg).shape == (4, 3)
    assert _rows.fit(np.zeros((4, 6)), arg, (2, 3)).shape == (4, 2, 3)
    with pytest.raises(_rows.RowError, match=r"'x': rows of shape \(6,\) cannot have the shape \(2, 2\)"):
        _rows.fit(np.zeros((4, 6)), arg, (2, 2))
