"""The virtual environment of these scripts: created once, below target/, from pinned requirements.

    import environment
    environment.enter()          # first, before importing installed packages

`enter` returns only inside that environment. From outside, it creates the environment if necessary,
runs the same command in it, and exits with that command's status. So every script here
runs as `python3 tools/SCRIPT.py`, without manual installation.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
TARGET = TOOLS.parent / "target"


class Unavailable(SystemExit):
    """The packages cannot be installed: no network, or no wheel for this machine.

    A script that does not catch this ends with its message.
    """


def enter(requirements: str = "requirements.txt", folder: str = "venv") -> None:
    """Continues inside target/FOLDER, where the packages of tools/REQUIREMENTS are installed."""
    home = TARGET / folder
    if Path(sys.prefix).resolve() == home.resolve():
        return
    python = prepare(home, TOOLS / requirements)
    sys.exit(subprocess.call([str(python), *sys.argv]))


def prepare(home: Path, requirements: Path) -> Path:
    """Creates the environment `home` unless it exists and is up to date; returns its interpreter."""
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp, wanted = home / "requirements.sha256", digest(requirements)
    if not (stamp.exists() and stamp.read_text() == wanted):
        pip = [str(python), "-m", "pip", "install", "-q", "--retries", "2"]
        try:
            venv.create(home, with_pip=True, clear=True)
            subprocess.run([*pip, "-r", str(requirements)], check=True)
        except (subprocess.CalledProcessError, OSError) as reason:
            raise Unavailable(f"{requirements.name} could not be installed: {reason}") from None
        stamp.write_text(wanted)
    return python


def digest(requirements: Path) -> str:
    """Changes with the list, with those that it includes by `-r`, and with the interpreter."""
    text = sys.version
    for line in requirements.read_text().splitlines():
        text += line + "\n"
        if line.startswith("-r "):
            text += (requirements.parent / line[3:].strip()).read_text()
    return hashlib.sha256(text.encode()).hexdigest()
