"""KServe's Python server with onnxruntime, as its documentation shows: a class with `load` and `predict`.

    python kserve_server.py --http_port PORT            with MODEL in the environment
"""

from __future__ import annotations

import asyncio
import os

import onnxruntime
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer
from kserve.utils.numpy_codec import from_np_dtype


class OnnxModel(Model):
    """Runs on a thread pool, so that the server's loop goes on."""

    def load(self) -> bool:
        self.session = onnxruntime.InferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])
        self.names = [output.name for output in self.session.get_outputs()]
        self.ready = True
        return True

    async def predict(self, payload: InferRequest, headers=None, response_headers=None) -> InferResponse:
        feed = {given.name: given.as_numpy() for given in payload.inputs}
        results = await asyncio.to_thread(self.session.run, None, feed)
        outputs = []
        for name, result in zip(self.names, results):
            output = InferOutput(name, list(result.shape), from_np_dtype(result.dtype))
            output.set_data_from_numpy(result)
            outputs.append(output)
        return InferResponse(payload.id or "", self.name, outputs, use_binary_outputs=True)


if __name__ == "__main__":
    model = OnnxModel("m")
    model.load()
    ModelServer(workers=1, enable_grpc=False, enable_latency_logging=False, access_log_format="").start([model])
