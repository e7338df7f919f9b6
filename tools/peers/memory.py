"""Measures the memory of another process while it pauses at its stages or holds a session."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

HOLD = Path(__file__).resolve().parent / "hold.py"
READY = "SESSION_READY"
MIB = 1024 * 1024
SAMPLE_S = 0.0005
FIELDS = {"Rss": "rss", "Pss": "pss", "Anonymous": "private"}
ALONE = ("Private_Clean", "Private_Dirty")


def sizes_of(pid: int) -> dict[str, float]:
    """In MiB: resident memory (rss), its proportional share (pss), anonymous memory (private), and memory
    that no other process maps at the moment (alone)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {key: rest.split() for key, _, rest in (line.partition(":") for line in lines)}
    mib = {key: int(size[0]) / 1024 for key, size in sizes.items() if size[1:] == ["kB"]}
    alone = sum(mib[key] for key in ALONE)
    return {"alone": alone, **{name: mib[key] for key, name in FIELDS.items()}}


def anonymous(pid: int) -> float:
    """Anonymous resident memory in MiB; fast enough for sampling."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass  # It has exited.
    return 0.0


class PausedProcess:
    """A process that prints a word at each stage and waits for a line to continue."""

    def __init__(self, command: list[str]):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.peak = 0.0

    def __enter__(self) -> PausedProcess:
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.communicate()

    def wait(self, word: str) -> dict[str, float]:
        """Waits until it prints the word; returns its memory then."""
        for line in self.process.stdout:
            if line.strip() == word:
                return sizes_of(self.process.pid)
        raise RuntimeError(f"{self.process.args[0]} exited before {word}")

    def resume(self) -> None:
        print(flush=True, file=self.process.stdin)

    def note(self, mib: float) -> None:
        self.peak = max(self.peak, mib)

    def watch(self, thread) -> None:
        """Records the peak of anonymous memory by sampling, while the thread runs."""
        while thread.is_alive():
            self.note(anonymous(self.process.pid))
            time.sleep(SAMPLE_S)


def peer(runtime: str, threads: int, runs: int, cases: list[Path]) -> list[str]:
    return [sys.executable, str(HOLD), runtime, str(threads), str(runs), *map(str, cases)]


def ours(cli: str, variant: str, threads: int, cases: list[Path]) -> list[str]:
    """Our `mem` for these cases, with the options that it shares with `bench`."""
    models = [case / f"model.{variant}.ort" for case in cases]
    inputs = [word for case in cases for word in ("--inputs", str(case / "test_data_set_0"))]
    return [cli, "mem", *map(str, models), *inputs, "--threads", str(threads), "--json"]


def stages(command: list[str]) -> list[dict]:
    """The stages that our `mem` reports, in MiB, with the names of `sizes_of` for sizes."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    names = {"resident": "rss", "pss": "pss", "anonymous": "private"}
    found = []
    for stage in json.loads(done.stdout)["stages"]:
        sizes = {name: stage[key] / MIB for key, name in names.items()}
        purposes = {key: n_bytes / MIB for key, n_bytes in stage["purposes"].items()}
        found.append({"stage": stage["stage"], **sizes, "purposes": purposes})
    return found


def processes(command: list[str]) -> dict[str, float]:
    """Sums over the processes that our `mem --processes` reports, in MiB."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    sums = json.loads(done.stdout)["sum"]
    names = {
        "private": "private",
        "private_without_activations": "without_activations",
        "pss": "pss",
    }
    return {name: sums[key] / MIB for key, name in names.items()}
