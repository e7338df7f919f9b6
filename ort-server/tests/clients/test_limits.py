"""Overload, damaged messages, deadlines, TLS and shutdown."""

import datetime
import http.client
import random
import socket
import ssl
import struct
import threading
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from conftest import Server, affine_inputs

FOREVER = 2**50


def trips(module, n):
    given = module.InferInput("trips", [1], "INT64")
    given.set_data_from_numpy(np.array([n], np.int64))
    return [given]


def metric(server, name):
    connection = http.client.HTTPConnection(server.http_address)
    connection.request("GET", "/metrics")
    page = connection.getresponse().read().decode()
    connection.close()
    return next(int(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name))


def wait_for(server, name, value):
    while metric(server, name) != value:
        time.sleep(0.01)


def test_overload_is_rejected_at_once(folder):
    server = Server(folder, "--instances", "1", "--max-queue", "2")
    pending = 'nv_inference_pending_request_count{model="slow"'
    with server.grpc() as client:
        module = tritonclient.grpc
        running = [client.async_infer("slow", trips(module, FOREVER), lambda *_: None)]
        wait_for(server, "ort_active_requests", 1)
        wait_for(server, pending, 0)
        running += [client.async_infer("slow", trips(module, FOREVER), lambda *_: None) for _ in range(2)]
        wait_for(server, pending, 2)
        for _ in range(50):
            with pytest.raises(InferenceServerException) as error:
                client.infer("slow", trips(module, 1))
            assert error.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
            with server.http() as other, pytest.raises(InferenceServerException) as error:
                other.infer("slow", trips(tritonclient.http, 1))
            assert error.value.status() == "429"
        assert metric(server, 'nv_inference_request_failure{model="slow",version="1",reason="REJECTED"') == 100
        # Calls that are cancelled free their places.
        for call in running:
            call.cancel()
        wait_for(server, "ort_active_requests", 0)
        assert client.infer("slow", trips(module, 4)).as_numpy("v").tolist() == [1, 1]
    assert server.stop() == 0


def test_deadlines(server):
    with server.grpc() as client:
        with pytest.raises(InferenceServerException) as error:
            client.infer("slow", trips(tritonclient.grpc, FOREVER), client_timeout=0.2)
        assert error.value.status() == "StatusCode.DEADLINE_EXCEEDED"
        with pytest.raises(InferenceServerException) as error:
            client.infer("slow", trips(tritonclient.grpc, FOREVER), timeout=100_000)
        assert error.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    with server.http() as client:
        with pytest.raises(InferenceServerException) as error:
            client.infer("slow", trips(tritonclient.http, FOREVER), timeout=100_000)
        assert error.value.status() == "504"
    wait_for(server, "ort_active_requests", 0)


def test_a_message_has_a_maximum_size(folder):
    server = Server(folder, "--max-body-mib", "1")
    x = np.zeros((100_000, 3), np.float32)
    given = tritonclient.grpc.InferInput("x", list(x.shape), "FP32")
    given.set_data_from_numpy(x)
    with server.grpc() as client:
        with pytest.raises(InferenceServerException) as error:
            client.infer("affine", [given])
        assert error.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
        assert error.value.message() == "the message has more than 1048576 bytes"
    assert server.stop() == 0


def test_damaged_messages_get_errors_and_harm_no_one(server):
    """Mutated messages of both protocols, with valid ones between them."""
    seed = random.Random(29)
    x = service_pb2.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1, 3])
    valid = service_pb2.ModelInferRequest(model_name="affine", inputs=[x], raw_input_contents=[struct.pack("<3f", 1, 2, 3)])
    message = valid.SerializeToString()
    body = b'{"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}'

    def damaged(bytes_):
        bytes_ = bytearray(bytes_)
        for _ in range(seed.randint(1, 4)):
            kind, at = seed.randrange(3), seed.randrange(len(bytes_))
            if kind == 0:
                bytes_[at] = seed.randrange(256)
            elif kind == 1:
                del bytes_[at : at + seed.randint(1, 8)]
                bytes_ = bytes_ or bytearray(b"x")
            else:
                bytes_[at:at] = seed.randbytes(seed.randint(1, 8))
        return bytes(bytes_)

    def identity(bytes_):
        return bytes_

    connection = http.client.HTTPConnection(server.http_address)
    with grpc.insecure_channel(server.grpc_address) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", identity, identity)
        for round_ in range(500):
            try:
                infer(damaged(message))
            except grpc.RpcError as error:
                # An unlucky mutation makes the shape or the name of the model another one.
                assert error.code().name in {"INVALID_ARGUMENT", "NOT_FOUND"}, error
            connection.request("POST", "/v2/models/affine/infer", damaged(body))
            reply = connection.getresponse()
            text = reply.read()
            assert reply.status in (200, 400), text
            if round_ % 50 == 0:
                assert service_pb2.ModelInferResponse.FromString(infer(message)).outputs[0].name == "y"
    connection.close()
    host, port = server.grpc_address.split(":")
    for noise in (b"\0" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + seed.randbytes(200), seed.randbytes(1000)):
        with socket.create_connection((host, int(port))) as stream:
            stream.settimeout(60)
            # The server may close the connection at any point.
            try:
                stream.sendall(noise)
                stream.shutdown(socket.SHUT_WR)
                while stream.recv(4096):
                    pass
            except TimeoutError:
                raise
            except OSError:
                pass
    with server.grpc() as client:
        assert client.is_server_ready()


def test_many_small_fields_do_not_become_much_memory(server):
    """A message of empty submessages, each of which is much larger in memory."""

    def identity(bytes_):
        return bytes_

    with grpc.insecure_channel(server.grpc_address) as channel:
        infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", identity, identity)
        for tag in (b"\x2a\x00", b"\x32\x00", b"\x3a\x00"):
            with pytest.raises(grpc.RpcError) as error:
                infer(b"\x0a\x06affine" + tag * (8 << 20))
            assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    peak = next(line for line in open(f"/proc/{server.process.pid}/status") if line.startswith("VmHWM"))
    assert int(peak.split()[1]) < 1 << 20, peak


def certificate(folder):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
    built = built.not_valid_after(now + datetime.timedelta(days=1))
    built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    certificate = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (folder / "cert.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(secret)
    return folder / "cert.pem", folder / "key.pem"


def test_tls(folder, tmp_path):
    cert, key = certificate(tmp_path)
    server = Server(folder, "--tls-cert", str(cert), "--tls-key", str(key))
    # The certificate is for the name.
    address = server.http_address.replace("127.0.0.1", "localhost")
    context = ssl.create_default_context(cafile=str(cert))
    connection = http.client.HTTPSConnection(address, context=context)
    connection.request("GET", "/v2/health/ready")
    assert connection.getresponse().status == 200
    connection.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        connection = http.client.HTTPSConnection(address, context=ssl.create_default_context())
        connection.request("GET", "/v2/health/ready")
    address = server.grpc_address.replace("127.0.0.1", "localhost")
    with tritonclient.grpc.InferenceServerClient(address, ssl=True, root_certificates=str(cert)) as client:
        result = client.infer("slow", trips(tritonclient.grpc, 1))
        assert result.as_numpy("v").tolist() == [-1, -1]
    assert server.stop() == 0


def test_sigterm_answers_what_is_in_progress(folder):
    server = Server(folder, "--instances", "1", "--drain-timeout", "600")
    with server.grpc() as client, server.grpc() as other:
        module = tritonclient.grpc
        answers, answered = [], threading.Semaphore(0)

        def answer(result, error):
            answers.append((result, error))
            answered.release()

        forever = client.async_infer("slow", trips(module, FOREVER), lambda *_: None)
        wait_for(server, "ort_active_requests", 1)
        wait_for(server, 'nv_inference_pending_request_count{model="slow"', 0)
        for _ in range(2):
            other.async_infer("slow", trips(module, 3), answer)
        wait_for(server, 'nv_inference_pending_request_count{model="slow"', 2)
        server.terminate()
        while other.is_server_ready():
            pass
        with pytest.raises(InferenceServerException) as error:
            other.infer("slow", trips(module, 1))
        assert error.value.status() == "StatusCode.UNAVAILABLE"
        forever.cancel()
        for _ in range(2):
            assert answered.acquire(timeout=120)
        assert all(error is None for _, error in answers), answers
        assert server.process.wait(timeout=120) == 0
    server.reading.join()


def test_invalid_requests_do_not_fill_the_log(folder):
    server = Server(folder)
    with server.grpc() as client:
        for columns in (2, 4):
            with pytest.raises(InferenceServerException, match="input `x`"):
                client.infer("affine", affine_inputs(tritonclient.grpc, np.ones((1, columns), np.float32)))
    assert server.stop() == 0
    assert not [line for line in server.log if "ERROR" in line or "WARN" in line]


def test_service_stub_lists_what_the_server_lacks(server):
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        with pytest.raises(grpc.RpcError) as error:
            stub.TraceSetting(service_pb2.TraceSettingRequest(model_name="affine"))
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
