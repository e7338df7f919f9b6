"""The examples run on this machine, and print the results of one process."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from inputs import MODEL

import ort_rs

EXAMPLES = next(
    folder / "bindings" / "python" / "examples"
    for folder in [*MODEL.parents, *pathlib.Path(__file__).resolve().parents]
    if (folder / "bindings" / "python" / "examples").exists()
)
#: What each example needs beyond ort_rs.
NEEDS = {
    "process_pool": (), "dask_map": ("distributed",), "ray_map_batches": ("ray.data",), "ray_serve": ("ray.serve",),
    "spark_map": ("pyspark", "pandas"),
}


def test_every_example_is_tested():
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_an_example_gives_the_results_of_one_process(name):
    for module in NEEDS[name]:
        pytest.importorskip(module)
    if name.startswith("spark") and not shutil.which("java"):
        pytest.skip("needs java")
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), str(MODEL), "100"]
    env = {"RAY_worker_niceness": "0", "SPARK_LOCAL_IP": "127.0.0.1", **os.environ}
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, env=env)
    assert run.returncode == 0, run.stderr
    n_rows, mean = re.search(r"(\d+) rows, mean \[(.*?)\]", run.stdout).groups()
    x = np.sin(np.arange(100, dtype=np.float32)).repeat(3 * 48 * 32).reshape(-1, 3, 48, 32)
    expected = ort_rs.InferenceSession(MODEL).run(None, {"x": x})[0].mean(axis=0)
    assert n_rows == "100"
    np.testing.assert_allclose(np.array(mean.split(), np.float32), expected, rtol=1e-5)


def test_mypy_accepts_the_modules_of_engines(tmp_path):
    for module in ("pyarrow", "pyspark", "ray"):
        pytest.importorskip(module)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--ignore-missing-imports", "-p", "ort_rs"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stdout
