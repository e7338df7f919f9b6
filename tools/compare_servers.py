#!/usr/bin/env python3
"""Measures ort-server beside FastAPI + onnxruntime (uvicorn): latency and throughput with several clients.

    cargo build --release -p ort-server
    python3 tools/compare_servers.py [--model models/ppocr_cls/model.onnx --shape 1,3,48,192] [--clients 8] [--seconds 5]

Both run the same model in one process on all cores and exchange raw float tensors over HTTP/1.1 on kept connections. The
clients are threads with prepared messages. Rounds of the servers alternate; of each, the round with the highest throughput
counts. Outputs are compared first. `--batch N` lets ort-server join requests.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import environment

environment.enter("requirements-servers.txt", "venv-servers")

import numpy as np

ROOT = environment.TOOLS.parent


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

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def memory(self) -> float:
        """Resident MiB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def exchange(connection: socket.socket, message: bytes) -> bytes:
    """Sends a request, and returns the body of the response."""
    connection.sendall(message)
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += connection.recv(1 << 16)
    head = received[:end].lower()
    if not head.startswith(b"http/1.1 200"):
        raise RuntimeError(received.decode(errors="replace"))
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    while len(received) < end + 4 + length:
        received += connection.recv(1 << 16)
    return received[end + 4 :]


def load(peer: Peer, n_clients: int, seconds: float) -> list[float]:
    """The latencies of all requests that clients send one after the other."""
    latencies, end = [], time.perf_counter() + seconds

    def client() -> None:
        with peer.connect() as connection:
            start = time.perf_counter()
            while start < end:
                exchange(connection, peer.message)
                now = time.perf_counter()
                latencies.append(now - start)
                start = now

    threads = [threading.Thread(target=client) for _ in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies


def post(path: str, headers: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=ROOT / "models/ppocr_cls/model.onnx")
    parser.add_argument("--shape", default="1,3,48,192", help="of the model's one input, of floats")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=1, help="the maximum batch of ort-server")
    parser.add_argument("--program", default=str(ROOT / "target/release/ort-server"))
    arguments = parser.parse_args()

    import onnxruntime

    shape = [int(size) for size in arguments.shape.split(",")]
    x = np.random.default_rng(0).random(shape, np.float32)
    session = onnxruntime.InferenceSession(arguments.model, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    output = session.get_outputs()[0].name
    expected = session.run([output], {name: x})[0]
    del session

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "m").mkdir()
        (Path(folder) / "m" / f"model{arguments.model.suffix}").symlink_to(arguments.model.resolve())
        given = {"name": name, "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}
        wanted = {"name": output, "parameters": {"binary_data": True}}
        head = json.dumps({"inputs": [given], "outputs": [wanted]}).encode()
        message = post("/v2/models/m/infer", f"Inference-Header-Content-Length: {len(head)}\r\n", head + x.tobytes())
        command = [arguments.program, "--model-repository", folder, "--host", "127.0.0.1", "--http-port", "PORT"]
        command += ["--grpc-port", "0", "--max-batch", str(arguments.batch)]
        ours = Peer("ort-server", command, "/v2/health/ready", message)
        command = [sys.executable, "-m", "uvicorn", "fastapi_server:app", "--port", "PORT", "--log-level", "warning"]
        message = post("/infer", f"shape: {arguments.shape}\r\n", x.tobytes())
        options = {"cwd": environment.TOOLS / "peers", "env": {**os.environ, "MODEL": str(arguments.model.resolve())}}
        theirs = Peer("FastAPI + onnxruntime", command, "/ready", message, **options)
        try:
            for peer in (ours, theirs):
                with peer.connect() as connection:
                    found = np.frombuffer(exchange(connection, peer.message)[-expected.nbytes :], np.float32)
                np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-3, atol=1e-5)
                load(peer, arguments.clients, min(1, arguments.seconds))
            for _ in range(arguments.rounds):
                for peer in (ours, theirs):
                    peer.rounds.append(load(peer, arguments.clients, arguments.seconds))
            report([ours, theirs], arguments.seconds)
        finally:
            for peer in (ours, theirs):
                peer.process.terminate()
    return 0


def report(peers: list[Peer], seconds: float) -> None:
    print(f"{'':24} {'p50 ms':>8} {'p99 ms':>8} {'requests/s':>11} {'MiB':>7}")
    for peer in peers:
        best = max(peer.rounds, key=len)
        p50, p99 = np.percentile(best, [50, 99]) * 1e3
        print(f"{peer.name:24} {p50:8.2f} {p99:8.2f} {len(best) / seconds:11.1f} {peer.memory():7.0f}")
    ours, theirs = (max(map(len, peer.rounds)) for peer in peers)
    print(f"throughput: {ours / theirs:.2f}x")


if __name__ == "__main__":
    sys.exit(main())
