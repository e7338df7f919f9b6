#!/usr/bin/env python3
"""Builds the wheel of bindings/python and runs its tests, in a separate environment.

    python3 tools/check_python.py [--release] [-- PYTEST ARGUMENTS…]

If PyPI cannot be reached, it reports that and succeeds. `--release` builds the wheel as it is shipped;
the default is the development build, most of which `cargo test` has already built.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import environment

ROOT = environment.TOOLS.parent
PACKAGE = ROOT / "bindings" / "python"
#: The maximum size of a wheel.
MOST_BYTES = 6 << 20
#: Compresses wheels as they are shipped.
ZOPFLI = "zopflipy==1.14"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="store_true", help="build as the wheel is shipped")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest")
    arguments = parser.parse_args()
    try:
        requirements = environment.TOOLS / "requirements-python.txt"
        python = environment.prepare(environment.TARGET / "venv-python", requirements)
    except environment.Unavailable as reason:
        print(f"skipped: {reason}")
        return 0
    wheel = built(python, "dist" if arguments.release else "dev")
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")
    if arguments.release and wheel.stat().st_size > MOST_BYTES:
        print(f"more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
        return 1
    pip = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", str(wheel)]
    subprocess.run(pip, check=True)
    tests = [str(python), "-m", "pytest", "-q", "-W", "ignore::RuntimeWarning", "-p", "no:cacheprovider", str(PACKAGE / "tests")]
    return subprocess.call([*tests, *arguments.pytest], cwd=environment.TARGET)


def built(python: Path, profile: str) -> Path:
    """Builds the wheel and returns its path."""
    folder = environment.TARGET / "wheels" / profile
    for old in folder.glob("*.whl"):
        old.unlink()
    command = [str(python), "-m", "maturin", "build", "-q", "--profile", profile, "-o", str(folder)]
    subprocess.run([*command, "-i", str(python), "-m", str(PACKAGE / "Cargo.toml")], check=True)
    (wheel,) = folder.glob("*.whl")
    if profile == "dist":
        subprocess.run([str(python), "-m", "pip", "install", "-q", ZOPFLI], check=True)
        subprocess.run([str(python), str(environment.TOOLS / "repack_wheel.py"), str(wheel)], check=True)
    return wheel


if __name__ == "__main__":
    sys.exit(main())
