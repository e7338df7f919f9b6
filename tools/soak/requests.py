"""The requests: each kind is a function that sends one, checks the answer, and returns what became of it."""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import threading
import time
import urllib.request
from pathlib import Path

import grpc
import numpy as np
from conftest import Server, affine, save, slow
from tritonclient.grpc import service_pb2, service_pb2_grpc

ROOT = Path(__file__).resolve().parents[2]
MAX_BODY_MIB = 4
OPTIONS = {
    "--instances": 2,
    "--max-queue": 4,
    "--max-time": 5,
    "--max-body-mib": MAX_BODY_MIB,
    "--max-requests-mib": 64,
    "--max-batch": 4,
    "--max-batch-delay": 500,
}
#: Trips of the model `slow`: a run that a test waits for, and one that ends only when it is cancelled.
SHORT, FOREVER = 5000, 2**50
#: Statuses that no request may have.
BUGS = {500, "INTERNAL", "UNKNOWN", "DATA_LOSS"}
OUTCOMES = {200: "answered", "OK": "answered", 429: "rejected", "RESOURCE_EXHAUSTED": "rejected", 504: "late", "DEADLINE_EXCEEDED": "late"}
W = np.arange(12, dtype=np.float32).reshape(3, 4)


def started(folder: Path) -> tuple[Server, Target]:
    """A server with two small models and one of the repository."""
    models = folder / "models"
    save(models, "affine", affine())
    save(models, "slow", slow())
    (models / "ppocr_cls").mkdir()
    (models / "ppocr_cls" / "model.onnx").symlink_to(ROOT / "models" / "ppocr_cls" / "model.onnx")
    options = [part for option in OPTIONS.items() for part in map(str, option)]
    server = Server(models, *options)
    return server, Target(server)


class Target:
    """The addresses of the server, and the answers that it must give."""

    def __init__(self, server: Server):
        host, self.http_port = server.http_address.split(":")
        self.host, self.http_port = host, int(self.http_port)
        self.grpc_address, self.grpc_port = server.grpc_address, int(server.grpc_address.split(":")[1])
        self.images: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def warm_up(self) -> None:
        """Each shape of the images once: the server keeps what it knows of them."""
        generator = np.random.default_rng(0)
        with Client(self, 0) as client:
            for rows in (1, 2, 3):
                for width in (96, 160, 192):
                    x = generator.random((rows, 3, 48, width), np.float32)
                    outcome, outputs = client.call("ppocr_cls", {"x": x})
                    assert outcome == "answered", outcome
                    self.images[rows, width] = x, next(iter(outputs.values()))

    def metric(self, name: str, label: str = "") -> int:
        """The sum of a metric."""
        page = urllib.request.urlopen(f"http://{self.host}:{self.http_port}/metrics").read().decode()
        lines = [line for line in page.splitlines() if re.match(rf"{name}[ {{]", line) and label in line]
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines)


class Client:
    """A client with a connection of each protocol."""

    def __init__(self, target: Target, seed: int):
        self.target, self.random = target, random.Random(seed)
        self.http = http.client.HTTPConnection(target.host, target.http_port, timeout=300)
        self.used = time.monotonic()
        self.channel = grpc.insecure_channel(target.grpc_address, [("grpc.use_local_subchannel_pool", 1)])
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_) -> None:
        self.http.close()
        self.channel.close()

    def chosen(self):
        # The server closes a connection that has been idle for 30 s.
        if time.monotonic() - self.used > 10:
            self.http.close()
        self.used = time.monotonic()
        return self.random.choice(KINDS)

    def array(self) -> np.ndarray:
        values = [self.random.uniform(-1, 1) for _ in range(3 * self.random.randint(1, 4))]
        return np.array(values, np.float32).reshape(-1, 3)

    def post(self, model: str, body: bytes, **headers: str) -> tuple[int, bytes, http.client.HTTPResponse]:
        self.http.request("POST", f"/v2/models/{model}/infer", body, headers)
        response = self.http.getresponse()
        return response.status, response.read(), response

    def call(self, model: str, inputs: dict[str, np.ndarray], **options) -> tuple[str, dict[str, np.ndarray]]:
        """A call of gRPC: its outcome, and the outputs."""
        try:
            response = self.stub.ModelInfer(message(model, inputs), **options)
        except grpc.RpcError as error:
            return outcome(error.code().name, error.details()), {}
        return "answered", outputs(response)

    def socket(self, port: int) -> socket.socket:
        return socket.create_connection((self.target.host, port), timeout=300)


def message(model: str, inputs: dict[str, np.ndarray], **options) -> service_pb2.ModelInferRequest:
    datatypes = {"float32": "FP32", "int64": "INT64"}
    request = service_pb2.ModelInferRequest(model_name=model, **options)
    for name, array in inputs.items():
        request.inputs.add(name=name, datatype=datatypes[array.dtype.name], shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    return request


def outputs(response: service_pb2.ModelInferResponse) -> dict[str, np.ndarray]:
    raw = zip(response.outputs, response.raw_output_contents)
    return {output.name: np.frombuffer(part, np.float32).reshape(output.shape) for output, part in raw}


def outcome(status: int | str, details: object = "") -> str:
    assert status not in BUGS, f"status {status}: {details}"
    return OUTCOMES.get(status, "invalid")


def check_affine(found: dict[str, np.ndarray], x: np.ndarray) -> None:
    np.testing.assert_array_equal(found["negated"], -x)
    np.testing.assert_allclose(found["y"], x @ W, rtol=1e-5, atol=1e-6)


def json_request(x: np.ndarray, **parameters: int) -> bytes:
    given = {"name": "x", "shape": x.shape, "datatype": "FP32", "data": x.ravel().tolist()}
    return json.dumps({"inputs": [given], "parameters": parameters}).encode()


def raw_request(x: np.ndarray) -> tuple[bytes, dict[str, str]]:
    given = {"name": "x", "shape": x.shape, "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}
    head = json.dumps({"inputs": [given], "parameters": {"binary_data_output": True}}).encode()
    return head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def trips(n: int) -> dict[str, np.ndarray]:
    return {"trips": np.array([n], np.int64)}


def valid_json(client: Client) -> str:
    """Valid, in JSON."""
    x = client.array()
    status, body, _ = client.post("affine", json_request(x))
    if status == 200:
        found = {it["name"]: np.array(it["data"], np.float32).reshape(it["shape"]) for it in json.loads(body)["outputs"]}
        check_affine(found, x)
    return outcome(status, body)


def valid_raw(client: Client) -> str:
    """Valid, raw over HTTP."""
    x = client.array()
    body, headers = raw_request(x)
    status, body, response = client.post("affine", body, **headers)
    if status == 200:
        length = int(response.headers["Inference-Header-Content-Length"])
        found, start = {}, length
        for output in json.loads(body[:length])["outputs"]:
            n = output["parameters"]["binary_data_size"]
            found[output["name"]] = np.frombuffer(body[start : start + n], np.float32).reshape(output["shape"])
            start += n
        check_affine(found, x)
    return outcome(status, body)


def valid_grpc(client: Client) -> str:
    """Valid, over gRPC."""
    x = client.array()
    found, results = client.call("affine", {"x": x})
    if found == "answered":
        check_affine(results, x)
    return found


def valid_image(client: Client) -> str:
    """Valid, of a model of the repository."""
    x, expected = client.target.images[client.random.choice(list(client.target.images))]
    found, results = client.call("ppocr_cls", {"x": x})
    if found == "answered":
        np.testing.assert_allclose(next(iter(results.values())), expected, rtol=1e-4, atol=1e-5)
    return found


def stream(client: Client) -> str:
    """A stream of five, two of them invalid."""
    x = client.array()
    requests = [message("affine", {"x": x}, id=str(i)) for i in range(3)]
    requests.insert(1, message("none", {"x": x}, id="none"))
    requests.insert(3, message("affine", {"x": x[:, :2]}, id="invalid"))
    ids = []
    for answer in client.stub.ModelStreamInfer(iter(requests)):
        ids.append(answer.infer_response.id)
        if not answer.error_message:
            check_affine(outputs(answer.infer_response), x)
        assert answer.error_message or ids[-1].isdigit(), ids
    assert ids == [request.id for request in requests], ids
    return "answered"


def mutated(client: Client, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(client.random.randint(1, 8)):
        at = client.random.randrange(len(changed))
        match client.random.randrange(3):
            case 0:
                changed[at] = client.random.randrange(256)
            case 1:
                del changed[at : at + client.random.randint(1, 20)]
            case _:
                changed[at:at] = client.random.randbytes(client.random.randint(1, 20))
        changed = changed or bytearray(b"{")
    return bytes(changed)


def damaged_http(client: Client) -> str:
    """Damaged messages over HTTP."""
    body, headers = raw_request(client.array()) if client.random.random() < 0.5 else (json_request(client.array()), {})
    status, body, _ = client.post("affine", mutated(client, body), **headers)
    return outcome(status, body)


def damaged_grpc(client: Client) -> str:
    """Damaged messages over gRPC."""
    body = mutated(client, message("affine", {"x": client.array()}).SerializeToString())
    method = client.random.choice(["ModelInfer", "ModelStreamInfer"])
    path = f"/inference.GRPCInferenceService/{method}"
    try:
        if method == "ModelInfer":
            client.channel.unary_unary(path)(body)
        else:
            list(client.channel.stream_stream(path)(iter([body, body])))
    except grpc.RpcError as error:
        return outcome(error.code().name, error.details())
    return "answered"


def random_bytes(client: Client) -> str:
    """Random bytes instead of a protocol."""
    port = client.random.choice([client.target.http_port, client.target.grpc_port])
    with client.socket(port) as connection:
        try:
            connection.sendall(client.random.randbytes(client.random.randint(1, 10_000)))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        except OSError:
            # The server has closed it already.
            pass
    return "closed"


def truncated(client: Client) -> str:
    """Truncated: the client closes in the middle."""
    body = json_request(client.array())
    head = f"POST /v2/models/affine/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    sent = head + body
    with client.socket(client.target.http_port) as connection:
        connection.sendall(sent[: client.random.randrange(1, len(sent))])
    return "closed"


def aborted(client: Client) -> str:
    """Aborted while they run."""
    if client.random.random() < 0.5:
        call = client.stub.ModelInfer.future(message("slow", trips(FOREVER)))
        done = threading.Event()
        call.add_done_callback(lambda _: done.set())
        done.wait(0.02)
        call.cancel()
    else:
        given = {"name": "trips", "shape": [1], "datatype": "INT64", "data": [FOREVER]}
        body = json.dumps({"inputs": [given]}).encode()
        head = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with client.socket(client.target.http_port) as connection:
            connection.sendall(head + body)
            connection.settimeout(0.02)
            try:
                connection.recv(1)
            except TimeoutError:
                pass
    return "closed"


def late(client: Client) -> str:
    """Late."""
    found, _ = client.call("slow", trips(FOREVER), timeout=0.05)
    assert found in ("late", "rejected"), found
    return found


def too_large(client: Client) -> str:
    """Too large."""
    n_rows = (MAX_BODY_MIB << 20) // 12 + 1
    if client.random.random() < 0.5:
        found, _ = client.call("affine", {"x": np.zeros((n_rows, 3), np.float32)})
        assert found == "rejected", found
        return "invalid"
    with client.socket(client.target.http_port) as connection:
        head = f"POST /v2/models/affine/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {n_rows * 12}\r\n\r\n"
        connection.sendall(head.encode())
        status = int(connection.recv(1 << 16).split()[1])
    assert status == 413, status
    return "invalid"


def burst(client: Client) -> str:
    """More at once than the queue holds."""
    calls = [client.stub.ModelInfer.future(message("slow", trips(SHORT))) for _ in range(20)]
    found = []
    for call in calls:
        error = call.exception()
        found.append(outcome(error.code().name, error.details()) if error else "answered")
        if not error:
            np.testing.assert_array_equal(outputs(call.result())["v"], [1, 1])
    assert set(found) <= {"answered", "rejected", "late"}, found
    return "rejected" if "rejected" in found else "answered"


def report(client: Client) -> str:
    """Metrics, statistics, configurations."""
    path = client.random.choice(["/metrics", "/v2/models/stats", "/v2/models/affine/config", "/v2/models/slow", "/v2/health/ready"])
    client.http.request("GET", path)
    response = client.http.getresponse()
    body = response.read()
    assert response.status == 200, (path, response.status, body)
    return "answered"


KINDS = [
    valid_json, valid_raw, valid_grpc, valid_image, stream, damaged_http, damaged_grpc, random_bytes, truncated, aborted, late,
    too_large, burst, report,
]
