"""Sessions, runs and bindings compared with onnxruntime's."""

import copy
import pickle

import numpy as np
import onnxruntime
import pytest
from conftest import FLOAT, model_of
from onnx import helper
from outcomes import Cases, of

import ort_rs

X = np.ones((2, 3), np.float32)
ADD = model_of(
    [helper.make_node("Add", ["x", "y"], ["z"])],
    [("x", FLOAT, [2, 3]), ("y", FLOAT, ["n", 3])],
    [("z", FLOAT, None)],
)
SESSIONS = {package: package.InferenceSession(ADD, providers=["CPUExecutionProvider"]) for package in (onnxruntime, ort_rs)}
CASES = Cases({
    "another byte order is rejected": ["run with another order"],
    "more objects are accepted": ["run with a tuple", "run for {'z': 1}", "run_with_ort_values of arrays", "run_with_ort_values of arrays for ['z']"],
    "the type is known, and is not the input's": ["run with complex64"],
    "the error is about what is missing, not an attribute of it": ["run_with_ort_values of None", "run_with_ort_values of None for ['z']"],
    "errors are reported when a value is bound": ["bind no_such output", "bind no_such output to a value", "bind output on cuda"],
    "an empty path is a missing file": ["InferenceSession of an empty path"],
    "there are no plugins": ["get_input_epdevices"],
    "requests to other machines are not supported": ["InferenceSession with the provider of Azure"],
    "an unknown provider causes a warning": ["set_providers to foo"],
    "sessions and options pickle as what they were created from": ["pickle a session", "pickle options", "copy options"],
})


def value_of(package, array=X):
    return package.OrtValue.ortvalue_from_numpy(array)


for _name, _model in {
    "bytes": ADD, "a bytearray": bytearray(ADD), "a view": memoryview(ADD), "None": None, "no bytes": b"",
    "an empty path": "", "a path that leads nowhere": "/nowhere", "garbage": b"garbage!", "half of it": ADD[: len(ADD) // 2],
}.items():
    CASES.add(f"InferenceSession of {_name}", lambda package, model=_model: type(package.InferenceSession(model)).__name__)
CPU = "CPUExecutionProvider"
for _name, _how in {
    "no providers": {"providers": []}, "a provider's name": {"providers": CPU}, "a tuple of providers": {"providers": (CPU,)},
    "a provider twice": {"providers": [CPU, CPU]}, "options of a provider": {"providers": [(CPU, {"a": "b"})]},
    "provider_options": {"providers": [CPU], "provider_options": [{}]},
    "more provider_options than providers": {"providers": [CPU], "provider_options": [{}, {}]},
    "a dictionary of provider_options": {"providers": [CPU], "provider_options": {}},
    "options of both kinds": {"providers": [(CPU, {})], "provider_options": [{}]},
    "3 for providers": {"providers": 3}, "3 among providers": {"providers": [3]},
    "3 for providers and no fallback": {"providers": 3, "enable_fallback": 0},
    "an unknown provider": {"providers": ["foo"]}, "the provider of Azure": {"providers": ["AzureExecutionProvider"]},
    "3 for options": {"sess_options": 3}, "optimizers left out": {"disabled_optimizers": ["ConstantFolding"]},
    "unknown optimizers left out": {"disabled_optimizers": {"Nope"}}, "unknown keywords": {"foo": 1},
}.items():
    def _made(package, how=_how):
        session = package.InferenceSession(ADD, **how)
        return [session.get_providers(), session.get_provider_options()]

    CASES.add(f"InferenceSession with {_name}", _made)
for _name in dir(SESSIONS[onnxruntime]):
    if _name.startswith("get_") and _name not in ("get_profiling_start_time_ns", "get_tuning_results"):
        CASES.add(_name, lambda package, name=_name: getattr(SESSIONS[package], name)())
for _name in ("end_profiling", "disable_fallback", "enable_fallback", "get_tuning_results", "release_captured_graph"):
    CASES.add(_name, lambda package, name=_name: getattr(SESSIONS[package], name)())
for _options in ({}, {"a": "b"}):
    CASES.add(f"set_ep_dynamic_options({_options})", lambda package, it=_options: SESSIONS[package].set_ep_dynamic_options(it))
CASES.add("a NodeArg's repr", lambda package: [str(arg) for arg in SESSIONS[package].get_inputs()])
CASES.add("set_providers to foo", lambda package: package.InferenceSession(ADD).set_providers(["foo"]))

FEEDS = {
    "arrays": {"x": X, "y": X}, "a list": {"x": X.tolist(), "y": X}, "a list of arrays": {"x": [X[0], X[1]], "y": X},
    "a tuple": {"x": tuple(map(tuple, X.tolist())), "y": X}, "None": {"x": None, "y": X}, "a number": {"x": 1, "y": X},
    "a numpy scalar": {"x": np.float32(1), "y": X}, "a string": {"x": "a", "y": X}, "a dictionary": {"x": {}, "y": X},
    "strings": {"x": np.array(["a"]), "y": X}, "float64": {"x": X.astype("f8"), "y": X}, "bool": {"x": X > 0, "y": X},
    "float16": {"x": X.astype("f2"), "y": X}, "int32": {"x": X.astype("i4"), "y": X}, "complex64": {"x": X.astype("F"), "y": X},
    "another order": {"x": X.astype(">f4"), "y": X}, "too many": {"x": X, "y": X, "q": X}, "nothing": {}, "None at all": None,
    "too few": {"x": X}, "one missing and one unknown": {"x": X, "q": X}, "a list of all": [X, X],
    "a number for a name": {1: X, "y": X}, "bytes for a name": {b"x": X, "y": X}, "too few dimensions": {"x": X[0], "y": X},
    "rows of two lengths": {"x": [[1, 2, 3], [1]], "y": X}, "another shape": {"x": np.ones((3, 3), np.float32), "y": X},
    "no rows": {"x": X, "y": X[:0]}, "an object": {"x": object(), "y": X}, "a set": {"x": {1}, "y": X},
    "a masked array": {"x": np.ma.array(X), "y": X}, "a matrix": {"x": np.matrix(X), "y": X}, "strided": {"x": X.T.copy().T, "y": X},
    "what does not broadcast": {"x": X, "y": np.ones((5, 3), np.float32)}, "a view": {"x": memoryview(X), "y": X},
}
for _name, _feed in FEEDS.items():
    CASES.add(f"run with {_name}", lambda package, feed=_feed: SESSIONS[package].run(["z"], feed))
for _names in (None, [], "", "z", b"z", ["z", "z"], ["zz"], [1], [None], ("z",), {"z"}, {"z": 1}, [""], 3, np.array(["z"]), [b"z"]):
    CASES.add(f"run for {_names!r}", lambda package, names=_names: SESSIONS[package].run(names, FEEDS["arrays"]))
for _options in (3, "a", lambda package: package.RunOptions()):
    CASES.add(f"run with options {type(_options).__name__}", 
        lambda package, options=_options: SESSIONS[package].run(None, FEEDS["arrays"], of(package, options))
    )
VALUE_FEEDS = {
    "values": lambda package: {"x": value_of(package), "y": value_of(package)},
    "arrays": lambda package: {"x": X, "y": value_of(package)},
    "too few": lambda package: {"x": value_of(package)}, "None": lambda package: {"x": None, "y": value_of(package)},
    "too many": lambda package: {"x": value_of(package), "y": value_of(package), "q": value_of(package)},
    "float64": lambda package: {"x": value_of(package, X.astype("f8")), "y": value_of(package)},
    "another shape": lambda package: {"x": value_of(package, X[0]), "y": value_of(package)},
}
for _name, _feed in VALUE_FEEDS.items():
    for _names in (None, ["z"], ["q"]):
        if (_name, _names) not in (("arrays", ["q"]), ("None", ["q"])):
            CASES.add(f"run_with_ort_values of {_name}" + ("" if _names is None else f" for {_names}"),
                lambda package, feed=_feed, names=_names: [
                    it.numpy() for it in SESSIONS[package].run_with_ort_values(names, feed(package))
                ]
            )
    CASES.add(f"run with {_name} as values", lambda package, feed=_feed: SESSIONS[package].run(None, feed(package)))

BINDINGS = {
    "input": lambda package, it: it.bind_cpu_input("x", X), "no_such input": lambda package, it: it.bind_cpu_input("q", X),
    "a list as input": lambda package, it: it.bind_cpu_input("x", [1]), "None as input": lambda package, it: it.bind_cpu_input("x", None),
    "input at an address": lambda package, it: it.bind_input("x", "cpu", 0, np.float32, [2, 3], X.ctypes.data),
    "no_such input at an address": lambda package, it: it.bind_input("q", "cpu", 0, 1, [2, 3], X.ctypes.data),
    "input on cuda": lambda package, it: it.bind_input("x", "cuda", 0, np.float32, [2, 3], X.ctypes.data),
    "input on foo": lambda package, it: it.bind_input("x", "foo", 0, np.float32, [2, 3], X.ctypes.data),
    "input of nothing": lambda package, it: it.bind_input("x", "cpu", 0, np.float32, [0, 3], 0),
    "input to a value": lambda package, it: it.bind_ortvalue_input("x", value_of(package)),
    "no_such input to a value": lambda package, it: it.bind_ortvalue_input("q", value_of(package)),
    "input to an array for a value": lambda package, it: it.bind_ortvalue_input("x", X),
    "output": lambda package, it: it.bind_output("z"), "no_such output": lambda package, it: it.bind_output("q"),
    "output on cuda": lambda package, it: it.bind_output("z", "cuda"), "output on foo": lambda package, it: it.bind_output("z", "foo"),
    "output without a shape": lambda package, it: it.bind_output("z", "cpu", 0, np.float32, None, X.ctypes.data),
    "output without a type": lambda package, it: it.bind_output("z", "cpu", 0, None, [2, 3], X.ctypes.data),
    "output without an address": lambda package, it: it.bind_output("z", "cpu", 0, np.float64, [7]),
    "output to a value": lambda package, it: it.bind_ortvalue_output("z", value_of(package)),
    "no_such output to a value": lambda package, it: it.bind_ortvalue_output("q", value_of(package)),
    "output to an array for a value": lambda package, it: it.bind_ortvalue_output("z", X),
    "nothing, and wait": lambda package, it: (it.synchronize_inputs(), it.synchronize_outputs()),
    "nothing, and clear": lambda package, it: (it.clear_binding_inputs(), it.clear_binding_outputs()),
    "nothing, and get": lambda package, it: [it.get_outputs(), it.copy_outputs_to_cpu(), it.get_outputs_as_ortvaluevector()],
}
for _name, _bind in BINDINGS.items():
    CASES.add(f"bind {_name}", lambda package, bind=_bind: bind(package, SESSIONS[package].io_binding()))


def run_bound(package, *binds):
    binding = SESSIONS[package].io_binding()
    for bind in binds:
        bind(package, binding)
    SESSIONS[package].run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def _input(name, array=X):
    return lambda package, it: it.bind_cpu_input(name, array)


def _output(array):
    return lambda package, it: it.bind_ortvalue_output("z", value_of(package, array))


_z = BINDINGS["output"]
for _name, _binds in {
    "all": (_input("x"), _input("y"), _z), "no output": (_input("x"), _input("y")), "one input": (_input("x"), _z), "nothing": (),
    "float64": (_input("x", X.astype("f8")), _input("y"), _z), "another shape": (_input("x", X[0]), _input("y"), _z),
    "all twice": (_input("x"), _input("x"), _input("y"), _z, _z), "strided": (_input("x", X.T.copy().T), _input("y"), _z),
    "an output of another shape": (_input("x"), _input("y"), _output(np.zeros(5, np.float32))),
    "an output of another type": (_input("x"), _input("y"), _output(np.zeros((2, 3)))),
    "what does not broadcast": (_input("x"), _input("y", np.ones((5, 3), np.float32)), _z),
}.items():
    CASES.add(f"run_with_iobinding of {_name}", lambda package, binds=_binds: run_bound(package, *binds))
CASES.add("run_with_iobinding of another session's", lambda package: SESSIONS[package].run_with_iobinding(package.InferenceSession(ADD).io_binding()))
for _name, _call in {
    "the package": lambda package, _: [package.get_device(), package.get_available_providers()[-1], package.disable_telemetry_events()],
    "set_default_logger_severity": lambda package, it: package.set_default_logger_severity(it),
    "set_default_logger_verbosity": lambda package, it: package.set_default_logger_verbosity(it),
    "set_seed": lambda package, it: package.set_seed(it),
}.items():
    for _value in (2, -1, 5, "a", None, 2.5):
        CASES.add(f"{_name} {_value!r}", lambda package, call=_call, value=_value: call(package, value))


def raised(package):
    try:
        SESSIONS[package].run(None, FEEDS["float64"])
    except Exception as error:
        return error


for _name, _thing in {
    "a session": lambda package: SESSIONS[package], "options": lambda package: package.SessionOptions(),
    "run options": lambda package: package.RunOptions(), "a value": value_of, "an input": lambda package: SESSIONS[package].get_inputs()[0],
    "a binding": lambda package: SESSIONS[package].io_binding(), "metadata": lambda package: SESSIONS[package].get_modelmeta(),
    "a level": lambda package: int(package.GraphOptimizationLevel.ORT_ENABLE_BASIC), "an error": raised,
}.items():
    CASES.add(f"pickle {_name}", lambda package, it=_thing: type(pickle.loads(pickle.dumps(it(package)))).__name__)
    if _name != "an error":
        CASES.add(f"copy {_name}", lambda package, it=_thing: type(copy.copy(it(package))).__name__)


@pytest.fixture(autouse=True, scope="module")
def defaults():
    yield
    for package in SESSIONS:
        package.set_default_logger_severity(2)
        package.set_default_logger_verbosity(0)


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_in_onnxruntime(name):
    CASES.compare(name)


def test_every_difference_is_a_case():
    assert [name for name in CASES.different if name not in CASES] == []
