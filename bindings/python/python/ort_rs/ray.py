"""Models in Ray: batches of a dataset, and a Serve application.

    dataset.map_batches(
        ort_rs.ray.Predictor, fn_constructor_args=("model.onnx",), concurrency=4, num_cpus=1, batch_size=32
    )
    serve.run(ort_rs.ray.application("model.onnx", max_batch_size=32))

The model is a path that all nodes see, its bytes, or a `ray.ObjectRef` of its bytes. Each node has one file of it and one
packed file, written by the first actor that needs them; all actors of the node map these. An actor computes on as many
threads as it has CPUs (`num_cpus`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import ray

from ._node import file_of, folder_of
from ._options import SessionOptions, picklable
from ._recipe import Recipe, reopened
from ._rows import RowError, fit, run_rows
from ._session import InferenceSession


def session_of(
    model: Any, sess_options: SessionOptions | None = None, cache_dir: str | os.PathLike[str] | None = None
) -> InferenceSession:
    """The session of this process for a model: see the top of this module.

    `intra_op_num_threads` of the options, if it is not 0, is used instead of the actor's CPUs. `cache_dir` is below the
    folder for temporary files by default.
    """
    folder = folder_of(cache_dir)
    if isinstance(model, ray.ObjectRef):
        path = file_of(folder, model.hex(), lambda: bytes(ray.get(model)))
    elif isinstance(model, bytes):
        path = file_of(folder, hashlib.sha256(model).hexdigest(), lambda: model)
    else:
        path = os.path.abspath(os.fspath(model))
    options = SessionOptions() if sess_options is None else SessionOptions._of_state(picklable(sess_options._state()))
    if options.intra_op_num_threads == 0:
        options.intra_op_num_threads = n_cpus()
    return reopened(Recipe(path, None, ((path, ""),), tuple(options._state().items()), folder, ()))


def n_cpus() -> int:
    """The CPUs of this actor or task, at least 1; 0 outside of both."""
    try:
        assigned = ray.get_runtime_context().get_assigned_resources()
    except AssertionError:
        # The driver has none.
        return 0
    return max(1, int(assigned.get("CPU", 1)))


class Predictor:
    """Runs a model on batches: a class for `Dataset.map_batches`, whose actors create one session each.

    A batch is a dictionary of arrays, an Arrow table or a DataFrame, and so is the result: the columns that are not
    inputs, and the outputs.

    :param output_names: the outputs, and as a dictionary also the names of their columns; all by default.
    :param columns: the column of each input, for those not called like it.
    :param constants: inputs that are the same for each row.
    """

    def __init__(
        self,
        model: Any,
        sess_options: SessionOptions | None = None,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        output_names: Sequence[str] | Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        self.session = session_of(model, sess_options, cache_dir)
        self.constants = dict(constants or {})
        self.inputs = [arg for arg in self.session.get_inputs() if arg.name not in self.constants]
        self.columns = {arg.name: (columns or {}).get(arg.name, arg.name) for arg in self.inputs}
        names = output_names or [arg.name for arg in self.session.get_outputs()]
        self.names = dict(names) if isinstance(names, Mapping) else {name: name for name in names}

    def __call__(self, batch: Any) -> Any:
        if isinstance(batch, dict):
            return self._of_arrays(batch)
        if hasattr(batch, "schema"):
            return self._of_table(batch)
        arrays = self._of_arrays({name: _array_of(batch[name]) for name in batch.columns})
        return type(batch)({name: list(it) if np.ndim(it) > 1 else it for name, it in arrays.items()})

    def _outputs(self, rows: Mapping[str, np.ndarray]) -> dict[str, Any]:
        made = run_rows(self.session, rows, list(self.names), self.constants)
        return {column: made[name] for name, column in self.names.items()}

    def _of_arrays(self, batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
        for name, column in self.columns.items():
            if column not in batch:
                raise RowError(column, f"no column for input {name!r}; the columns are {', '.join(batch)}")
        rows = {arg.name: fit(batch[self.columns[arg.name]], arg) for arg in self.inputs}
        read = set(self.columns.values())
        return {**{name: it for name, it in batch.items() if name not in read}, **self._outputs(rows)}

    def _of_table(self, batch: Any) -> Any:
        from . import arrow

        rows = arrow.rows_of(batch, self.session, self.columns, self.constants)
        read = set(self.columns.values())
        batch = batch.select([name for name in batch.schema.names if name not in read])
        for name, array in self._outputs(rows).items():
            batch = batch.append_column(name, arrow.column_of(array, name, tensors=True))
        return batch


def _array_of(column: Any) -> np.ndarray:
    """A column of a DataFrame, whose cells may be arrays."""
    array = column.to_numpy()
    is_nested = array.dtype == object and len(array) and isinstance(array[0], (np.ndarray, list))
    return np.stack([np.asarray(cell) for cell in array]) if is_nested else array


def application(
    model: Any,
    sess_options: SessionOptions | None = None,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    output_names: Sequence[str] | None = None,
    constants: Mapping[str, Any] | None = None,
    max_batch_size: int = 32,
    batch_wait_timeout_s: float = 0.002,
    **deployment: Any,
) -> Any:
    """A Serve application: requests that arrive within `batch_wait_timeout_s` run as one batch.

    A request is one row: a dictionary of arrays without the first axis, from a handle, or a JSON object over HTTP. The
    response has the same form. Requests of different shapes run in different batches, and an invalid one fails
    alone. `deployment` are the options of `serve.deployment`, such as `num_replicas` and `ray_actor_options`.
    """
    from ray import serve

    from ._serve import Replica

    options = None if sess_options is None else picklable(sess_options._state())
    arguments = (model, options, cache_dir, output_names, constants, max_batch_size, batch_wait_timeout_s)
    deployment.setdefault("name", "ort_rs")
    return serve.deployment(**deployment)(Replica).bind(*arguments)
