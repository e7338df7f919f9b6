"""Streams of requests over gRPC, by tritonclient."""

import queue

import grpc
import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from conftest import Server, affine_inputs

MODULE = tritonclient.grpc


def stream(client):
    """Starts a stream; its answers are put into a queue."""
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put(error or result))
    return answers


def rows(n, value=1.0):
    return affine_inputs(MODULE, np.full((n, 3), value, np.float32))


def test_answers_have_the_order_of_the_requests(folder):
    server = Server(folder, "--instances", "4")
    trips = MODULE.InferInput("trips", [1], "INT64")
    trips.set_data_from_numpy(np.array([300_000], np.int64))
    with server.grpc() as client:
        answers = stream(client)
        # The first takes longest.
        client.async_stream_infer("slow", [trips], request_id="0")
        for i in range(1, 100):
            client.async_stream_infer("affine", rows(1, i), request_id=str(i), enable_empty_final_response=i == 1)
        results = [answers.get(timeout=120) for _ in range(100)]
        assert [result.get_response().id for result in results] == [str(i) for i in range(100)]
        for i, result in enumerate(results[1:], 1):
            np.testing.assert_array_equal(result.as_numpy("negated"), -np.full((1, 3), i, np.float32))
        finals = [result.get_response().parameters["triton_final_response"].bool_param for result in results[:3]]
        assert finals == [False, True, False]
        client.stop_stream()
    assert server.stop() == 0


def test_a_failed_request_does_not_end_the_stream(server):
    with server.grpc() as client:
        answers = stream(client)
        client.async_stream_infer("none", rows(1), request_id="a")
        client.async_stream_infer("affine", affine_inputs(MODULE, np.ones((1, 2), np.float32)), request_id="b")
        client.async_stream_infer("affine", rows(2), request_id="c")
        unknown, invalid, result = (answers.get(timeout=120) for _ in range(3))
        assert unknown.message() == "there is no model `none`"
        assert isinstance(invalid, InferenceServerException) and "`x`" in invalid.message()
        assert result.as_numpy("y").shape == (2, 4)
        client.stop_stream()


def test_errors_name_their_request(server):
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        requests = [service_pb2.ModelInferRequest(model_name="none", id=f"id {i}") for i in range(3)]
        answers = list(stub.ModelStreamInfer(iter(requests)))
    assert [answer.infer_response.id for answer in answers] == ["id 0", "id 1", "id 2"]
    assert {answer.error_message for answer in answers} == {"there is no model `none`"}


def test_requests_of_a_stream_are_batched(folder):
    server = Server(folder, "--max-batch", "8", "--max-batch-delay", "60000000")
    with server.grpc() as client:
        answers = stream(client)
        for _ in range(8):
            client.async_stream_infer("affine", rows(1))
        assert all(answers.get(timeout=120).as_numpy("y").shape == (1, 4) for _ in range(8))
        client.stop_stream()
        (statistics,) = client.get_inference_statistics("affine").model_stats
        assert (statistics.inference_count, statistics.execution_count) == (8, 1)
    assert server.stop() == 0


def test_a_stream_has_the_limits_of_each_message(folder):
    server = Server(folder, "--max-body-mib", "1", "--max-requests-mib", "4")
    with server.grpc() as client:
        answers = stream(client)
        # 16 MiB in all, of which the server holds at most 4 at once.
        for _ in range(64):
            client.async_stream_infer("affine", rows(21_000))
            assert answers.get(timeout=120).as_numpy("negated").shape == (21_000, 3)
        client.async_stream_infer("affine", rows(100_000))
        error = answers.get(timeout=120)
        assert error.status() == "StatusCode.RESOURCE_EXHAUSTED" and "1048576" in error.message()
    assert server.stop() == 0


def test_shutdown_answers_and_ends_streams(folder):
    server = Server(folder)
    with server.grpc() as client:
        answers = stream(client)
        client.async_stream_infer("affine", rows(1))
        assert answers.get(timeout=120).as_numpy("y").shape == (1, 4)
        server.terminate()
        error = answers.get(timeout=120)
        assert error.status() == "StatusCode.UNAVAILABLE"
    assert server.stop() == 0


def test_an_idle_stream_lasts(folder):
    server = Server(folder, "--max-time", "0.1")
    with server.grpc() as client:
        answers = stream(client)
        for _ in range(3):
            client.async_stream_infer("affine", rows(1))
            assert answers.get(timeout=120).as_numpy("y").shape == (1, 4)
            # Longer than a request may take.
            with pytest.raises(queue.Empty):
                answers.get(timeout=0.5)
        client.stop_stream()
    assert server.stop() == 0
