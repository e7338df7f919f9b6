"""Ray Data and Ray Serve on this machine."""

import os
import signal
import urllib.error
import urllib.request
import json

import numpy as np
import pytest
from inputs import MODEL, N_ROWS, OUTPUT, check, expected, kill_once, pixels

import ort_rs

ray = pytest.importorskip("ray")
from ort_rs.ray import Predictor, application, n_cpus  # noqa: E402


@pytest.fixture(scope="module")
def wanted():
    return expected()


@pytest.fixture(scope="module", autouse=True)
def cluster():
    here = os.path.dirname(__file__)
    env = {"env_vars": {"PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])}}
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray.init(num_cpus=6, include_dashboard=False, object_store_memory=1 << 30, runtime_env=env, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def dataset():
    return ray.data.range(N_ROWS).map_batches(lambda batch: {"id": batch["id"], "x": pixels(batch["id"])}, batch_size=500)


def gathered(rows):
    """The columns of a dataset, whatever the order of its rows."""
    parts = list(rows.iter_batches(batch_size=None, batch_format="numpy"))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def facts_of(columns):
    return {tuple(json.loads(it)) for it in set(columns["facts"])}


class Observed(Predictor):
    """A predictor that reports its process, its file and its threads."""

    def __call__(self, batch):
        made = super().__call__(batch)
        session = self.session
        facts = (os.getpid(), session._model_path, session.get_session_options().intra_op_num_threads, n_cpus())
        return {**made, "facts": np.array([json.dumps(facts)] * len(made["id"]))}


def test_actors_give_the_results_of_one_process(wanted, tmp_path):
    how = {"cache_dir": str(tmp_path / "node"), "output_names": {OUTPUT: "y"}}
    rows = dataset().map_batches(
        Observed, fn_constructor_args=(MODEL,), fn_constructor_kwargs=how, concurrency=2, num_cpus=1, batch_size=64
    )
    found = gathered(rows)
    check(found["id"], found["y"], wanted)
    # Ray decides how many of the two actors it needs.
    assert {(path, n, cpus) for _, path, n, cpus in facts_of(found)} == {(str(MODEL), 1, 1)}


def test_actors_of_a_node_map_one_file(wanted, tmp_path):
    actor = ray.remote(num_cpus=2)(Observed)
    actors = [actor.remote(MODEL.read_bytes(), cache_dir=str(tmp_path / "node"), output_names={OUTPUT: "y"}) for _ in range(2)]
    ids = np.arange(100)
    results = ray.get([actor.__call__.remote({"id": ids, "x": pixels(ids)}) for actor in actors], timeout=120)
    facts = set.union(*map(facts_of, results))
    assert len({pid for pid, *_ in facts}) == 2
    assert len({path for _, path, *_ in facts}) == 1 and {n for _, _, n, _ in facts} == {2}
    for found in results:
        np.testing.assert_array_equal(found["y"], wanted[ids])
    assert len([name for name in os.listdir(tmp_path / "node") if name.endswith(".ort")]) == 1
    for one in actors:
        ray.kill(one)


def test_a_model_in_the_object_store_is_written_once(wanted, tmp_path):
    reference = ray.put(MODEL.read_bytes())
    how = {"cache_dir": str(tmp_path / "node"), "output_names": {OUTPUT: "y"}}
    rows = dataset().limit(1000).map_batches(
        Observed, fn_constructor_args=(reference,), fn_constructor_kwargs=how, concurrency=2, num_cpus=2, batch_size=64
    )
    found = gathered(rows)
    np.testing.assert_array_equal(found["y"], wanted[found["id"]])
    facts = facts_of(found)
    assert {(os.path.dirname(path), n, cpus) for _, path, n, cpus in facts} == {(str(tmp_path / "node"), 2, 2)}
    assert len({path for _, path, _, _ in facts}) == 1


class KilledOnce(Predictor):
    """A predictor whose process is killed in the middle of the work."""

    def __init__(self, marker, *arguments, **how):
        super().__init__(*arguments, **how)
        self.marker, self.n_batches = marker, 0

    def __call__(self, batch):
        made = super().__call__(batch)
        self.n_batches += 1
        if self.n_batches == 5:
            kill_once(self.marker)
        return made


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_batches_of_a_killed_actor_are_computed_again(wanted, tmp_path):
    marker = tmp_path / "killed"
    how = {"cache_dir": str(tmp_path / "node"), "output_names": {OUTPUT: "y"}}
    rows = dataset().map_batches(
        KilledOnce, fn_constructor_args=(str(marker), MODEL), fn_constructor_kwargs=how, concurrency=2, num_cpus=1, batch_size=64
    )
    found = gathered(rows)
    check(found["id"], found["y"], wanted)
    assert marker.exists()


def test_batches_of_tables_and_data_frames_keep_their_form(tmp_path):
    predictor = Predictor(MODEL, cache_dir=tmp_path / "node", output_names={OUTPUT: "y"}, columns={"x": "data"})
    ids = np.arange(5)
    wanted = ort_rs.InferenceSession(MODEL).run(None, {"x": pixels(ids)})[0]
    rows = ray.data.from_numpy([pixels(ids)])
    for form in ("numpy", "pyarrow", "pandas"):
        made = predictor(rows.take_batch(5, batch_format=form))
        found = made["y"].combine_chunks().to_numpy_ndarray() if form == "pyarrow" else np.stack(list(made["y"]))
        np.testing.assert_array_equal(found, wanted)
        assert list(getattr(made, "column_names", made)) == ["y"], form
    with pytest.raises(ValueError, match="'data': no column for input 'x'; the columns are id"):
        predictor({"id": ids})


@pytest.fixture(scope="module")
def served():
    serve = pytest.importorskip("ray.serve")
    app = application(MODEL, output_names=[OUTPUT], max_batch_size=8, batch_wait_timeout_s=0.05, max_ongoing_requests=64)
    yield serve.run(app)
    serve.shutdown()


def test_requests_of_a_handle_run_in_batches_with_the_results_of_one_process(served, wanted):
    ids = range(min(200, N_ROWS))
    responses = [served.predict.remote(x=pixels([i])[0]) for i in ids]
    for i, response in zip(ids, responses):
        np.testing.assert_array_equal(response.result(timeout_s=60)[OUTPUT], wanted[i])


def test_an_invalid_request_fails_alone(served, wanted):
    valid = [served.predict.remote(x=pixels([i])[0]) for i in range(4)]
    wrong = served.predict.remote(x=np.zeros((2, 48, 32), np.float32))
    with pytest.raises(Exception, match="expected float.*found float"):
        wrong.result(timeout_s=60)
    for i, response in enumerate(valid):
        np.testing.assert_array_equal(response.result(timeout_s=60)[OUTPUT], wanted[i])


def posted(body):
    request = urllib.request.Request("http://127.0.0.1:8000/", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))


def test_requests_over_http_are_json(served, wanted):
    found = posted({"x": pixels([3])[0].tolist()})
    np.testing.assert_allclose(found[OUTPUT], wanted[3], rtol=1e-6)
    for body, reason in (({"q": 1}, "'q' is not an input"), ([1], "expected a JSON object"), ({"x": [[1]]}, "x")):
        with pytest.raises(urllib.error.HTTPError) as caught:
            posted(body)
        assert caught.value.code == 400 and reason in json.load(caught.value)["error"]
