#!/usr/bin/env python3
"""Runs third-party programs on onnxruntime and on ort_rs, compares the results, and prints a table of times.

    python3 tools/compare_clients.py [--wheel WHEEL] [--repeats N] [--rounds N] [--quick]

The programs are those of clients/run_client.py, from PyPI, unchanged. Without a wheel, a release wheel is built;
`--quick` uses that of check_python.py, which is suitable for results, not for times. If PyPI cannot be reached, it
reports that and succeeds. Exit code 1 if results differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import check_python
import environment

CLIENT = environment.TOOLS / "clients" / "run_client.py"
#: Installed without dependencies: its requirement torch is not needed for the model.
ALONE = ["silero_vad==6.2.3"]
NAMES = ["rapidocr", "ddddocr", "magika", "silero_vad"]
#: The tolerance of scores and box corners: sums are computed in another order.
TOLERANCE = 2e-3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the wheel to measure")
    parser.add_argument("--repeats", type=int, default=5, help="runs in a process")
    parser.add_argument("--rounds", type=int, default=3, help="processes each")
    parser.add_argument("--quick", action="store_true", help="the development build, once")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.wheel = next((environment.TARGET / "wheels" / "dev").glob("*.whl"), None)
        arguments.repeats = arguments.rounds = 1
        if arguments.wheel is None:
            print("skipped: check_python.py has built no wheel")
            return 0
    try:
        requirements = environment.TOOLS / "requirements-clients.txt"
        python = environment.prepare(environment.TARGET / "venv-clients", requirements)
        pip = [str(python), "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run([*pip, *ALONE], check=True)
    except (environment.Unavailable, subprocess.CalledProcessError) as reason:
        print(f"skipped: {reason}")
        return 0
    wheel = arguments.wheel or check_python.built(python, "dist")
    subprocess.run([*pip, "--force-reinstall", str(wheel)], check=True)
    is_same = True
    print("| program | onnxruntime, ms | ort_rs, ms | ratio | loading, ratio | results |\n|---|---:|---:|---:|---:|---|")
    for name in NAMES:
        rounds = [
            {runtime: measured(python, name, runtime, arguments.repeats) for runtime in ("onnxruntime", "ort_rs")}
            for _ in range(arguments.rounds)
        ]
        theirs, ours = (rounds[0][runtime]["found"] for runtime in ("onnxruntime", "ort_rs"))
        difference = differing(theirs, ours)
        is_same &= difference is None
        print(row(name, rounds, difference), flush=True)
    return 0 if is_same else 1


def measured(python: Path, name: str, runtime: str, repeats: int) -> dict:
    """The result of a process of one program."""
    command = [str(python), str(CLIENT), name, runtime, str(repeats)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=environment.TARGET)
    lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    if run.returncode != 0 or not lines:
        sys.exit(f"{name} on {runtime}: {run.stderr[-3000:]}")
    result = json.loads(lines[-1].removeprefix("RESULT "))
    if (result["package"] == "ort_rs") != (runtime == "ort_rs"):
        sys.exit(f"{name} ran on {result['package']}, not on {runtime}")
    return result


def row(name: str, rounds: list[dict], difference: str | None) -> str:
    """The minimum over all rounds, and the difference."""

    def least(runtime: str, what: str) -> float:
        return min(it[runtime][what] for it in rounds)

    theirs, ours = least("onnxruntime", "seconds"), least("ort_rs", "seconds")
    loading = least("ort_rs", "loading") / least("onnxruntime", "loading")
    cells = f"{theirs * 1e3:.1f} | {ours * 1e3:.1f} | {ours / theirs:.2f} | {loading:.2f}"
    return f"| {name} | {cells} | {difference or 'same'} |"


def differing(theirs: object, ours: object, where: str = "") -> str | None:
    """Where two results differ; None if they do not."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        pairs = ((f"{where}.{key}", theirs[key], ours[key]) for key in theirs)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = ((f"{where}[{i}]", a, b) for i, (a, b) in enumerate(zip(theirs, ours)))
    elif isinstance(theirs, float) and isinstance(ours, float):
        is_close = abs(theirs - ours) <= TOLERANCE * max(1.0, abs(theirs))
        return None if is_close else f"{where}: {theirs} and {ours}"
    else:
        return None if theirs == ours else f"{where}: {theirs!r} and {ours!r}"
    found = (differing(a, b, place) for place, a, b in pairs)
    return next((it for it in found if it), None)


if __name__ == "__main__":
    sys.exit(main())
