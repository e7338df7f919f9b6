"""FastAPI with onnxruntime, as a service is commonly written: raw tensors in and out, runs on a thread pool.

    uvicorn fastapi_server:app            with MODEL in the environment
"""

from __future__ import annotations

import os

import numpy as np
import onnxruntime
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

app = FastAPI()
session = onnxruntime.InferenceSession(os.environ["MODEL"], providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name


@app.get("/ready")
def ready() -> dict[str, bool]:
    return {"ready": True}


@app.post("/infer")
async def infer(request: Request) -> Response:
    shape = [int(size) for size in request.headers["shape"].split(",")]
    x = np.frombuffer(await request.body(), np.float32).reshape(shape)
    outputs = await run_in_threadpool(session.run, None, {name: x})
    return Response(outputs[0].tobytes(), media_type="application/octet-stream")
