"""The programs that measure: each a process of its own, which prints a line of JSON."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MEASURE = Path(__file__).resolve().parent / "measure.py"
AVX2_ONLY = Path(__file__).resolve().parent / "avx2_only.c"
TIMEOUT_S = 300


def ours(cli: str, case: Path, variant: str, *flags: str) -> list[str]:
    """Our bench of a case's `.ort`."""
    model = case / f"model.{variant}.ort"
    model = model if model.exists() else case / "model.ort"
    return [cli, "bench", str(model), "--inputs", str(case / "test_data_set_0"), "--json", *flags]


def peer(name: str, case: Path, threads: int, seconds: float) -> list[str]:
    return [sys.executable, str(MEASURE), name, str(case), str(threads), str(seconds)]


def measured(command: list[str], variables: dict[str, str] | None = None) -> dict:
    """The JSON of a command's last line, or {"error": …}."""
    environment = {**os.environ, **(variables or {})}
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment
        )
        record = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, IndexError, ValueError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    if record.get("rel_err") == math.inf:
        return {"error": "an output has the wrong shape"}
    return record


def summarized(records: list[dict]) -> dict:
    """Of each time the least that a round saw, of everything else the median.

    What disturbs a round, on a machine with other work, makes it slower and never faster. Without
    a round that ran, the last error.
    """
    good = [record for record in records if "p10_ms" in record]
    if not good:
        return records[-1]
    numbers = [key for key, value in good[0].items() if isinstance(value, (int, float))]
    of = {key: min if key.endswith("_ms") else statistics.median for key in numbers}
    return {key: of[key](record[key] for record in good) for key in numbers}


def restriction(isa: str | None) -> dict[str, str]:
    """Environment variables that hide from a process what goes beyond `isa`.

    ONNX Runtime has no setting for this, OpenVINO has one for a part of its kernels only; so the
    processor itself says less: see avx2_only.c.
    """
    if isa is None:
        return {}
    if isa != "avx2":
        raise SystemExit("peers can be restricted to avx2 only")
    library = Path(tempfile.gettempdir()) / f"avx2_only-{os.getuid()}.so"
    compile_it = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(AVX2_ONLY)]
    subprocess.run(compile_it, check=True)
    probe = subprocess.run(["true"], env={**os.environ, "LD_PRELOAD": str(library)}, check=False)
    if probe.returncode != 0:
        raise SystemExit("this machine cannot hide instructions from a process")
    return {"LD_PRELOAD": str(library)}
