#!/usr/bin/env python3
"""Keeps ort-server under load for a long time, with valid and invalid requests mixed, and checks that it neither fails nor grows.

    cargo build --release -p ort-server
    python3 tools/soak_server.py [--minutes 30] [--clients 6] [--program target/release/ort-server] [--update docs/reliability.md]

Clients send valid requests (JSON, raw, gRPC, streams, batches), damaged, truncated, aborted, too large and late ones, random bytes, and more at
once than the queue holds. It fails if an answer is wrong, a status is 500 or INTERNAL, the server panics, or bytes, files or threads are left when
the load ends. From 5 minutes on, it also fails if the memory grows by more than 5 %, according to a line fitted after the first fifth.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import environment

environment.enter("requirements-server.txt", "venv-server")
ROOT = environment.TOOLS.parent
sys.path.insert(0, str(ROOT / "ort-server" / "tests" / "clients"))

import numpy as np

from peers import machine, report
from soak import requests

#: Growth is a fault from this part of the memory on.
MAX_GROWTH = 0.05
#: The shortest time for which growth can be told from what the first runs need.
MIN_SECONDS = 300
#: How much longer a load may take until each kind of request has been sent.
MORE_SECONDS = 120
#: How long the server has to close connections and to end idle threads.
IDLE_SECONDS = 60


class Process:
    """What the system knows of a process."""

    def __init__(self, pid: int):
        self.folder = Path(f"/proc/{pid}")

    def sample(self) -> tuple[float, int, int]:
        """Its resident MiB, open files and threads."""
        status = dict(line.split(":", 1) for line in (self.folder / "status").read_text().splitlines())
        n_files = len(os.listdir(self.folder / "fd"))
        return int(status["VmRSS"].split()[0]) / 1024, n_files, int(status["Threads"])


class Load:
    """Clients, each a thread, and what they found."""

    def __init__(self, target: requests.Target, n_clients: int, seconds: float):
        self.outcomes: collections.Counter = collections.Counter()
        self.faults: list[str] = []
        self.end = time.monotonic() + seconds
        self.last_end = self.end + MORE_SECONDS
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(target, i)) for i in range(n_clients)]
        for thread in self.threads:
            thread.start()

    def run(self, target: requests.Target, seed: int) -> None:
        with requests.Client(target, seed) as client:
            while not self.is_over():
                kind = client.chosen()
                try:
                    outcome = kind(client)
                except Exception as fault:
                    outcome = "fault"
                    with self.lock:
                        self.faults.append(f"{kind.__name__} (client {seed}): {type(fault).__name__}: {fault}")
                with self.lock:
                    self.outcomes[kind.__name__, outcome] += 1


    def is_over(self) -> bool:
        """A short load ends later, when each kind and outcome has occurred."""
        now = time.monotonic()
        is_complete = not missing(self.outcomes) or now > self.last_end
        return bool(self.faults) or (now > self.end and is_complete)


def missing(outcomes: collections.Counter) -> list[str]:
    """The kinds and outcomes that have not occurred."""
    outcomes = list(outcomes)
    kinds, found = {kind for kind, _ in outcomes}, {outcome for _, outcome in outcomes}
    return [*({kind.__name__ for kind in requests.KINDS} - kinds), *({"answered", "rejected"} - found)]


def check(is_true: bool, what: str, faults: list[str]) -> None:
    if not is_true:
        faults.append(what)


def growth(samples: list[float]) -> float:
    """The growth over all samples of a fitted line, as a part of its start."""
    if len(samples) < 2:
        return 0.0
    times = np.arange(len(samples))
    slope, start = np.polyfit(times, samples, 1)
    return slope * times[-1] / start


def idle(process: Process, target: requests.Target, before: tuple[float, int, int], faults: list[str]) -> None:
    """Waits until nothing is left of the load."""
    end = time.monotonic() + IDLE_SECONDS
    while any(now > then for now, then in zip(process.sample()[1:], before[1:])) and time.monotonic() < end:
        # A request would keep a thread.
        time.sleep(0.2)
    _, n_files, n_threads = process.sample()
    left = {
        "files": n_files - before[1],
        "threads": n_threads - before[2],
        "requests": target.metric("ort_active_requests"),
        "bytes of requests": target.metric("ort_request_memory_bytes"),
    }
    check(max(left.values()) <= 0, f"left when the load has ended: {left}", faults)


def soak(args: argparse.Namespace, folder: Path) -> tuple[list[list[str]], list[str]]:
    server, target = requests.started(folder)
    process = Process(server.process.pid)
    # What the server needs for its first requests stays, and so does the thread that measures for the metrics.
    target.warm_up()
    target.metric("ort_active_requests")
    before, samples = process.sample(), []
    load = Load(target, args.clients, args.minutes * 60)
    start = time.monotonic()
    while any(thread.is_alive() for thread in load.threads):
        time.sleep(1)
        samples.append(process.sample())
    seconds, faults = time.monotonic() - start, load.faults
    idle(process, target, before, faults)
    n_bugs = target.metric("nv_inference_request_failure", 'reason="BACKEND"')
    check(n_bugs == 0, f"{n_bugs} requests failed by bugs of the server", faults)
    check(server.stop() == 0, "the server did not end with 0", faults)
    bugs = [line for line in server.log if "ERROR" in line or "panicked" in line]
    check(not bugs, f"the server reports bugs: {bugs[:3]}", faults)
    check(not missing(load.outcomes), f"kinds and outcomes that did not occur: {missing(load.outcomes)}", faults)
    resident = [sample[0] for sample in samples[len(samples) // 5 :]]
    if seconds >= MIN_SECONDS:
        grown = growth(resident)
        check(grown <= MAX_GROWTH, f"the memory grew by {grown:.1%}", faults)
    return table(load, samples, resident, seconds), faults


def table(load: Load, samples: list[tuple[float, int, int]], resident: list[float], seconds: float) -> list[list[str]]:
    outcomes = sorted({outcome for _, outcome in load.outcomes})
    lines = [["requests", *outcomes]]
    for kind in requests.KINDS:
        lines.append([kind.__doc__.split(".")[0].lower(), *(str(load.outcomes[kind.__name__, outcome]) for outcome in outcomes)])
    empty = [""] * (len(outcomes) - 1)
    lines.append(["all, in minutes", f"{sum(load.outcomes.values())} in {seconds / 60:.1f}", *empty])
    lines.append(["resident MiB: lowest, highest", f"{min(resident):.1f}, {max(resident):.1f}", *empty])
    lines.append(["growth of a fitted line", f"{growth(resident):.2%}", *empty])
    for i, name in [(1, "open files"), (2, "threads")]:
        column = [sample[i] for sample in samples]
        lines.append([f"{name}: lowest, highest", f"{min(column)}, {max(column)}", *empty])
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--program", default=str(ROOT / "target/release/ort-server"))
    parser.add_argument("--update", type=Path, metavar="FILE", help="a document to update")
    args = parser.parse_args()
    os.environ["ORT_SERVER"] = args.program
    with tempfile.TemporaryDirectory() as folder:
        lines, faults = soak(args, Path(folder))
    where = machine.describe(args.program, [])
    print(where, report.as_text(lines), sep="\n\n")
    for fault in faults:
        print(f"fault: {fault}")
    if args.update and not faults:
        report.update(args.update, "soak", report.section(where, report.as_markdown(lines)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
