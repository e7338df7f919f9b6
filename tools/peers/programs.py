"""The measuring programs: each is a separate process, which prints a line of JSON."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

MEASURE = Path(__file__).resolve().parent / "measure.py"
TIMEOUT_S = 300


def ours(cli: str, case: Path, variant: str, *flags: str) -> list[str]:
    """Our bench of a case's `.ort`."""
    model = case / f"model.{variant}.ort"
    return ours_of(cli, model if model.exists() else case / "model.ort", *flags)


def ours_of(cli: str, model: Path, *flags: str) -> list[str]:
    """Our bench of one file of a case."""
    inputs = model.parent / "test_data_set_0"
    return [cli, "bench", str(model), "--inputs", str(inputs), "--json", *flags]


def peer(name: str, case: Path, threads: int, seconds: float) -> list[str]:
    return [sys.executable, str(MEASURE), name, str(case), str(threads), str(seconds)]


def measured(command: list[str]) -> dict:
    """The JSON of a command's last line, or {"error": …}."""
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        record = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, IndexError, ValueError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    if record.get("rel_err") == math.inf:
        return {"error": "an output has the wrong shape"}
    return record


def peak_private_mib(command: list[str]) -> float | None:
    """The peak of a command's anonymous memory, by sampling.

    A peer reports its memory before it loaded the model, which is subtracted.
    """
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    status, most = Path(f"/proc/{process.pid}/status"), 0
    while process.poll() is None:
        most = max(most, anonymous_kib(status))
        time.sleep(0.0002)
    try:
        record = json.loads(process.communicate()[0].strip().splitlines()[-1])
    except (IndexError, ValueError):
        return None
    return most / 1024 - record.get("before_anon_mib", 0)


def anonymous_kib(status: Path) -> int:
    """Zero once the process has exited."""
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)


def summarized(records: list[dict]) -> dict:
    """The minimum of each time over the rounds, and the median of all other figures.

    Interference from other work makes a round slower and never faster. If no round ran, the last
    error.
    """
    good = [record for record in records if "p10_ms" in record]
    if not good:
        return records[-1]
    numbers = [key for key, value in good[0].items() if isinstance(value, (int, float))]
    of = {key: min if key.endswith("_ms") else statistics.median for key in numbers}
    return {key: of[key](record[key] for record in good) for key in numbers}
