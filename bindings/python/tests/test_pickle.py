"""Sessions pickle as their recipe, and are created again in other processes."""

import concurrent.futures
import copy
import functools
import multiprocessing
import os
import pickle
import signal
import threading

import numpy as np
import onnx
import pytest
from conftest import FLOAT, model_of
from onnx import external_data_helper, helper, numpy_helper

import ort_rs
from ort_rs import _recipe
from ort_rs.capi.onnxruntime_pybind11_state import NoSuchFile

X = np.arange(6, dtype=np.float32).reshape(2, 3)
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def file(add, tmp_path):
    path = tmp_path / "add.onnx"
    path.write_bytes(add)
    return path


@pytest.fixture(autouse=True)
def nothing_is_kept():
    """Each test reopens its sessions."""
    _recipe._forget()


def times(factor):
    """y = factor * x."""
    node = helper.make_node("Mul", ["x", "factor"], ["y"])
    value = numpy_helper.from_array(np.float32(factor), "factor")
    return model_of([node], [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])], [value])


def doubled(session, x):
    return session.run(None, {"x": x, "y": x})[0]


def process_of(session, x):
    return os.getpid(), id(session._sess), doubled(session, x).tolist()


def test_a_pickled_session_is_created_again_with_its_options(file, tmp_path):
    options = ort_rs.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort_rs.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_free_dimension_override_by_name("n", 2)
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    session = ort_rs.InferenceSession(file, options, cache_dir=tmp_path / "cache", disabled_optimizers=["ConstantFolding"])
    # What happens to the options afterwards concerns other sessions.
    options.intra_op_num_threads = 2
    (tmp_path / "optimized.onnx").unlink()
    again = pickle.loads(pickle.dumps(session))
    found = again.get_session_options()
    assert found.intra_op_num_threads == 1 and found.graph_optimization_level.name == "ORT_ENABLE_BASIC"
    assert found.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert again._cache_dir == str(tmp_path / "cache") and again._disabled == ["ConstantFolding"]
    assert again.get_inputs()[1].shape == [2, 3]
    assert not (tmp_path / "optimized.onnx").exists()
    np.testing.assert_array_equal(doubled(again, X), X + X)


def test_a_relative_path_is_that_of_the_folder_where_the_session_was_created(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = ort_rs.InferenceSession(file.name)
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(doubled(pickle.loads(pickle.dumps(session)), X), X + X)


def test_a_file_that_differs_where_the_session_arrives_is_an_error(file):
    data = pickle.dumps(ort_rs.InferenceSession(file))
    digest = _recipe.digest_of(file)
    file.write_bytes(file.read_bytes() + b"\x50\x01")
    with pytest.raises(ort_rs.ModelChanged) as caught:
        pickle.loads(data)
    assert caught.value.path == str(file) and caught.value.expected == digest != caught.value.found
    assert str(file) in str(caught.value) and digest in str(caught.value)
    file.unlink()
    with pytest.raises(ort_rs.ModelMissing, match="add.onnx does not exist on this machine") as missing:
        pickle.loads(data)
    assert missing.value.path == str(file)
    assert isinstance(missing.value, NoSuchFile)
    for error in (caught.value, missing.value):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and vars(again) == vars(error) and str(again) == str(error)


def test_a_session_whose_file_was_written_since_is_not_pickled(file):
    session = ort_rs.InferenceSession(file)
    os.utime(file, ns=(1, 1))
    with pytest.raises(ort_rs.ModelChanged, match="was written after the session was created") as caught:
        pickle.dumps(session)
    assert caught.value.found == ""
    file.unlink()
    with pytest.raises(ort_rs.ModelMissing):
        pickle.dumps(session)


@pytest.mark.parametrize("is_cached", [False, True])
def test_files_with_external_data_are_compared_too(tmp_path, is_cached):
    path, weights = tmp_path / "times.onnx", tmp_path / "weights.bin"
    model = onnx.load_from_string(times(3))
    numbers = model.graph.initializer[0]
    external_data_helper.set_external_data(numbers, weights.name)
    onnx.save(model, path)
    cache_dir = tmp_path / "cache" if is_cached else None
    for _ in range(2):
        # With a cache, the second one is created from the packed file.
        session = ort_rs.InferenceSession(path, cache_dir=cache_dir)
        data = pickle.dumps(session)
        again = pickle.loads(data)
        assert again.run(None, {"x": X[0]})[0].tolist() == (3 * X[0]).tolist()
    unpickled = ort_rs.InferenceSession(path, cache_dir=cache_dir)
    weights.write_bytes(np.float32(4).tobytes())
    with pytest.raises(ort_rs.ModelChanged, match="weights.bin was written after"):
        pickle.dumps(unpickled)
    with pytest.raises(ort_rs.ModelChanged) as caught:
        pickle.loads(data)
    assert caught.value.path == str(weights) and caught.value.found == _recipe.digest_of(weights)
    weights.unlink()
    with pytest.raises(ort_rs.ModelMissing, match="weights.bin does not exist on this machine"):
        pickle.loads(data)


def test_sessions_of_bytes_carry_them_up_to_a_limit(add, monkeypatch):
    session = ort_rs.InferenceSession(add)
    np.testing.assert_array_equal(doubled(pickle.loads(pickle.dumps(session)), X), X + X)
    monkeypatch.setattr(_recipe, "MOST_BYTES", len(add) - 1)
    with pytest.raises(TypeError, match=f"of {len(add)} bytes, more than {len(add) - 1}: save the model to a file"):
        pickle.dumps(session)


def test_what_is_in_memory_only_is_not_pickled(add):
    options = ort_rs.SessionOptions()
    options.add_initializer("w", ort_rs.OrtValue.ortvalue_from_numpy(X))
    for thing in (options, ort_rs.InferenceSession(add, options)):
        with pytest.raises(TypeError, match="values in memory: w"):
            pickle.dumps(thing)

    class Mine(ort_rs.InferenceSession):
        pass

    with pytest.raises(TypeError, match="'Mine'"):
        pickle.dumps(Mine(add))


def test_options_pickle_and_copy():
    options = ort_rs.SessionOptions()
    options.logid, options.execution_mode = "mine", ort_rs.ExecutionMode.ORT_PARALLEL
    options.add_session_config_entry("a", "b")
    for again in (pickle.loads(pickle.dumps(options)), copy.copy(options)):
        assert again is not options and repr(again) == repr(options)
        assert again._keys() == options._keys()
    copied = copy.copy(options)
    copied.logid = "other"
    assert options.logid == "mine"


def test_tasks_of_a_process_share_a_session_until_the_file_changes(tmp_path):
    path, x = tmp_path / "times.onnx", np.ones(1, np.float32)
    path.write_bytes(times(2.0))
    data = pickle.dumps(ort_rs.InferenceSession(path))
    first, second = pickle.loads(data), pickle.loads(data)
    assert first is not second and first._sess is second._sess
    other = tmp_path / "other.onnx"
    other.write_bytes(times(3.0))
    other.replace(path)
    with pytest.raises(ort_rs.ModelChanged):
        pickle.loads(data)
    assert pickle.loads(pickle.dumps(ort_rs.InferenceSession(path))).run(None, {"x": x})[0] == 3.0
    assert first.run(None, {"x": x})[0] == 2.0


def test_a_process_keeps_a_few_sessions(tmp_path):
    recipes = []
    for factor in range(_recipe.N_KEPT + 2):
        path = tmp_path / f"{factor}.onnx"
        path.write_bytes(times(factor))
        recipes.append(pickle.dumps(ort_rs.InferenceSession(path)))
    sessions = [pickle.loads(data) for data in recipes]
    assert len(_recipe._reopened.sessions) == _recipe.N_KEPT
    assert [it.run(None, {"x": np.ones(1, np.float32)})[0] for it in sessions] == list(range(len(recipes)))


def test_threads_that_reopen_at_once_share_one_session(file):
    data, found = pickle.dumps(ort_rs.InferenceSession(file)), []
    barrier = threading.Barrier(8)

    def reopen():
        barrier.wait()
        found.append(pickle.loads(data)._sess)

    threads = [threading.Thread(target=reopen) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1


def test_a_process_pool_runs_one_session_per_process(file, tmp_path):
    session = ort_rs.InferenceSession(file, cache_dir=tmp_path / "cache")
    inputs = [X + i for i in range(40)]
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=SPAWN) as pool:
        found = list(pool.map(functools.partial(process_of, session), inputs))
    assert [it for _, _, it in found] == [(x + x).tolist() for x in inputs]
    processes = {pid for pid, _, _ in found}
    assert os.getpid() not in processes and 1 <= len(processes) <= 2
    assert len({(pid, native) for pid, native, _ in found}) == len(processes)


def killed_once(session, x, marker):
    """Kills its own process the first time it is called with a marker that does not exist."""
    if marker is not None and not os.path.exists(marker):
        open(marker, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return doubled(session, x)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_of_a_pool_is_an_error_and_a_new_pool_gives_the_results(file, tmp_path):
    session, marker = ort_rs.InferenceSession(file), str(tmp_path / "killed")
    for attempt in range(2):
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
            task = pool.submit(killed_once, session, X, marker)
            if attempt == 0:
                with pytest.raises(concurrent.futures.process.BrokenProcessPool):
                    task.result(60)
            else:
                np.testing.assert_array_equal(task.result(60), X + X)
