"""Models in Spark: a pandas UDF, and a function for `mapInArrow`.

    score = ort_rs.spark.udf("model.onnx", returns="array<float>")
    frame.select("id", score("pixels"))

    rows = frame.mapInArrow(ort_rs.spark.mapper("model.onnx"), "id long, y array<float>")

The model is a path that all executors see, or with `distribute` a file that Spark sends to them (`SparkFiles`). Each Python
worker of an executor loads it once and keeps it; the workers of a machine map one packed file. A file that differs from
the driver's raises `ModelChanged`; there is no such check if the driver does not see the path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._node import folder_of
from ._options import SessionOptions, picklable
from ._recipe import Recipe, digest_of, reopened
from ._rows import RowError, fit, run_rows
from ._session import InferenceSession


@dataclass(frozen=True)
class _Source:
    """A model as executors find it."""

    path: str
    digest: str
    is_sent: bool
    options: tuple[tuple[str, Any], ...]
    cache_dir: str | None

    def session(self) -> InferenceSession:
        path = self.path
        if self.is_sent:
            from pyspark import SparkFiles

            path = SparkFiles.get(os.path.basename(path))
        # Executors run as many workers as they have cores.
        options = SessionOptions._of_state(dict(self.options))
        if options.intra_op_num_threads == 0:
            options.intra_op_num_threads = 1
        return reopened(Recipe(path, None, ((path, self.digest),), tuple(options._state().items()), folder_of(self.cache_dir), ()))


def _source_of(model: Any, sess_options: SessionOptions | None, cache_dir: Any, distribute: bool) -> _Source:
    path = os.path.abspath(os.fspath(model))
    if distribute:
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        if spark is None:
            raise RuntimeError("distribute needs an active SparkSession: create it first")
        spark.sparkContext.addFile(path)
    digest = digest_of(path) if os.path.exists(path) else ""
    options = tuple(picklable((sess_options or SessionOptions())._state()).items())
    return _Source(path, digest, distribute, options, None if cache_dir is None else os.path.abspath(os.fspath(cache_dir)))


def udf(
    model: str | os.PathLike[str],
    returns: Any,
    *,
    output_name: str | None = None,
    input_names: Sequence[str] | None = None,
    constants: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    sess_options: SessionOptions | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    distribute: bool = False,
) -> Any:
    """A pandas UDF from the columns of the model's inputs, in the model's order, to its output.

    :param returns: the SQL type of the output, such as `float` or `array<float>`; outputs of more axes are flattened to
        one list a row.
    :param output_name: the output; the first by default.
    :param input_names: the inputs that the columns are, in their order.
    :param constants: inputs that are the same for each row.
    :param shapes: the shape of a row of each input, for flat lists; by default the model's, if it is fixed.
    :param sess_options: `intra_op_num_threads` is 1 unless it is set.
    :param cache_dir: a folder of each machine; below that for temporary files by default.
    :param distribute: sends the file to the executors.
    """
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    source = _source_of(model, sess_options, cache_dir, distribute)
    fixed, sizes = dict(constants or {}), dict(shapes or {})
    has_lists = "array" in str(returns).lower()

    def run(batches: Iterator[Any]) -> Iterator[pd.Series]:
        session = source.session()
        args = [arg for arg in session.get_inputs() if arg.name not in fixed]
        known = {arg.name: arg for arg in args}
        for given in input_names or ():
            if given not in known:
                raise RowError(given, f"not an input; the inputs are {', '.join(known)}")
        args = args if input_names is None else [known[given] for given in input_names]
        name = output_name or session.get_outputs()[0].name
        for columns in batches:
            # Spark passes a single column without a tuple.
            columns = (columns,) if isinstance(columns, pd.Series) else columns
            if len(columns) != len(args):
                raise RowError("columns", f"{len(columns)}, but the inputs are {', '.join(arg.name for arg in args)}")
            rows = {arg.name: fit(_array_of(column, arg.name), arg, sizes.get(arg.name)) for arg, column in zip(args, columns)}
            made = run_rows(session, rows, [name], fixed)[name] if len(columns[0]) else np.zeros(0, np.float32)
            yield pd.Series(_cells_of(made, has_lists))

    run.__annotations__ = {"batches": Iterator[tuple[pd.Series, ...]], "return": Iterator[pd.Series]}
    make: Any = pandas_udf
    return make(run, returns)


def mapper(
    model: str | os.PathLike[str],
    *,
    output_names: Sequence[str] | Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    sess_options: SessionOptions | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    distribute: bool = False,
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for `DataFrame.mapInArrow`: the columns that are not inputs, and the outputs, without copying what
    :mod:`ort_rs.arrow` does not copy.

    :param output_names: the outputs, and as a dictionary also the names of their columns; all by default.
    :param columns: the column of each input, for those not called like it.

    The other parameters are those of :func:`udf`.
    """
    source = _source_of(model, sess_options, cache_dir, distribute)
    fixed, sizes = dict(constants or {}), dict(shapes or {})

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from . import arrow

        session = source.session()
        names = output_names or [arg.name for arg in session.get_outputs()]
        named = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
        for batch in batches:
            if not len(batch):
                continue
            rows = arrow.rows_of(batch, session, columns, fixed, sizes)
            read = {(columns or {}).get(name, name) for name in rows}
            kept = {name: batch.column(name) for name in batch.schema.names if name not in read}
            made = run_rows(session, rows, list(named), fixed)
            outputs = {column: _lists_of(arrow.column_of(made[name], name)) for name, column in named.items()}
            yield pa.RecordBatch.from_pydict({**kept, **outputs})

    return run


def _cells_of(output: Any, has_lists: bool) -> Any:
    """The cells of a column: lists, or single elements."""
    if not isinstance(output, np.ndarray) or output.ndim == 1:
        return output
    return list(output.reshape(len(output), -1)) if has_lists or output[:1].size > 1 else output.reshape(-1)


def _lists_of(column: Any) -> Any:
    """Spark has lists of any length only."""
    import pyarrow as pa

    if not pa.types.is_fixed_size_list(column.type):
        return column
    size = column.type.list_size
    offsets = pa.array(np.arange(0, (len(column) + 1) * size, size, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, _lists_of(column.flatten()))


def _array_of(column: Any, name: str) -> np.ndarray:
    """A column of a DataFrame, whose cells may be arrays of one length."""
    if column.isna().any():
        raise RowError(name, f"{int(column.isna().sum())} of {len(column)} rows are null")
    array = column.to_numpy()
    if array.dtype == object and len(array) and isinstance(array[0], (np.ndarray, list)):
        lengths = {len(cell) for cell in array}
        if len(lengths) > 1:
            raise RowError(name, f"lists of {min(lengths)} to {max(lengths)} elements: pad them to one length")
        return np.stack([np.asarray(cell) for cell in array])
    return array
