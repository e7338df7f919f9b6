"""Options compared with onnxruntime's: every attribute and method, with values and arguments that a program may pass."""

import pathlib

import numpy as np
import onnxruntime
import pytest
from outcomes import Cases, of

ENUMERATIONS = ("ORT_ENABLE_BASIC", "ORT_PARALLEL", "PRIORITY_BASED", "PREFER_CPU")
FLAGS = [
    f"{kind}.{name}"
    for kind in ("SessionOptions", "RunOptions")
    for name in dir(getattr(onnxruntime, kind)())
    if isinstance(getattr(getattr(onnxruntime, kind)(), name), bool)
]
CASES = Cases({
    "our enumerations are integers, and thus flags": [f"{flag} = {name}" for flag in FLAGS for name in ENUMERATIONS]
    + ["SessionOptions.set_load_cancellation_flag(PREFER_CPU)"],
    "the error is about the value, not an attribute of it": ["SessionOptions.add_external_initializers(['a'], [1])"],
})
#: Values that a program may assign to an attribute.
VALUES = [
    True, False, 0, 1, 2, -1, 7, 2**31, -(2**40), 2.5, 1.0, "a", "", None, b"x", [], {}, np.int64(1), np.float32(1),
    np.bool_(True), pathlib.Path("a"), lambda package: package.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    lambda package: package.ExecutionMode.ORT_PARALLEL, lambda package: package.ExecutionOrder.PRIORITY_BASED,
    lambda package: package.OrtExecutionProviderDevicePolicy.PREFER_CPU,
]


def attribute_case(kind, attribute, value):
    def call(package):
        thing = getattr(package, kind)()
        setattr(thing, attribute, of(package, value))
        return getattr(thing, attribute)

    name = value.__code__.co_names[-1] if callable(value) else repr(value)
    CASES.add(f"{kind}.{attribute} = {name}", call)


#: Arguments that a program may pass to a method.
ARGUMENTS = [
    (), ("a",), ("a", "b"), (1,), ("a", 1), ("a", 2.5), ("a", -1), ("", ""), ("a", "b", "c"), (True,), (False,), ([], []),
    (["a"], [1]), ([], [], []), ("a", {}), ([], {}), (b"a", b"b"), ("a", 2**40), ("k" * 2000, "v"), ("k", "v" * 9000),
    ("CPUExecutionProvider", {}), ("CPUExecutionProvider", {"a": "b"}), ("CPUExecutionProvider", {"a": 1}), (len,),
    ("/nowhere.so",), (["a"], [b"1"], [1]), (["a"], [b"1"], ["1"]), (None,), (2.5,),
    (lambda package: package.OrtExecutionProviderDevicePolicy.PREFER_CPU,),
]


def method_case(kind, method, arguments):
    def call(package):
        own = [of(package, it) if it is not len else it for it in arguments]
        return getattr(getattr(package, kind)(), method)(*own)

    text = ", ".join(it.__code__.co_names[-1] if hasattr(it, "__code__") else f"{it!r:.40}" for it in arguments)
    CASES.add(f"{kind}.{method}({text})", call)


for _kind in ("SessionOptions", "RunOptions"):
    _thing = getattr(onnxruntime, _kind)()
    for _name in dir(_thing):
        # Of None, onnxruntime makes an adapter at address 0; test_adapters.py has the others.
        if _name.startswith("_") or _name == "add_active_adapter":
            continue
        if not callable(getattr(_thing, _name)):
            for _value in VALUES:
                attribute_case(_kind, _name, _value)
        else:
            for _arguments in ARGUMENTS:
                # onnxruntime converts None to a string, which crashes the process.
                if _arguments != (None,) or not ("entry" in _name or "library" in _name):
                    method_case(_kind, _name, _arguments)


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_in_onnxruntime(name):
    CASES.compare(name)


def test_every_difference_is_a_case():
    assert [name for name in CASES.different if name not in CASES] == []
