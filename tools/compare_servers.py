#!/usr/bin/env python3
"""Compares ort-server with FastAPI + onnxruntime (uvicorn) and KServe's Python server + onnxruntime: latency and throughput.

    cargo build --release -p ort-server
    python3 tools/compare_servers.py [--cases ppocr_cls,magika] [--clients 8] [--seconds 3] [--update docs/server.md]

All run the same model in one process on all cores, and exchange raw tensors over HTTP/1.1 on kept connections, one row per request.
Rounds of the servers alternate; of each, the round with the highest throughput counts. Outputs are compared first. `--batch N`
lets ort-server join requests. Models that `make_models.py` has not written are omitted.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import environment

environment.enter("requirements-servers.txt", "venv-servers")

import numpy as np

from engines.work import CASES
from peers import http_load, machine, report

ROOT = environment.TOOLS.parent
#: The protocol's names of the types.
DATATYPES = {"float32": "FP32", "int32": "INT32", "int64": "INT64"}


class Peer:
    """A server: its process, and the message that its clients send."""

    def __init__(self, name: str, command: list[str], ready: str, message: bytes, **options):
        self.name, self.message, self.rounds = name, message, []
        self.port = free_port()
        command = [part.replace("PORT", str(self.port)) for part in command]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}{ready}").close()
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"{name} ended with {self.process.returncode}")
                time.sleep(0.05)

    def memory(self) -> float:
        """Resident MiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def servers(args: argparse.Namespace, path: Path, feed: dict[str, np.ndarray], folder: str) -> list[Peer]:
    """The three servers of a model, which are ready."""
    (Path(folder) / "m").mkdir()
    (Path(folder) / "m" / f"model{path.suffix}").symlink_to(path.resolve())
    body = b"".join(array.tobytes() for array in feed.values())
    inputs = [
        {"name": name, "shape": array.shape, "datatype": DATATYPES[array.dtype.name], "parameters": {"binary_data_size": array.nbytes}}
        for name, array in feed.items()
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    length = f"Inference-Header-Content-Length: {len(head)}\r\nContent-Type: application/octet-stream\r\n"
    message = http_load.post("/v2/models/m/infer", length, head + body)
    options = {"cwd": environment.TOOLS / "peers", "env": {**os.environ, "MODEL": str(path.resolve())}}
    program = [args.program, "--model-repository", folder, "--host", "127.0.0.1", "--http-port", "PORT", "--grpc-port", "0"]
    program += ["--max-batch", str(args.batch)]
    fastapi = [sys.executable, "-m", "uvicorn", "fastapi_server:app", "--port", "PORT", "--log-level", "warning"]
    described = json.dumps([[name, array.dtype.name, array.shape] for name, array in feed.items()])
    kserve = [sys.executable, "kserve_server.py", "--http_port", "PORT"]
    return [
        Peer("ort-server", program, "/v2/health/ready", message),
        Peer("FastAPI", fastapi, "/ready", http_load.post("/infer", f"inputs: {described}\r\n", body), **options),
        Peer("KServe", kserve, "/v2/health/ready", message, **options),
    ]


def measured(args: argparse.Namespace, case: str, folder: str) -> list[list[str]]:
    import onnxruntime

    path, makers, _ = CASES[case]
    feed = {name: rows([1]) for name, rows in makers.items()}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(None, feed)
    del session
    peers = servers(args, path, feed, folder)
    try:
        for peer in peers:
            check(peer, expected)
            http_load.load(peer.port, peer.message, args.clients, min(1, args.seconds))
        for _ in range(args.rounds):
            for peer in peers:
                peer.rounds.append(http_load.load(peer.port, peer.message, args.clients, args.seconds))
        return lines(case, peers, args.seconds)
    finally:
        for peer in peers:
            peer.process.terminate()


def check(peer: Peer, expected: list[np.ndarray]) -> None:
    body = http_load.exchange(peer.port, peer.message)
    raw = body[len(body) - sum(output.nbytes for output in expected) :]
    for output in expected:
        found = np.frombuffer(raw, output.dtype, output.size).reshape(output.shape)
        np.testing.assert_allclose(found, output, rtol=2e-3, atol=2e-4, err_msg=peer.name)
        raw = raw[output.nbytes :]


def lines(case: str, peers: list[Peer], seconds: float) -> list[list[str]]:
    found, ours = [], max(map(len, peers[0].rounds))
    for peer in peers:
        best = max(peer.rounds, key=len)
        if not best:
            sys.exit(f"{case}: {peer.name} answered no request in a round")
        p50, p99 = np.percentile(best, [50, 99]) * 1e3
        numbers = [f"{p50:.2f}", f"{p99:.2f}", f"{len(best) / seconds:.0f}", f"{ours / len(best):.2f}", f"{peer.memory():.0f}"]
        found.append([case, peer.name, *numbers])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="ppocr_cls,magika,mobilenetv2,resnet50,minilm")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=1, help="the maximum batch of ort-server")
    parser.add_argument("--program", default=str(ROOT / "target/release/ort-server"))
    parser.add_argument("--update", type=Path, metavar="FILE", help="a document to update")
    args = parser.parse_args()
    table = [["model", "server", "p50 ms", "p99 ms", "requests/s", "ort-server's throughput is", "MiB"]]
    for case in args.cases.split(","):
        if CASES[case][0].exists():
            with tempfile.TemporaryDirectory() as folder:
                table += measured(args, case, folder)
    where = machine.describe(args.program, ["onnxruntime", "fastapi", "uvicorn", "kserve"])
    print(where, report.as_text(table), sep="\n\n")
    if args.update:
        report.update(args.update, "servers", report.section(where, report.as_markdown(table)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
