"""The deployment of :func:`ort_rs.ray.application`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

from ._native import InvalidArgument
from ._options import SessionOptions
from ._rows import run_rows
from ._session import InferenceSession
from .ray import session_of

#: numpy's types of ONNX Runtime's names of tensors.
TYPES = {
    "float": "f4", "double": "f8", "float16": "f2", "bool": "?", "string": "O",
    **{f"{kind}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}


class Replica:
    """One session, and the requests that wait for its next batch."""

    def __init__(
        self, model: Any, options: Any, cache_dir: Any, output_names: Any, constants: Any, max_batch_size: int,
        batch_wait_timeout_s: float,
    ) -> None:
        self.session = session_of(model, options and SessionOptions._of_state(options), cache_dir)
        self.names = list(output_names or [arg.name for arg in self.session.get_outputs()])
        self.constants = dict(constants or {})
        batch: Any = self._batch
        batch.set_max_batch_size(max_batch_size)
        batch.set_batch_wait_timeout_s(batch_wait_timeout_s)

    @serve.batch
    async def _batch(self, requests: list[Any]) -> list[Any]:
        return await run_grouped(self.session, requests, self.names, self.constants)

    async def predict(self, **row: Any) -> dict[str, Any]:
        """The outputs for one row; raises what the run raised."""
        result = await self._batch(row)
        if isinstance(result, Exception):
            raise result
        return result

    async def __call__(self, request: Any) -> Any:
        if not isinstance(request, Request):
            return await self.predict(**request)
        try:
            row = row_of(self.session, await request.json())
            result = await self.predict(**row)
        except (ValueError, TypeError, InvalidArgument) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return JSONResponse({name: np.asarray(it).tolist() for name, it in result.items()})


def row_of(session: InferenceSession, body: Any) -> dict[str, np.ndarray]:
    """The inputs of a JSON object, with the types of the model's inputs."""
    if not isinstance(body, dict):
        raise ValueError(f"expected a JSON object of inputs, found {json.dumps(body)[:80]}")
    types = {arg.name: arg.type for arg in session.get_inputs()}
    row = {}
    for name, data in body.items():
        if name not in types:
            raise ValueError(f"{name!r} is not an input; the inputs are {', '.join(types)}")
        kind = types[name].removeprefix("tensor(").removesuffix(")")
        if kind not in TYPES:
            raise ValueError(f"input {name!r} of type {types[name]} cannot be given in JSON")
        row[name] = np.array(data, TYPES[kind])
    return row


async def run_grouped(
    session: InferenceSession, requests: Sequence[Mapping[str, Any]], names: Sequence[str], constants: Mapping[str, Any]
) -> list[Any]:
    """The outputs of each request, or the exception that it causes; requests of one shape run at once."""
    results: list[Any] = [None] * len(requests)
    groups: dict[Any, list[int]] = {}
    rows = [{name: np.asarray(it) for name, it in request.items()} for request in requests]
    for i, row in enumerate(rows):
        key = tuple(sorted((name, it.shape, it.dtype.str) for name, it in row.items()))
        groups.setdefault(key, []).append(i)

    def run(members: Sequence[int]) -> dict[str, Any]:
        stacked = {name: np.stack([rows[i][name] for i in members]) for name in rows[members[0]]}
        return run_rows(session, stacked, names, constants)

    for members in groups.values():
        try:
            made = await asyncio.to_thread(run, members)
            for place, i in enumerate(members):
                results[i] = {name: it[place] for name, it in made.items()}
        except Exception as error:
            for i in members:
                results[i] = error
    return results
