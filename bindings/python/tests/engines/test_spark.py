"""Spark on this machine."""

import os
import shutil
import signal
import sys

import numpy as np
import pytest
from inputs import MODEL, N_ROWS, OUTPUT, SHAPE, check, expected, kill_once, pixels

pyspark = pytest.importorskip("pyspark")
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402, N812

from ort_rs.spark import mapper, udf  # noqa: E402

pytestmark = pytest.mark.skipif(not shutil.which("java"), reason="needs java")


@pytest.fixture(scope="module")
def wanted():
    return expected()


@pytest.fixture(scope="module")
def spark():
    here = os.path.dirname(__file__)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # A failed task is tried again, as on a cluster.
    builder = SparkSession.builder.master("local[2, 4]").appName("ort_rs").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "128").config("spark.driver.host", "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def rows(spark, n_rows=N_ROWS):
    """Rows of a number and its flattened pixels, which the workers make."""
    import pyarrow as pa

    def make(batches):
        for batch in batches:
            ids = batch.column("id").to_numpy()
            x = pa.FixedSizeListArray.from_arrays(pa.array(pixels(ids).reshape(-1)), int(np.prod(SHAPE)))
            yield pa.RecordBatch.from_pydict({"id": batch.column("id"), "x": x.cast(pa.list_(pa.float32()))})

    return spark.range(0, n_rows, 1, 4).mapInArrow(make, "id long, x array<float>")


#: The shape of the flat lists.
SHAPES = {"x": SHAPE}


def collected(frame):
    made = frame.toPandas()
    return made["id"].to_numpy(), np.stack(list(made["y"]))


@pytest.mark.parametrize("distribute", [False, True])
def test_a_udf_gives_the_results_of_one_process(spark, wanted, tmp_path, distribute):
    score = udf(MODEL, "array<float>", output_name=OUTPUT, cache_dir=tmp_path / "node", shapes=SHAPES, distribute=distribute)
    check(*collected(rows(spark).select("id", score("x").alias("y"))), wanted)
    assert len([name for name in os.listdir(tmp_path / "node") if name.endswith(".ort")]) == 1


def test_an_output_of_one_element_is_a_number(spark, tmp_path):
    from conftest import FLOAT, model_of
    from onnx import helper

    node = helper.make_node("Sub", ["a", "b"], ["y"])
    shape = ["n", 1]
    path = tmp_path / "sub.onnx"
    path.write_bytes(model_of([node], [("a", FLOAT, shape), ("b", FLOAT, shape)], [("y", FLOAT, shape)]))
    frame = spark.createDataFrame([(1.0, 2.0), (5.0, 3.0)], "p float, q float").coalesce(1)
    for names, found in ((None, [-1.0, 2.0]), (["b", "a"], [1.0, -2.0])):
        score = udf(path, "float", input_names=names, cache_dir=tmp_path / "node")
        assert [row["y"] for row in frame.select(score("p", "q").alias("y")).collect()] == found
    with pytest.raises(Exception, match="'c': not an input; the inputs are a, b"):
        frame.select(udf(path, "float", input_names=["c"], cache_dir=tmp_path / "node")("p")).collect()


def test_a_mapper_gives_the_results_of_one_process(spark, wanted, tmp_path):
    run = mapper(MODEL, output_names={OUTPUT: "y"}, cache_dir=tmp_path / "node", shapes=SHAPES)
    check(*collected(rows(spark).mapInArrow(run, "id long, y array<float>")), wanted)


def test_a_worker_loads_the_model_once(spark, tmp_path):
    run = mapper(MODEL, output_names={OUTPUT: "y"}, cache_dir=tmp_path / "node", shapes=SHAPES)

    def observed(batches):
        import pyarrow as pa

        from ort_rs import _recipe

        for batch in run(batches):
            (session,) = _recipe._reopened.sessions.values()
            facts = [f"{os.getpid()} {id(session._sess)} {session.get_session_options().intra_op_num_threads}"] * len(batch)
            yield pa.RecordBatch.from_pydict({"facts": facts})

    found = {row["facts"] for row in rows(spark, 1000).mapInArrow(observed, "facts string").distinct().collect()}
    processes = {fact.split()[0] for fact in found}
    assert 1 <= len(processes) == len(found) and {fact.split()[2] for fact in found} == {"1"}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_rows_of_a_killed_worker_are_computed_again(spark, wanted, tmp_path):
    marker, run = str(tmp_path / "killed"), mapper(MODEL, output_names={OUTPUT: "y"}, cache_dir=tmp_path / "node", shapes=SHAPES)

    def killed(batches):
        for i, batch in enumerate(run(batches)):
            if i == 3 or len(batch) < 128:
                kill_once(marker)
            yield batch

    check(*collected(rows(spark).mapInArrow(killed, "id long, y array<float>")), wanted)
    assert os.path.exists(marker)


def test_errors_name_the_column(spark, tmp_path):
    score = udf(MODEL, "array<float>", cache_dir=tmp_path / "node", shapes=SHAPES)
    two = spark.createDataFrame([(0, [0.0]), (1, [1.0, 2.0])], "id long, x array<float>").coalesce(1)
    with pytest.raises(Exception, match="'x': lists of 1 to 2 elements"):
        two.select(score("x")).collect()
    with pytest.raises(Exception, match="'x': 1 of 1 rows are null"):
        spark.range(1).select(score(F.lit(None).cast("array<float>"))).collect()
    with pytest.raises(Exception, match="'columns': 2, but the inputs are x"):
        two.select(score("x", "x")).collect()


def test_a_file_that_changed_is_an_error(spark, tmp_path):
    path = tmp_path / "model.onnx"
    shutil.copy(MODEL, path)
    score = udf(path, "array<float>", shapes=SHAPES, cache_dir=tmp_path / "node")
    with open(path, "ab") as file:
        file.write(b"\x50\x01")
    with pytest.raises(Exception, match="ModelChanged"):
        rows(spark, 10).select(score("x")).collect()
