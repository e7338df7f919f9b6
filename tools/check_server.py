#!/usr/bin/env python3
"""Tests ort-server with clients from PyPI: tritonclient over HTTP and gRPC, and a short load of valid and invalid requests.

    python3 tools/check_server.py [--release] [-- PYTEST ARGUMENTS…]

If PyPI cannot be reached, it reports that and succeeds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import environment

ROOT = environment.TOOLS.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="store_true", help="test a release build")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest")
    arguments = parser.parse_args()
    try:
        requirements = environment.TOOLS / "requirements-server.txt"
        python = environment.prepare(environment.TARGET / "venv-server", requirements)
    except environment.Unavailable as reason:
        print(f"skipped: {reason}")
        return 0
    if arguments.release:
        command = ["cargo", "build", "-q", "-p", "ort-server", "--release"]
    else:
        # As `cargo test` builds it, with the features of all crates: it has, as a rule.
        command = ["cargo", "test", "-q", "--workspace", "--no-run", "--test", "server"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", environment.TARGET)
    program = f"{target}/{'release' if arguments.release else 'debug'}/ort-server"
    tests = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(ROOT / "ort-server" / "tests" / "clients")]
    command = [*tests, *arguments.pytest]
    status = subprocess.call(command, cwd=environment.TARGET, env={**os.environ, "ORT_SERVER": program})
    if status or arguments.pytest:
        return status
    # A short load: its memory is not judged.
    return subprocess.call([str(python), str(environment.TOOLS / "soak_server.py"), "--minutes", "0.1", "--program", program])


if __name__ == "__main__":
    sys.exit(main())
