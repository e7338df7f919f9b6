"""Traces, as OpenTelemetry's own definitions of the protocol read them."""

import base64
import json
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from conftest import Server, affine_inputs

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
MODULES = {"http": tritonclient.http, "grpc": tritonclient.grpc}


def read(path):
    """The spans of a file, with their attributes."""
    spans = []
    for line in path.read_text().splitlines():
        message = json.loads(line)
        for span in message["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            # Protobuf's JSON has bytes in base 64, that of OpenTelemetry has ids in hexadecimal.
            for key in {"traceId", "spanId", "parentSpanId"} & span.keys():
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        traces = json_format.ParseDict(message, TracesData())
        (resource,) = traces.resource_spans
        assert resource.resource.attributes[0].value.string_value == "ort-server"
        spans += resource.scope_spans[0].spans
    return [(span, {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}) for span in spans]


def parts(spans, kind=Span.SPAN_KIND_SERVER):
    return [span for span in spans if span[0].kind == kind]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_request_is_a_trace(folder, tmp_path, protocol):
    path, module = tmp_path / "traces.jsonl", MODULES[protocol]
    # Of requests without the header, none is sampled.
    server = Server(folder, "--trace-file", str(path), "--trace-ratio", "0")
    inputs = affine_inputs(module, np.ones((2, 3), np.float32))
    start = time.time_ns()
    with getattr(server, protocol)() as client:
        client.infer("affine", inputs, headers={"traceparent": SAMPLED})
        client.infer("affine", inputs)
        client.infer("affine", inputs, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
        with pytest.raises(Exception, match="no model"):
            client.infer("none", inputs, headers={"traceparent": SAMPLED})
    assert server.stop() == 0
    spans = read(path)
    ((request, attributes), (failed, of_failed)) = sorted(parts(spans), key=lambda it: it[0].start_time_unix_nano)
    for span in (request, failed):
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
        assert span.flags == 0x301 and span.status.code == Status.STATUS_CODE_UNSET
    assert start <= request.start_time_unix_nano <= request.end_time_unix_nano <= time.time_ns()
    assert attributes["ort.model.name"] == "affine" and attributes["ort.model.version"] == 1
    if protocol == "http":
        assert request.name == "POST /v2/models/{name}/infer"
        assert attributes["url.path"] == "/v2/models/affine/infer" and attributes["url.scheme"] == "http"
        assert attributes["http.response.status_code"] == 200 and of_failed["http.response.status_code"] == 404
    else:
        assert request.name == attributes["rpc.method"] == "inference.GRPCInferenceService/ModelInfer"
        assert attributes["rpc.system.name"] == "grpc"
        assert attributes["rpc.response.status_code"] == "OK"
        assert of_failed["rpc.response.status_code"] == "NOT_FOUND"
    (queue, _), (compute, of_run) = parts(spans, Span.SPAN_KIND_INTERNAL)
    assert (queue.name, compute.name) == ("queue", "compute")
    assert of_run == {"ort.batch.size": 1, "ort.batch.requests": 1}
    for part in (queue, compute):
        assert part.trace_id == request.trace_id and part.parent_span_id == request.span_id
        assert request.start_time_unix_nano <= part.start_time_unix_nano <= part.end_time_unix_nano
        assert part.end_time_unix_nano <= request.end_time_unix_nano


def test_a_batch_is_a_run_of_each_request(folder, tmp_path):
    path = tmp_path / "traces.jsonl"
    delay = str(60_000_000)
    server = Server(folder, "--trace-file", str(path), "--max-batch", "6", "--max-batch-delay", delay)

    def infer(n_rows):
        with server.grpc() as client:
            client.infer("affine", affine_inputs(tritonclient.grpc, np.ones((n_rows, 3), np.float32)))

    # The batch waits for six rows.
    threads = [threading.Thread(target=infer, args=(n_rows,)) for n_rows in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.stop() == 0
    spans = read(path)
    assert len({span.trace_id for span, _ in parts(spans)}) == 3
    computed = [it for it in parts(spans, Span.SPAN_KIND_INTERNAL) if it[0].name == "compute"]
    assert [attributes for _, attributes in computed] == [{"ort.batch.size": 6, "ort.batch.requests": 3}] * 3


def test_a_late_request_has_failed(folder, tmp_path):
    path = tmp_path / "traces.jsonl"
    server = Server(folder, "--trace-file", str(path), "--max-time", "0.2")
    trips = tritonclient.http.InferInput("trips", [1], "INT64")
    trips.set_data_from_numpy(np.array([2**50], np.int64))
    with server.http() as client, pytest.raises(Exception, match=r"\[504\]"):
        client.infer("slow", [trips])
    assert server.stop() == 0
    spans = read(path)
    ((request, attributes),) = parts(spans)
    assert request.status.code == Status.STATUS_CODE_ERROR
    assert attributes["http.response.status_code"] == 504 and attributes["error.type"] == "504"
    (compute,) = [span for span, _ in spans if span.name == "compute"]
    assert compute.status.code == Status.STATUS_CODE_ERROR
