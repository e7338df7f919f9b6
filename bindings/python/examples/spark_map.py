"""Runs a model on a Spark data frame, in Arrow batches.

    python spark_map.py model.onnx [rows]
"""

import os
import sys

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from ort_rs.spark import mapper


def images(batches):
    for batch in batches:
        x = np.sin(batch.column("id").to_numpy().astype(np.float32)).repeat(3 * 48 * 32)
        lists = pa.ListArray.from_arrays(np.arange(0, len(x) + 1, 3 * 48 * 32, dtype=np.int32), pa.array(x))
        yield pa.RecordBatch.from_pydict({"id": batch.column("id"), "x": lists})


def main(model, n_rows):
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    rows = spark.range(n_rows).mapInArrow(images, "id long, x array<float>")
    # The lists are flat, and the model's height and width are free.
    run = mapper(model, output_names={"save_infer_model/scale_0.tmp_1": "y"}, shapes={"x": (3, 48, 32)})
    outputs = np.stack(rows.mapInArrow(run, "id long, y array<float>").toPandas()["y"].to_list())
    print(f"{len(outputs)} rows, mean {outputs.mean(axis=0)}")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
