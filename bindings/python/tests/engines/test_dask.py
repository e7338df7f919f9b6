"""Dask on this machine: sessions are arguments of tasks."""

import os
import signal

import numpy as np
import pytest
from inputs import MODEL, N_ROWS, check, expected, kill_once, pixels

import ort_rs

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def wanted():
    return expected()


@pytest.fixture(scope="module")
def client():
    os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            yield client


def run(session, start, marker=None):
    """The numbers and outputs of 100 rows, this process and its session."""
    ids = np.arange(start, min(start + 100, N_ROWS))
    if marker is not None and start >= N_ROWS // 2:
        kill_once(marker)
    return ids, session.run(None, {"x": pixels(ids)})[0], (os.getpid(), id(session._sess))


def gathered(client, futures):
    ids, outputs, places = zip(*client.gather(futures))
    return np.concatenate(ids), np.concatenate(outputs), set(places)


@pytest.fixture
def session(tmp_path):
    options = ort_rs.SessionOptions()
    options.intra_op_num_threads = 1
    return ort_rs.InferenceSession(MODEL, options, cache_dir=tmp_path / "node")


def test_tasks_give_the_results_of_one_process_with_one_session_each(client, session, wanted):
    ids, outputs, places = gathered(client, client.map(lambda start: run(session, start), range(0, N_ROWS, 100)))
    check(ids, outputs, wanted)
    processes = {pid for pid, _ in places}
    assert os.getpid() not in processes and 1 <= len(processes) == len(places) <= 2


def test_a_session_can_be_scattered(client, session, wanted):
    (future,) = client.scatter([session], broadcast=True)
    ids, outputs, _ = gathered(client, [client.submit(run, future, start) for start in range(0, N_ROWS, 100)])
    check(ids, outputs, wanted)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_tasks_of_a_killed_worker_are_computed_again(client, session, wanted, tmp_path):
    marker = str(tmp_path / "killed")
    futures = client.map(lambda start: run(session, start, marker), range(0, N_ROWS, 100), retries=3)
    check(*gathered(client, futures)[:2], wanted)
    assert os.path.exists(marker)
