"""Statistics and configurations, as tritonclient reads them."""

import threading

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.grpc import model_config_pb2
from tritonclient.utils import InferenceServerException

from conftest import Server, affine_inputs

MODULES = {"http": tritonclient.http, "grpc": tritonclient.grpc}


@pytest.fixture
def batching(folder):
    """A server that joins requests of the model `affine` to batches of 4 rows, and waits for them."""
    server = Server(folder, "--max-batch", "4", "--max-batch-delay", "60000000", "--max-queue", "7")
    yield server
    assert server.stop() == 0, "".join(server.log)


def read(client, protocol, method, *arguments):
    """A report as JSON, whose 64-bit numbers are texts in gRPC."""
    return getattr(client, method)(*arguments, **({"as_json": True} if protocol == "grpc" else {}))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_statistics_count_requests_and_runs(batching, protocol):
    module = MODULES[protocol]

    def infer(n_rows):
        with getattr(batching, protocol)() as client:
            client.infer("affine", affine_inputs(module, np.ones((n_rows, 3), np.float32)))

    with getattr(batching, protocol)() as client:
        # Two requests of three rows and one are a batch, and one of four another.
        threads = [threading.Thread(target=infer, args=(n_rows,)) for n_rows in (3, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        infer(4)
        with pytest.raises(InferenceServerException):
            client.infer("affine", affine_inputs(module, np.ones((4, 2), np.float32)))
        (statistics,) = read(client, protocol, "get_inference_statistics", "affine")["model_stats"]
        assert (statistics["name"], statistics["version"]) == ("affine", "1")
        assert int(statistics["inference_count"]) == 8 and int(statistics["execution_count"]) == 2
        assert int(statistics["last_inference"]) > 1.7e12
        durations = statistics["inference_stats"]
        counts = {name: int(duration.get("count", 0)) for name, duration in durations.items()}
        assert counts["success"] == counts["compute_infer"] == counts["compute_output"] == 3
        assert counts["queue"] == 4 and counts["fail"] == 1
        assert 0 < int(durations["compute_infer"]["ns"]) < int(durations["success"]["ns"])
        (batch,) = statistics["batch_stats"]
        assert int(batch["batch_size"]) == 4 and int(batch["compute_infer"]["count"]) == 2
        every = read(client, protocol, "get_inference_statistics")["model_stats"]
        assert [model["name"] for model in every] == ["affine", "slow", "types"]
        for arguments in [("none",), ("affine", "9")]:
            with pytest.raises(InferenceServerException):
                read(client, protocol, "get_inference_statistics", *arguments)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_configuration_is_how_the_model_runs(batching, protocol):
    with getattr(batching, protocol)() as client:
        config = read(client, protocol, "get_model_config", "affine")
        config = config.get("config", config)
        assert (config["name"], config["max_batch_size"]) == ("affine", 4)
        (given,) = config["input"]
        assert (given["data_type"], [int(n) for n in given["dims"]]) == ("TYPE_FP32", [3])
        assert [[int(n) for n in output["dims"]] for output in config["output"]] == [[4], [3]]
        assert config["instance_group"][0]["count"] == 1 and config["instance_group"][0]["kind"] == "KIND_CPU"
        batching = config["dynamic_batching"]
        assert int(batching["max_queue_delay_microseconds"]) == 60_000_000
        assert batching["default_queue_policy"]["max_queue_size"] == 7
        # No batches: the dimensions are all of them.
        config = read(client, protocol, "get_model_config", "slow", "1")
        config = config.get("config", config)
        assert "dynamic_batching" not in config and not config.get("max_batch_size")
        assert [int(n) for n in config["input"][0]["dims"]] == [1]
        with pytest.raises(InferenceServerException):
            client.get_model_config("none")


def test_types_are_those_of_tritons_definition(server):
    with server.grpc() as client:
        config = client.get_model_config("types").config
    names = [model_config_pb2.DataType.Name(given.data_type) for given in config.input]
    expected = [given.name.replace("in_", "TYPE_").replace("BYTES", "STRING") for given in config.input]
    assert names == expected and len(names) == 14
