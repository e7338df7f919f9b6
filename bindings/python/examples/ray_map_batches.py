"""Runs a model on a Ray dataset: two actors, which map one packed file.

    python ray_map_batches.py model.onnx [rows]
"""

import sys

import numpy as np
import ray

from ort_rs.ray import Predictor


def images(batch):
    x = np.sin(batch["id"].astype(np.float32)).repeat(3 * 48 * 32).reshape(-1, 3, 48, 32)
    return {"id": batch["id"], "x": x}


def main(model, n_rows):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    rows = ray.data.range(n_rows).map_batches(images, batch_size=128)
    rows = rows.map_batches(Predictor, fn_constructor_args=(model,), concurrency=2, num_cpus=1, batch_size=32)
    parts = list(rows.iter_batches(batch_size=None, batch_format="numpy"))
    outputs = np.concatenate([next(it for name, it in part.items() if name != "id") for part in parts])
    print(f"{len(outputs)} rows, mean {outputs.mean(axis=0)}")
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
