"""Serves a model with Ray Serve: requests that arrive together run as one batch.

    python ray_serve.py model.onnx [requests]
"""

import sys

import numpy as np
import ray
from ray import serve

from ort_rs.ray import application


def main(model, n_requests):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    # Requests come from this program; leave this out to also serve HTTP.
    serve.start(proxy_location="Disabled")
    handle = serve.run(application(model, max_batch_size=16, batch_wait_timeout_s=0.005))
    requests = [np.full((3, 48, 32), np.sin(i), np.float32) for i in range(n_requests)]
    responses = [handle.predict.remote(x=x) for x in requests]
    outputs = np.stack([next(iter(response.result().values())) for response in responses])
    print(f"{len(outputs)} rows, mean {outputs.mean(axis=0)}")
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100)
