"""The observable outcome of a call: a result with its type, or the class of an exception."""

from __future__ import annotations

import numpy as np
import onnxruntime

import ort_rs


class Cases(dict):
    """Situations by name, each a function of the package, onnxruntime or ours. `different` lists those in which we
    differ, by reason."""

    def __init__(self, different=()):
        super().__init__()
        self.different = {name: why for why, names in dict(different).items() for name in names}

    def add(self, name, call):
        assert name not in self, name
        self[name] = call

    def compare(self, name):
        """A case that differs must have a reason, and a case that does not must have none."""
        theirs, ours = (outcome(self[name], package) for package in (onnxruntime, ort_rs))
        if name in self.different:
            assert ours != theirs, "it no longer differs"
        else:
            assert ours == theirs


def comparable(found):
    """A form of a result that tests can compare, including its types."""
    if hasattr(type(found), "__members__"):
        return type(found).__name__, int(found)
    if isinstance(found, np.ndarray):
        return found.dtype, found.shape, found.tolist(), found.flags.writeable
    if isinstance(found, (list, tuple)) or type(found).__name__.endswith("Vector"):
        return [comparable(item) for item in found]
    is_plain = isinstance(found, (bool, int, float, str, bytes, dict, type(None)))
    return (type(found).__name__, found) if is_plain else type(found).__name__


def outcome(call, package):
    try:
        return comparable(call(package))
    except Exception as error:
        return f"raises {type(error).__name__}"


def of(package, value):
    """A value; a function creates one of the package's own types."""
    return value(package) if callable(value) else value
