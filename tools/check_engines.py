#!/usr/bin/env python3
"""Builds the wheel and runs models in Ray, Spark and Dask on this machine: results, files per machine, killed workers.

    python3 tools/check_engines.py [--release] [--rows N] [-- PYTEST ARGUMENTS…]

The engines come from PyPI, and Java from Debian if there is none. What cannot be reached is reported and skipped. By default, a
development build computes 1,000 rows; with `--release`, the wheel as it is shipped computes 10,000.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import check_python
import environment


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="store_true", help="build as the wheel is shipped")
    parser.add_argument("--rows", type=int, help="the number of inputs")
    parser.add_argument("--wheel", type=Path, help="a wheel, instead of building one")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest")
    arguments = parser.parse_args()
    try:
        python = prepared()
    except environment.Unavailable as reason:
        print(f"skipped: {reason}")
        return 0
    install(python, arguments.wheel or check_python.built(python, "dist" if arguments.release else "dev"))
    if reason := missing_java():
        print(f"skipped, Spark's tests: {reason}")
    env = dict(os.environ, ORT_RS_ROWS=str(arguments.rows or (10000 if arguments.release else 1000)))
    tests = ["-m", "pytest", "-q", "-rs", "-W", "ignore", "-p", "no:cacheprovider", str(check_python.PACKAGE / "tests" / "engines")]
    more = [str(check_python.PACKAGE / "tests" / name) for name in ("test_arrow.py", "test_node.py", "test_pickle.py")]
    return subprocess.call([str(python), *tests, *more, *arguments.pytest], cwd=environment.TARGET, env=env)


def prepared() -> Path:
    """The interpreter of the environment with the engines."""
    return environment.prepare(environment.TARGET / "venv-engines", environment.TOOLS / "requirements-engines.txt")


def install(python: Path, wheel: Path) -> None:
    pip = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", str(wheel)]
    subprocess.run(pip, check=True)


def missing_java() -> str:
    """Why there is no Java; empty if there is one, which is installed if this is Debian and the user is root."""
    if shutil.which("java"):
        return ""
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return "no java, and only root on Debian can install it"
    for command in (["update"], ["install", "-y", "--no-install-recommends", "default-jre-headless"]):
        run = subprocess.run(["apt-get", "-qq", *command], capture_output=True, text=True)
        if run.returncode:
            return f"no java: {(run.stderr.strip().splitlines() or ['apt-get failed'])[-1]}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
