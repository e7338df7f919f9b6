"""The protocol, through tritonclient over HTTP and gRPC."""

import urllib.request
from concurrent.futures import ThreadPoolExecutor

import grpc
import ml_dtypes
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from conftest import TYPES, affine_inputs

#: Values of each type.
VALUES = {
    "BOOL": np.array([True, False, True]),
    "UINT8": np.array([0, 7, 255], np.uint8),
    "UINT16": np.array([0, 7, 65535], np.uint16),
    "UINT32": np.array([0, 7, 2**32 - 1], np.uint32),
    "UINT64": np.array([0, 7, 2**64 - 1], np.uint64),
    "INT8": np.array([-128, 7, 127], np.int8),
    "INT16": np.array([-32768, 7, 32767], np.int16),
    "INT32": np.array([-(2**31), 7, 2**31 - 1], np.int32),
    "INT64": np.array([-(2**63), 7, 2**63 - 1], np.int64),
    "FP16": np.array([-0.5, np.inf, 65504], np.float16),
    "BF16": np.array([-0.5, 3, 2.0**100], ml_dtypes.bfloat16),
    "FP32": np.array([-0.1, np.nan, 1e38], np.float32),
    "FP64": np.array([-0.1, np.nan, 1e300]),
    "BYTES": np.array(["é".encode(), b"", b"a\0b"], np.object_),
}


def test_health_and_metadata(client):
    client, module = client
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("affine")
    assert not client.is_model_ready("none") and not client.is_model_ready("affine", "9")
    options = {} if module.__name__.endswith("http") else {"as_json": True}
    metadata = client.get_server_metadata(**options)
    assert metadata["name"] == "ort-server"
    assert set(metadata["extensions"]) >= {"binary_tensor_data", "model_repository"}
    model = client.get_model_metadata("affine", **options)
    assert model["versions"] == ["1"]
    (x,) = model["inputs"]
    assert (x["name"], x["datatype"], [int(n) for n in x["shape"]]) == ("x", "FP32", [-1, 3])
    assert [output["name"] for output in model["outputs"]] == ["y", "negated"]


@pytest.mark.parametrize("binary", [True, False])
def test_inference_equals_numpy(client, binary):
    client, module = client
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    expected = x @ np.arange(12, dtype=np.float32).reshape(3, 4)
    if module.__name__.endswith("http"):
        outputs = [module.InferRequestedOutput(name, binary_data=binary) for name in ("negated", "y")]
    else:
        outputs = [module.InferRequestedOutput(name) for name in ("negated", "y")]
    result = client.infer("affine", affine_inputs(module, x, binary), outputs=outputs, request_id="id 1")
    np.testing.assert_allclose(result.as_numpy("y"), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result.as_numpy("negated"), -x)
    response = result.get_response()
    if module.__name__.endswith("http"):
        assert response["id"] == "id 1" and response["outputs"][0]["name"] == "negated"
    else:
        assert response.id == "id 1" and response.outputs[0].name == "negated"


def test_every_datatype(client):
    client, module = client
    inputs = []
    for name, values in VALUES.items():
        given = module.InferInput(f"in_{name}", list(values.shape), name)
        given.set_data_from_numpy(values)
        inputs.append(given)
    result = client.infer("types", inputs)
    assert set(TYPES) == set(VALUES)
    for name, values in VALUES.items():
        np.testing.assert_array_equal(result.as_numpy(f"out_{name}"), values, err_msg=name)


def test_empty_tensors(client):
    client, module = client
    result = client.infer("affine", affine_inputs(module, np.zeros((0, 3), np.float32)))
    assert result.as_numpy("y").shape == (0, 4)


def test_typed_contents_are_answered_typed(server):
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        x = service_pb2.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1, 3])
        x.contents.fp32_contents.extend([1, 2, 3])
        response = stub.ModelInfer(service_pb2.ModelInferRequest(model_name="affine", inputs=[x]))
        assert list(response.outputs[1].contents.fp32_contents) == [-1, -2, -3]
        assert not response.raw_output_contents
        x.contents.ClearField("fp32_contents")
        x.contents.int_contents.extend([1, 2, 3])
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelInfer(service_pb2.ModelInferRequest(model_name="affine", inputs=[x]))
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert error.value.details() == "input `x`: its elements are in int_contents, expected fp32_contents"


def test_errors_name_what_is_wrong(client):
    client, module = client
    is_http = module.__name__.endswith("http")
    x = np.zeros((1, 3), np.float32)
    for call, status, message in [
        (lambda: client.infer("none", affine_inputs(module, x)), ("404", "NOT_FOUND"), "there is no model `none`"),
        (lambda: client.infer("affine", affine_inputs(module, x[:, :2])), ("400", "INVALID_ARGUMENT"), "input `x`: expected"),
        (lambda: client.infer("affine", []), ("400", "INVALID_ARGUMENT"), "input `x`"),
        (
            lambda: client.infer("affine", affine_inputs(module, x), outputs=[module.InferRequestedOutput("z")]),
            ("400", "INVALID_ARGUMENT"),
            "output `z`: the model has no such output; its outputs are y, negated",
        ),
        (lambda: client.get_model_metadata("affine", "7"), ("404", "NOT_FOUND"), "model `affine` has no version `7`"),
    ]:
        with pytest.raises(InferenceServerException) as error:
            call()
        assert message in error.value.message()
        expected = status[0] if is_http else f"StatusCode.{status[1]}"
        assert error.value.status() == expected


def test_text_that_is_not_utf8_is_an_error(client):
    client, module = client
    given = module.InferInput("in_BYTES", [1], "BYTES")
    given.set_data_from_numpy(np.array([b"\xff"], np.object_))
    with pytest.raises(InferenceServerException, match="input `in_BYTES`: element 0 is not UTF-8"):
        client.infer("types", [given])


def test_repository(client):
    client, module = client

    def states():
        index = client.get_model_repository_index()
        if not isinstance(index, list):
            return {(model.name, model.version): model.state for model in index.models}
        return {(model["name"], model.get("version", "")): model["state"] for model in index}

    assert states()["types", "1"] == "READY"
    client.unload_model("types")
    assert states()["types", "1"] == "UNAVAILABLE"
    assert not client.is_model_ready("types")
    client.load_model("types")
    assert states()["types", "1"] == "READY"
    with pytest.raises(InferenceServerException, match="there is no model `none`"):
        client.load_model("none")


def test_concurrent_clients(client, server):
    client, module = client
    rows = [np.full((n % 4 + 1, 3), n, np.float32) for n in range(64)]
    if module.__name__.endswith("http"):
        with server.http(concurrency=8) as many:
            requests = [many.async_infer("affine", affine_inputs(module, x)) for x in rows]
            results = [request.get_result() for request in requests]
    else:
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda x: client.infer("affine", affine_inputs(module, x)), rows))
    for x, result in zip(rows, results, strict=True):
        np.testing.assert_array_equal(result.as_numpy("negated"), -x)


def test_grpc_health(server):
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "inference.GRPCInferenceService", "affine"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as error:
            stub.Check(health_pb2.HealthCheckRequest(service="none"))
        assert error.value.code() == grpc.StatusCode.NOT_FOUND


def test_metrics(server):
    with urllib.request.urlopen(f"http://{server.http_address}/metrics") as reply:
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = reply.read().decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    affine = 'model="affine",version="1"'
    n = int(values[f"nv_inference_request_success{{{affine}}}"])
    buckets = f'ort_inference_request_duration_seconds_bucket{{{affine},le="+Inf"}}'
    assert 0 < n <= int(values[buckets])
    assert float(values[f"ort_inference_request_duration_seconds_sum{{{affine}}}"]) > 0
    assert int(values[f'ort_session_memory_bytes{{{affine},kind="objects"}}']) > 0
    assert len(values) == sum(not line.startswith("#") for line in lines)
