"""Sessions and runs: the same results and errors as onnxruntime's."""

import pathlib
import pickle
import threading

import numpy as np
import onnxruntime
import pytest
from conftest import FLOAT, model_of, unary
from onnx import TensorProto, helper

import ort_rs

BOTH = (onnxruntime, ort_rs)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def outcome(call):
    """The result of a call, or the name of the exception it raises."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def test_a_run_returns_what_onnxruntime_returns(add):
    ours, theirs = (package.InferenceSession(add, providers=["CPUExecutionProvider"]) for package in BOTH)
    feed = {"x": X, "y": X[:1]}
    for names in (None, [], ["z"], ("z",), ["z", "z"]):
        results = ours.run(names, feed), theirs.run(names, feed)
        assert isinstance(results[0], list)
        for a, b in zip(*results, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype and a.flags.c_contiguous and a.flags.writeable


RUNS = {
    "unknown input": (None, {"x": X, "y": X, "q": X}),
    "missing input": (None, {"x": X}),
    "no inputs": (None, {}),
    "element type": (None, {"x": X.astype(np.float64), "y": X}),
    "dimension": (None, {"x": np.ones((3, 3), np.float32), "y": X}),
    "rank": (None, {"x": X[0], "y": X}),
    "a numpy scalar": (None, {"x": np.float32(3), "y": X}),
    "a string": (None, {"x": "abc", "y": X}),
    "unknown output": (["zz"], {"x": X, "y": X}),
    "a name instead of names": ("z", {"x": X, "y": X}),
    "a list instead of a feed": (None, [X, X]),
    "shapes that do not broadcast": (None, {"x": X, "y": np.ones((5, 3), np.float32)}),
}


@pytest.mark.parametrize("what", RUNS)
def test_a_run_that_fails_raises_the_same_exception(add, what):
    names, feed = RUNS[what]
    sessions = [package.InferenceSession(add, providers=["CPUExecutionProvider"]) for package in BOTH]
    theirs, ours = (outcome(lambda: session.run(names, feed)) for session in sessions)
    assert isinstance(theirs, str) and ours == theirs


def invalid(*nodes):
    return model_of(nodes, [("x", FLOAT, [2])], [("z", FLOAT, None)])


MODELS = {
    "no file": lambda: "/nowhere/model.onnx",
    "a folder": lambda: "/",
    "garbage": lambda: b"garbage!!",
    "a number": lambda: 3,
    "a bytearray": lambda: bytearray(b""),
    "unknown operator": lambda: invalid(helper.make_node("Foo", ["x"], ["z"])),
    "unknown domain": lambda: invalid(helper.make_node("Foo", ["x"], ["z"], domain="a.b")),
    "a type that does not fit": lambda: invalid(helper.make_node("And", ["x", "x"], ["z"])),
}


@pytest.mark.parametrize("what", MODELS)
def test_a_model_that_does_not_load_raises_the_same_exception(what):
    model = MODELS[what]()
    theirs, ours = (outcome(lambda: package.InferenceSession(model)) for package in BOTH)
    assert isinstance(theirs, str) and ours == theirs


def test_errors_name_what_and_where_and_can_be_pickled(add):
    session = ort_rs.InferenceSession(add)
    with pytest.raises(ort_rs.capi.onnxruntime_pybind11_state.InvalidArgument) as caught:
        session.run(None, {"x": X[0], "y": X})
    assert "`x`" in str(caught.value) and "[ONNXRuntimeError] : 2" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and again.args == caught.value.args
    for thing in (ort_rs.OrtValue.ortvalue_from_numpy(X), session._sess, ort_rs.RunOptions()):
        with pytest.raises(TypeError):
            pickle.dumps(thing)


def test_models_come_as_paths_bytes_and_path_likes(add, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(add)
    for model in (add, str(path), pathlib.Path(path)):
        session = ort_rs.InferenceSession(model)
        np.testing.assert_array_equal(session.run(None, {"x": X, "y": X})[0], X + X)


def test_metadata_is_that_of_onnxruntime(add):
    model = model_of(
        [helper.make_node("Add", ["x", "w"], ["z"])],
        [("x", FLOAT, ["n", 3, None]), ("w", FLOAT, [1])],
        [("z", FLOAT, ["n", 3, "m"])],
        [helper.make_tensor("w", FLOAT, [1], [2.0])],
        producer_name="us", domain="a.b", model_version=7, doc_string="about", props={"k": "v"},
    )
    ours, theirs = (package.InferenceSession(model, providers=["CPUExecutionProvider"]) for package in (ort_rs, onnxruntime))
    for what in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        facts = [[(arg.name, arg.type, arg.shape) for arg in getattr(session, what)()] for session in (ours, theirs)]
        assert facts[0] == facts[1], what
    for what in ("custom_metadata_map", "description", "domain", "producer_name", "version", "graph_description", "graph_name"):
        assert getattr(ours.get_modelmeta(), what) == getattr(theirs.get_modelmeta(), what), what
    assert ours.get_providers() == ["CPUExecutionProvider"]
    assert "tensor(float)" in repr(ours.get_inputs()[0]) and "x -> z" in repr(ours)


def test_requested_outputs_come_in_the_requested_order(two_outputs):
    session = ort_rs.InferenceSession(two_outputs)
    x = np.array([-1.0, 2.0], np.float32)
    for names in (["b"], ["b", "a"], ["a", "b"], ["b", "a", "b"]):
        made = dict(zip("ab", (-x, abs(x))))
        for name, found in zip(names, session.run(names, {"x": x}), strict=True):
            np.testing.assert_array_equal(found, made[name])


def test_outputs_belong_to_the_caller(two_outputs):
    session = ort_rs.InferenceSession(two_outputs)
    first = session.run(None, {"x": np.ones(5, np.float32)})[0]
    first[:] = 9
    second = session.run(None, {"x": np.ones(5, np.float32)})[0]
    assert first.tolist() == [9] * 5 and second.tolist() == [-1] * 5
    del session
    assert first.tolist() == [9] * 5


def test_constants_as_outputs_cannot_be_written_to_by_a_caller():
    constant = helper.make_node("Constant", [], ["y"], value_floats=[1.0, 2.0])
    session = ort_rs.InferenceSession(model_of([constant], [], [("y", FLOAT, [2])]))
    session.run(None, {})[0][:] = 9
    assert session.run(None, {})[0].tolist() == [1.0, 2.0]


def test_a_run_is_cancelled_from_another_thread(slow):
    session = ort_rs.InferenceSession(slow)
    options = ort_rs.RunOptions()
    feed = {"n": np.array(1 << 40), "x": np.eye(64, dtype=np.float32)}
    timer = threading.Timer(0.2, lambda: setattr(options, "terminate", True))
    timer.start()
    with pytest.raises(ort_rs.capi.onnxruntime_pybind11_state.Fail, match="terminate"):
        session.run(None, feed, options)
    options.terminate = False
    feed["n"] = np.array(2, np.int64)
    np.testing.assert_array_equal(session.run(None, feed, options)[0], feed["x"])


def test_run_async_calls_back_with_results_or_an_error(add):
    session = ort_rs.InferenceSession(add)
    for y, is_right in ((X, True), (np.ones((5, 3), np.float32), False)):
        done, answer = threading.Event(), []
        session.run_async(["z"], {"x": X, "y": y}, lambda *it: (answer.extend(it), done.set()), "mine")
        assert done.wait(60)
        results, data, error = answer
        assert data == "mine" and (error == "") == is_right and len(results) == is_right


def test_profiles_and_memory_are_shown_as_text_and_html(add, tmp_path):
    options = ort_rs.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = ort_rs.InferenceSession(add, options)
    session.run(None, {"x": X, "y": X})
    profile = session.profile({"x": X, "y": X}, n_runs=3)
    assert len(profile.runs) == 3 and list(profile.by_operator()) == ["Add"]
    for report in (profile, session.memory()):
        assert "<table>" in report._repr_html_() and "\n" in repr(report)
    assert session.memory()["model"] >= len(add)
    assert session.get_profiling_start_time_ns() > 0
    assert '"Add"' in pathlib.Path(session.end_profiling()).read_text()


def test_cache_optimize_and_packed_produce_models_that_run(tmp_path, capfd):
    weights = helper.make_tensor("w", FLOAT, [64, 64], np.linspace(-1, 1, 64 * 64))
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = model_of([node], [("x", FLOAT, ["n", 64])], [("y", FLOAT, ["n", 64])], [weights])
    x = np.ones((3, 64), np.float32)
    expected = ort_rs.InferenceSession(model).run(None, {"x": x})[0]
    optimized = ort_rs.optimize(model, tmp_path / "optimized.onnx")
    assert "MatMul" in optimized.text()
    assert ort_rs.InferenceSession(tmp_path / "optimized.onnx").get_modelmeta().graph_name == "the_graph"
    sizes = ort_rs.packed(model, tmp_path / "packed.ort")
    assert sizes[0] == (tmp_path / "packed.ort").stat().st_size
    for source in (tmp_path / "optimized.onnx", tmp_path / "packed.ort"):
        np.testing.assert_array_equal(ort_rs.InferenceSession(source).run(None, {"x": x})[0], expected)
    for _ in range(2):
        cached = ort_rs.InferenceSession(model, cache_dir=tmp_path / "cache")
        np.testing.assert_array_equal(cached.run(None, {"x": x})[0], expected)
    assert list((tmp_path / "cache").iterdir())
    assert capfd.readouterr().err == "", "nothing is logged by default"


def test_sequences_maps_and_optionals_go_in_and_come_out():
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    node = helper.make_node("SequenceAt", ["s", "i"], ["y"])
    model = model_of([node], [sequence, ("i", TensorProto.INT64, [])], [("y", FLOAT, None)])
    items = [np.full((i + 1,), i, np.float32) for i in range(3)]
    feed = {"s": items, "i": np.array(2, np.int64)}
    assert ort_rs.InferenceSession(model).run(None, feed)[0].tolist() == [2, 2, 2]
    split = helper.make_node("SplitToSequence", ["x"], ["s"])
    model = model_of([split], [("x", FLOAT, [2, 3])], [sequence])
    parts = ort_rs.InferenceSession(model).run(None, {"x": X})[0]
    assert isinstance(parts, list) and [part.shape for part in parts] == [(1, 3), (1, 3)]


def test_an_optional_takes_a_value_or_none():
    kind = helper.make_tensor_type_proto(FLOAT, [2])
    optional = helper.make_value_info("x", helper.make_optional_type_proto(kind))
    node = helper.make_node("OptionalHasElement", ["x"], ["y"])
    session = ort_rs.InferenceSession(model_of([node], [optional], [("y", TensorProto.BOOL, [])]))
    assert session.get_inputs()[0].type == "optional(tensor(float))"
    for x, has_value in ((np.ones(2, np.float32), True), (None, False)):
        assert session.run(None, {"x": x})[0].tolist() is has_value


def test_strings_go_in_and_come_out():
    session = ort_rs.InferenceSession(unary("Identity", TensorProto.STRING))
    texts = [["a", "äöü"], ["", "日本"]]
    for array in (np.array(texts), np.array(texts, object), np.char.encode(np.array(texts), "utf-8")):
        found = session.run(None, {"x": array})[0]
        assert found.dtype == object and found.tolist() == texts
    assert session.run(None, {"x": texts})[0].tolist() == texts


def test_reprs_describe_objects(add):
    session = ort_rs.InferenceSession(add)
    assert repr(session) == "InferenceSession(bytes: x, y -> z)"
    assert repr(session.get_inputs()[1]) == "NodeArg(name='y', type='tensor(float)', shape=['n', 3])"
    assert repr(session.get_inputs()[1]) == str(onnxruntime.InferenceSession(add).get_inputs()[1])
    assert repr(ort_rs.OrtValue.ortvalue_from_numpy(X)) == "OrtValue(tensor(float), shape=[2, 3])"
    options = ort_rs.SessionOptions()
    options.intra_op_num_threads = 2
    assert repr(options) == "SessionOptions(intra_op_num_threads=2)"
    head, *rows = repr(session.memory()).splitlines()
    assert head.split() == ["memory", "count", "KiB", "resident", "KiB"] and rows[0].startswith("model ")
    profile = session.profile({"x": X, "y": X})
    assert [cell in profile._repr_html_() for cell in ("<th>operator</th>", "<td>Add</td>")] == [True, True]
    assert "<td>model</td>" in session.memory()._repr_html_()
