"""Runs a model in a pool of processes: the session is an argument of the tasks.

    python process_pool.py model.onnx [rows]
"""

import concurrent.futures
import functools
import multiprocessing
import sys

import numpy as np

import ort_rs


def run(session, ids):
    x = np.sin(np.asarray(ids, np.float32)).repeat(3 * 48 * 32).reshape(-1, 3, 48, 32)
    return session.run(None, {"x": x})[0]


def main(model, n_rows):
    options = ort_rs.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort_rs.InferenceSession(model, options)
    batches = [range(start, min(start + 32, n_rows)) for start in range(0, n_rows, 32)]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        outputs = np.concatenate(list(pool.map(functools.partial(run, session), batches)))
    print(f"{len(outputs)} rows, mean {outputs.mean(axis=0)}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
