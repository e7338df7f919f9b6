#!/usr/bin/env python3
"""Compresses a wheel again, with zopfli: the same files, as small as deflate can store them.

    python3 tools/repack_wheel.py WHEEL

Needs zopflipy, which `check_python.py --release` installs before it calls this.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import zopfli


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    wheel = Path(sys.argv[1])
    small = wheel.with_suffix(".repacked")
    with zipfile.ZipFile(wheel) as old, zopfli.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info, old.read(info))
    small.replace(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
