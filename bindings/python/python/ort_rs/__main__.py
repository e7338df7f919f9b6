"""`python -m ort_rs SCRIPT|-m MODULE ARGS…`: runs a program with `onnxruntime` meaning this package."""

from __future__ import annotations

import os
import runpy
import sys

from ort_rs import install_as_onnxruntime

USAGE = "usage: python -m ort_rs SCRIPT|-m MODULE [ARGUMENTS…]"


def main() -> None:
    """Runs the script or module on the command line."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        sys.exit(USAGE)
    install_as_onnxruntime()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
