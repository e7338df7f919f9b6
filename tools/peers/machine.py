"""The description of the machine in a table of measurements."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)


def describe(cli: str, packages: list[str]) -> str:
    """CPU model, cores, system, date and versions, in one line."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    parts = [
        f"{cpu_model()}, {physical_cores()} cores, {os.cpu_count()} threads",
        f"{platform.system()} {platform.release()}",
        datetime.date.today().isoformat(),
        first_line([cli, "--version"]) or Path(cli).name,
        f"commit {first_line(['git', '-C', HERE, 'rev-parse', '--short', 'HEAD']) or 'unknown'}",
        *versions,
    ]
    return "; ".join(filter(None, parts))


def cpu_model() -> str:
    return next((value for key, value in cpu_info() if key == "model name"), platform.processor())


def physical_cores() -> int:
    """Distinct (package, core) pairs; the number of threads if the system does not report them."""
    packages = [value for key, value in cpu_info() if key == "physical id"]
    cores = [value for key, value in cpu_info() if key == "core id"]
    return len(set(zip(packages, cores))) or os.cpu_count() or 1


def cpu_info() -> list[tuple[str, str]]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    pairs = (line.partition(":") for line in lines)
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def first_line(command: list[str]) -> str:
    """The first line of a command's output; empty if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().partition("\n")[0]
