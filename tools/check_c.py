#!/usr/bin/env python3
"""Builds libonnxruntime and runs programs on it that were written for onnxruntime.

    python3 tools/check_c.py [--release | --address] [--seconds N] [STEP ...]

Programs in C, in C++, in Rust with the crate `ort`, and for Node run the models of models/, and their outputs are compared with those
stored with the models. Programs of others run on onnxruntime's library and on this one, with the same results. Every offset of the table
is compared with onnxruntime's header, and the library exports nothing but `Ort*`. The headers come from Debian unstable, packages from npm,
PyPI and crates.io; what is unavailable is reported and skipped. The default is every step.

`--release` builds the library as it is shipped. `--address` builds it with AddressSanitizer, for the steps in C and C++. `--seconds`
is the time of the step `threads`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import environment

environment.enter()

from capi import library, native, node, ort_tests, rust, surface

STEPS = {
    "symbols": surface.symbols,
    "table": surface.table,
    "C": native.program_in_c,
    "C++": native.program_in_cpp,
    "custom operators": native.custom,
    "model editor": native.editor,
    "threads": native.threads,
    "linked": native.linked,
    "ort": rust.ort,
    "tests of ort": ort_tests.ort_tests,
    "magika": rust.magika,
    "Node": node.node,
    "transformers": node.transformers,
}
#: Those whose programs can be linked to AddressSanitizer.
COMPILED = ["C", "C++", "custom operators", "model editor", "threads"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    builds = parser.add_mutually_exclusive_group()
    builds.add_argument("--release", action="store_true", help="build the library as it is shipped")
    builds.add_argument("--address", action="store_true", help="build the library with AddressSanitizer")
    parser.add_argument("--seconds", type=int, default=3, help="the time of the step `threads`")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(STEPS))
    arguments = parser.parse_args()
    if unknown := set(arguments.steps) - set(STEPS):
        parser.error(f"no step {', '.join(sorted(unknown))}; known are {', '.join(STEPS)}")
    steps = {name: STEPS[name] for name in arguments.steps or (COMPILED if arguments.address else STEPS)}
    if "threads" in steps:
        steps["threads"] = lambda: native.threads(arguments.seconds)
    if arguments.release:
        steps["size"] = surface.size
    if arguments.address:
        library.build_with_address_sanitizer()
    else:
        library.build("dist" if arguments.release else "dev")
    failed = 0
    for name, step in steps.items():
        try:
            print(f"{name}: {step()}", flush=True)
        except library.Skipped as reason:
            print(f"{name}: skipped: {reason}")
        except (AssertionError, subprocess.CalledProcessError) as reason:
            print(f"{name}: FAILED: {reason}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
