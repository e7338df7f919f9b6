"""FastAPI with onnxruntime, as a service is commonly written: raw tensors in and out, runs on a thread pool.

    uvicorn fastapi_server:app            with MODEL in the environment

The header `inputs` has the name, type and shape of each input as JSON; the body has their elements, one after the other.
"""

from __future__ import annotations

import json
import os

import numpy as np
import onnxruntime
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

app = FastAPI()
session = onnxruntime.InferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])


@app.get("/ready")
def ready() -> dict[str, bool]:
    return {"ready": True}


@app.post("/infer")
async def infer(request: Request) -> Response:
    body, feed, start = await request.body(), {}, 0
    for name, dtype, shape in json.loads(request.headers["inputs"]):
        feed[name] = np.frombuffer(body, dtype, int(np.prod(shape)), start).reshape(shape)
        start += feed[name].nbytes
    outputs = await run_in_threadpool(session.run, None, feed)
    return Response(b"".join(output.tobytes() for output in outputs), media_type="application/octet-stream")
