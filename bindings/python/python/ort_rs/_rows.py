"""Runs of a session on rows: each input is an array whose first axis numbers them, and so is each output."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._native import NodeArg, RunOptions
from ._session import Session


class RowError(ValueError):
    """Inputs or outputs are not rows: `name` and `reason` say which and why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"{self.name!r}: {self.reason}"


def fit(array: np.ndarray, arg: NodeArg, shape: Sequence[int] | None = None) -> np.ndarray:
    """A view of the rows with a shape; by default with the input's dimensions after the first, if these are fixed and
    have as many elements. RowError if the rows have another number of elements than the shape."""
    tail = tuple(size for size in arg.shape[1:] if isinstance(size, int)) if shape is None else tuple(shape)
    is_fixed = len(arg.shape) == len(tail) + 1
    has_as_many = math.prod(tail) == math.prod(array.shape[1:])
    if shape is not None and not has_as_many:
        raise RowError(arg.name, f"rows of shape {array.shape[1:]} cannot have the shape {tail}")
    return array.reshape(len(array), *tail) if has_as_many and (is_fixed or shape is not None) else array


def run_rows(
    session: Session,
    rows: Mapping[str, np.ndarray],
    output_names: Sequence[str] | None = None,
    constants: Mapping[str, Any] | None = None,
    run_options: RunOptions | None = None,
) -> dict[str, Any]:
    """The outputs for some rows, by name: arrays and lists of as many rows.

    If the model fixes its first dimension, it runs on as many rows at a time; the last of them are repeated to fill
    the last run, and their outputs dropped. `constants` are inputs that are the same in each run.
    """
    names = list(output_names or [arg.name for arg in session.get_outputs()])
    n_rows = n_rows_of(rows)
    size = _fixed_rows(session, rows)
    if size in (None, n_rows):
        return _checked(names, session.run(names, {**rows, **(constants or {})}, run_options), n_rows)
    parts = []
    for start in range(0, max(n_rows, 1), size):
        feed = {name: _filled(array[start : start + size], size) for name, array in rows.items()}
        made = _checked(names, session.run(names, {**feed, **(constants or {})}, run_options), size)
        parts.append({name: it[: n_rows - start] for name, it in made.items()})
    return {name: _joined([part[name] for part in parts]) for name in names}


def n_rows_of(rows: Mapping[str, np.ndarray]) -> int:
    """The number of rows, of which every input has as many."""
    first, n_rows = "", -1
    for name, array in rows.items():
        if array.ndim == 0:
            raise RowError(name, "an input of rows has at least one axis")
        if n_rows < 0:
            first, n_rows = name, len(array)
        elif len(array) != n_rows:
            raise RowError(name, f"{len(array)} rows, but {n_rows} in {first!r}")
    if n_rows < 0:
        raise RowError("inputs", "there are none with rows")
    return n_rows


def _fixed_rows(session: Session, rows: Mapping[str, np.ndarray]) -> int | None:
    """The first dimension of the inputs, if the model fixes it and it is not zero."""
    sizes = {arg.shape[0] for arg in session.get_inputs() if arg.name in rows and arg.shape}
    fixed = [size for size in sizes if isinstance(size, int) and size > 0]
    return fixed[0] if len(fixed) == len(sizes) == 1 else None


def _filled(array: np.ndarray, size: int) -> np.ndarray:
    if not len(array):
        return np.zeros((size, *array.shape[1:]), array.dtype)
    missing = size - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], list):
        return [item for part in parts for item in part]
    return np.concatenate(parts)


def _checked(names: Sequence[str], results: Sequence[Any], n_rows: int) -> dict[str, Any]:
    for name, result in zip(names, results):
        has_rows = isinstance(result, list) or (isinstance(result, np.ndarray) and result.ndim > 0)
        if not has_rows or len(result) != n_rows:
            found = f"{len(result)} rows" if has_rows else "no rows"
            raise RowError(name, f"{found}, but {n_rows} in the inputs")
    return dict(zip(names, results))
