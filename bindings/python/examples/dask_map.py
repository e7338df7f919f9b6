"""Runs a model in Dask's workers: the session is an argument of the tasks.

    python dask_map.py model.onnx [rows]
"""

import sys

import numpy as np
from distributed import Client, LocalCluster

import ort_rs


def run(session, start, stop):
    x = np.sin(np.arange(start, stop, dtype=np.float32)).repeat(3 * 48 * 32).reshape(-1, 3, 48, 32)
    return session.run(None, {"x": x})[0]


def main(model, n_rows):
    options = ort_rs.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort_rs.InferenceSession(model, options)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        starts = range(0, n_rows, 32)
        futures = [client.submit(run, session, start, min(start + 32, n_rows)) for start in starts]
        outputs = np.concatenate(client.gather(futures))
    print(f"{len(outputs)} rows, mean {outputs.mean(axis=0)}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
