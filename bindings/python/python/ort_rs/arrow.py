"""Arrow columns as inputs and outputs of a session, without copying where types allow.

    import ort_rs.arrow
    outputs = ort_rs.arrow.run(session, batch)          # a RecordBatch to a RecordBatch

A column of `n` rows is an array whose first axis has `n` elements:

====================================================  =====================  =========
Arrow                                                 array                  copied
====================================================  =====================  =========
integers, float16, float32, float64                   ``(n,)``               no
fixed-size list, list of equal lengths, nested        ``(n, size, ...)``     no
fixed-shape tensor (`arrow.fixed_shape_tensor`)       ``(n, *shape)``        no
fixed-size binary                                     ``(n, size)`` uint8    no
bool                                                  ``(n,)`` bool          yes: bits
strings                                               ``(n,)`` objects       yes
dictionary                                            as its values          yes
a column of several chunks                            as its type            yes: joined
====================================================  =====================  =========

Nulls are an error, and so is any other type: both name the column. Arrays that share a column's memory are read-only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ._native import RunOptions
from ._rows import fit, run_rows
from ._session import Session


class ColumnError(ValueError):
    """A column cannot be an input, or an output cannot be a column: `column` and `reason` say which and why."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column, self.reason = column, reason

    def __str__(self) -> str:
        return f"column {self.column!r}: {self.reason}"


def array_of(column: Any, name: str = "") -> np.ndarray:
    """The array of an Arrow array or chunked array; see the table above. ColumnError names the column as `name`."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if column.null_count:
        raise ColumnError(name, f"{column.null_count} of {len(column)} rows are null")
    kind, types = column.type, pa.types
    if isinstance(column, pa.ExtensionArray):
        return _of_extension(column, name)
    if types.is_integer(kind) or types.is_floating(kind):
        return column.to_numpy(zero_copy_only=True)
    if types.is_fixed_size_list(kind):
        return _rows(column.flatten(), len(column), kind.list_size, name)
    if types.is_list(kind) or types.is_large_list(kind):
        return _rows(column.flatten(), len(column), _length(column, name), name)
    if types.is_fixed_size_binary(kind):
        width, data = kind.byte_width, np.frombuffer(column.buffers()[1] or b"", np.uint8)
        return data[column.offset * width :][: len(column) * width].reshape(len(column), width)
    if types.is_dictionary(kind):
        return array_of(column.dictionary_decode(), name)
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column.to_numpy(zero_copy_only=False)
    raise ColumnError(name, f"{kind} is not the type of a tensor's elements")


def _of_extension(column: Any, name: str) -> np.ndarray:
    if isinstance(column, pa.FixedShapeTensorArray):
        if column.storage.flatten().null_count:
            raise ColumnError(name, "elements of its tensors are null")
        return column.to_numpy_ndarray()
    # Tensors of one shape, as those of Ray.
    shape = getattr(column.type, "shape", None)
    if shape is None:
        raise ColumnError(name, f"{column.type} is not the type of a tensor's elements")
    return array_of(column.storage, name).reshape(len(column), *shape)


def _rows(values: Any, n_rows: int, size: int, name: str) -> np.ndarray:
    """Lists of one size, of which `values` are the elements."""
    if values.null_count:
        raise ColumnError(name, f"{values.null_count} elements of its lists are null")
    array = array_of(values, name)
    return array.reshape(n_rows, size, *array.shape[1:])


def _length(column: Any, name: str) -> int:
    lengths = column.value_lengths().to_numpy(zero_copy_only=True)
    if not len(lengths):
        return 0
    if differing := np.flatnonzero(lengths != lengths[0]).tolist():
        row = differing[0]
        raise ColumnError(name, f"row {row} has {lengths[row]} elements, row 0 has {lengths[0]}: pad them to one length")
    return int(lengths[0])


def rows_of(
    batch: Any,
    session: Session,
    columns: Mapping[str, str] | None = None,
    constants: Iterable[str] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, np.ndarray]:
    """The inputs of a session from a record batch or table.

    :param columns: the column of each input, for those not called like it.
    :param constants: the inputs that are no columns.
    :param shapes: the shape of a row of each input, for flat lists; by default the model's, if it is fixed.
    """
    rows, names = {}, batch.schema.names
    for arg in session.get_inputs():
        name = (columns or {}).get(arg.name, arg.name)
        if arg.name in constants:
            continue
        if name not in names:
            raise ColumnError(name, f"there is none for input {arg.name!r}; the columns are {', '.join(names)}")
        rows[arg.name] = fit(array_of(batch.column(name), name), arg, (shapes or {}).get(arg.name))
    return rows


def column_of(array: Any, name: str = "", *, tensors: bool = False) -> Any:
    """An Arrow array of an output, the inverse of :func:`array_of`.

    Arrays of numbers share their memory if they are C-contiguous: one axis as a primitive array, more as
    fixed-size lists, or as fixed-shape tensors with `tensors`. Booleans, strings, sequences and maps are copied.
    """
    if isinstance(array, list):
        return _of_list(array, name)
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        raise ColumnError(name, f"a column has rows, which a {type(array).__name__} without axes has not")
    if array.dtype.kind not in "biufOU":
        raise ColumnError(name, f"Arrow has no type for {array.dtype}")
    if 0 in array.shape[1:]:
        raise ColumnError(name, f"rows of shape {array.shape[1:]} have no elements")
    array = np.ascontiguousarray(array)
    if tensors and array.ndim > 1 and array.dtype.kind in "iuf":
        return pa.FixedShapeTensorArray.from_numpy_ndarray(array)
    column = pa.array(array.reshape(-1), pa.string() if array.dtype.kind in "OU" else None)
    for axis in range(array.ndim - 1, 0, -1):
        column = pa.FixedSizeListArray.from_arrays(column, array.shape[axis])
    return column


def _of_list(items: list[Any], name: str) -> Any:
    try:
        if items and all(isinstance(item, dict) for item in items):
            pairs = [list(item.items()) for item in items]
            keys = pa.array([key for item in pairs for key, _ in item])
            values = pa.array([value for item in pairs for _, value in item])
            return pa.array(pairs, pa.map_(keys.type, values.type))
        return pa.array(items)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as reason:
        raise ColumnError(name, str(reason)) from reason


def batch_of(outputs: Mapping[str, Any], *, tensors: bool = False) -> Any:
    """A record batch with a column for each output; see :func:`column_of`."""
    columns = {name: column_of(array, name, tensors=tensors) for name, array in outputs.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    for name, length in lengths.items():
        if length != (expected := next(iter(lengths.values()))):
            raise ColumnError(name, f"{length} rows, but {expected} in column {next(iter(lengths))!r}")
    return pa.RecordBatch.from_pydict(columns)


def run(
    session: Session,
    batch: Any,
    output_names: Sequence[str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    constants: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    tensors: bool = False,
    run_options: RunOptions | None = None,
) -> Any:
    """Runs a session on the columns of a record batch or table; returns a record batch of the outputs.

    Outputs are one row for each row of the batch. A model whose first dimension is fixed runs on as many rows at a time.

    :param columns: the column of each input, for those not called like it.
    :param constants: inputs that are the same for each row.
    :param shapes: the shape of a row of each input, for flat lists; by default the model's, if it is fixed.
    :param tensors: outputs of several axes become fixed-shape tensors instead of lists.
    """
    rows = rows_of(batch, session, columns, constants or (), shapes)
    return batch_of(run_rows(session, rows, output_names, constants, run_options), tensors=tensors)
