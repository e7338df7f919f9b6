"""Arrow columns as inputs and outputs: which share memory, and which are errors."""

import numpy as np
import pytest
from conftest import FLOAT, model_of, unary
from onnx import TensorProto, helper

import ort_rs

pa = pytest.importorskip("pyarrow")
arrow = pytest.importorskip("ort_rs.arrow")

FLAT = np.arange(24, dtype=np.float32)


def lists(array, *sizes):
    """Fixed-size lists of `array`'s elements, the innermost size first."""
    column = pa.array(array)
    for size in sizes:
        column = pa.FixedSizeListArray.from_arrays(column, size)
    return column


def address(array):
    return array.__array_interface__["data"][0]


def data(column):
    """The address of a column's elements, in nested lists the innermost."""
    if isinstance(column, pa.ExtensionArray):
        return data(column.storage)
    while hasattr(column, "flatten") and pa.types.is_nested(column.type):
        column = column.flatten()
    return column.buffers()[1].address + column.offset * column.type.byte_width


SHARED = {
    "float32": (pa.array(FLAT), FLAT),
    "a slice": (pa.array(FLAT)[5:9], FLAT[5:9]),
    "one chunk": (pa.chunked_array([pa.array(FLAT)]), FLAT),
    "lists": (lists(FLAT, 4), FLAT.reshape(6, 4)),
    "a slice of lists": (lists(FLAT, 4)[2:5], FLAT.reshape(6, 4)[2:5]),
    "lists of lists": (lists(FLAT, 4, 3), FLAT.reshape(2, 3, 4)),
    "lists of equal lengths": (pa.ListArray.from_arrays([0, 4, 8, 12], pa.array(FLAT)), FLAT[:12].reshape(3, 4)),
    "a slice of lists of equal lengths": (pa.LargeListArray.from_arrays([0, 4, 8, 12], pa.array(FLAT))[1:], FLAT[4:12].reshape(2, 4)),
    "tensors": (pa.FixedShapeTensorArray.from_numpy_ndarray(FLAT.reshape(2, 3, 4)), FLAT.reshape(2, 3, 4)),
    "a slice of tensors": (pa.FixedShapeTensorArray.from_numpy_ndarray(FLAT.reshape(2, 3, 4))[1:], FLAT.reshape(2, 3, 4)[1:]),
    "bytes of one length": (pa.array([b"abc", b"def"], pa.binary(3)), np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)),
    "a slice of bytes": (pa.array([b"abc", b"def"], pa.binary(3))[1:], np.frombuffer(b"def", np.uint8).reshape(1, 3)),
    **{
        f"{kind}": (pa.array(np.arange(5, dtype=kind)), np.arange(5, dtype=kind))
        for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float64")
    },
}


@pytest.mark.parametrize("what", SHARED)
def test_the_array_of_a_column_shares_its_memory(what):
    column, expected = SHARED[what]
    array = arrow.array_of(column, "x")
    assert array.dtype == expected.dtype and array.shape == expected.shape
    np.testing.assert_array_equal(array, expected)
    inner = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    assert address(array) == data(inner)


COPIED = {
    "bool": (pa.array([True, False, True]), np.array([True, False, True])),
    "strings": (pa.array(["a", "bc"]), np.array(["a", "bc"], object)),
    "large strings": (pa.array(["a", "bc"], pa.large_string()), np.array(["a", "bc"], object)),
    "a dictionary": (pa.array(["a", "b", "a"]).dictionary_encode(), np.array(["a", "b", "a"], object)),
    "chunks": (pa.chunked_array([pa.array(FLAT[:3]), pa.array(FLAT[3:])]), FLAT),
    "chunks of lists": (pa.chunked_array([lists(FLAT[:8], 4), lists(FLAT[8:], 4)]), FLAT.reshape(6, 4)),
    "lists of bools": (lists([True, False, False, True], 2), np.array([[True, False], [False, True]])),
    "no rows": (pa.array([], pa.float32()), FLAT[:0]),
    "no lists": (pa.array([], pa.list_(pa.float32())), FLAT[:0].reshape(0, 0)),
}


@pytest.mark.parametrize("what", COPIED)
def test_other_columns_are_copied(what):
    column, expected = COPIED[what]
    array = arrow.array_of(column, "x")
    assert array.dtype == expected.dtype and array.shape == expected.shape
    np.testing.assert_array_equal(array, expected)


WRONG = {
    "a null": (pa.array([1.0, None, 2.0]), "1 of 3 rows are null"),
    "a null list": (pa.array([[1.0], None], pa.list_(pa.float32(), 1)), "1 of 2 rows are null"),
    "a null in a list": (pa.array([[1.0], [None]], pa.list_(pa.float32(), 1)), "1 elements of its lists are null"),
    "lists of two lengths": (pa.array([[1], [2], [3, 4], []]), "row 2 has 2 elements, row 0 has 1"),
    "times": (pa.array([1], pa.timestamp("s")), r"timestamp\[s\] is not the type"),
    "structs": (pa.array([{"a": 1}]), "struct<a: int64> is not the type"),
    "bytes": (pa.array([b"a"]), "binary is not the type"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_column_that_is_no_input_is_an_error_with_its_name(what):
    column, reason = WRONG[what]
    with pytest.raises(arrow.ColumnError, match=f"column 'x': .*{reason}") as caught:
        arrow.array_of(column, "x")
    assert caught.value.column == "x"


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("shape", [(24,), (6, 4), (2, 3, 4)])
def test_the_column_of_an_array_shares_its_memory_and_back(shape, tensors):
    array = FLAT.reshape(shape)
    column = arrow.column_of(array, "y", tensors=tensors)
    assert isinstance(column, pa.FixedShapeTensorArray) == (tensors and len(shape) > 1)
    assert len(column) == shape[0] and data(column) == address(array)
    again = arrow.array_of(column)
    assert again.shape == shape and address(again) == address(array)


def test_other_outputs_are_copied_or_errors():
    assert arrow.column_of(np.array([True, False])).to_pylist() == [True, False]
    assert arrow.column_of(np.array([["a"], ["b"]], object)).to_pylist() == [["a"], ["b"]]
    assert arrow.column_of([{1: 0.5, 2: 0.5}, {1: 1.0, 2: 0.0}]).to_pylist() == [[(1, 0.5), (2, 0.5)], [(1, 1.0), (2, 0.0)]]
    assert arrow.column_of([np.ones(2), np.ones(1)]).to_pylist() == [[1, 1], [1]]
    turned = FLAT.reshape(6, 4).T
    np.testing.assert_array_equal(arrow.array_of(arrow.column_of(turned)), turned)
    for array in (np.float32(1), np.zeros((2, 0)), np.zeros(2, np.complex64), None):
        with pytest.raises(arrow.ColumnError, match="'y'"):
            arrow.column_of(array, "y")


def test_a_batch_runs_without_copying_inputs():
    session = ort_rs.InferenceSession(model_of(
        [helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, ["n", 2, 2])], [("y", FLOAT, ["n", 2, 2])]
    ))
    # The model's dimensions are those of flat lists, too.
    batch = pa.record_batch({"id": pa.array(range(6)), "pixels": lists(FLAT, 4)})
    feed = arrow.rows_of(batch, session, {"x": "pixels"})
    assert feed["x"].shape == (6, 2, 2) and address(feed["x"]) == data(batch.column("pixels"))
    made = arrow.run(session, batch, columns={"x": "pixels"})
    assert made.schema.names == ["y"] and str(made.schema.field("y").type) == "fixed_size_list<item: fixed_size_list<item: float>[2]>[2]"
    np.testing.assert_array_equal(arrow.array_of(made.column("y")), -FLAT.reshape(6, 2, 2))
    table = pa.Table.from_batches([batch, batch])
    assert arrow.run(session, table, columns={"x": "pixels"}, tensors=True).num_rows == 12
    with pytest.raises(arrow.ColumnError, match="column 'x': there is none for input 'x'; the columns are id, pixels"):
        arrow.rows_of(batch, session)


def test_a_column_of_numbers_is_one_feature():
    session = ort_rs.InferenceSession(unary("Abs", FLOAT, ["n", 1]))
    batch = pa.record_batch({"x": pa.array(-FLAT)})
    assert arrow.array_of(arrow.run(session, batch).column("y")).shape == (24, 1)


def test_constants_are_fed_to_each_batch():
    session = ort_rs.InferenceSession(model_of(
        [helper.make_node("Mul", ["x", "factor"], ["y"])], [("x", FLOAT, ["n"]), ("factor", FLOAT, [])], [("y", FLOAT, ["n"])]
    ))
    made = arrow.run(session, pa.record_batch({"x": pa.array(FLAT)}), constants={"factor": np.array(2, np.float32)})
    np.testing.assert_array_equal(arrow.array_of(made.column("y")), 2 * FLAT)


def test_strings_and_outputs_of_other_lengths():
    session = ort_rs.InferenceSession(unary("Identity", TensorProto.STRING, ["n"]))
    assert arrow.run(session, pa.record_batch({"x": pa.array(["a", "b"])})).column("y").to_pylist() == ["a", "b"]
    total = ort_rs.InferenceSession(unary("ReduceSum", FLOAT, ["n"], keepdims=1))
    with pytest.raises(ValueError, match="'y': 1 rows, but 24 in the inputs"):
        arrow.run(total, pa.record_batch({"x": pa.array(FLAT)}))
    with pytest.raises(arrow.ColumnError, match="column 'b': 3 rows, but 24 in column 'a'"):
        arrow.batch_of({"a": FLAT, "b": FLAT[:3]})
