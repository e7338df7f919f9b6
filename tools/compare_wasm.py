#!/usr/bin/env python3
"""Compares the npm package of bindings/wasm with onnxruntime-web, in Node, with one thread: time, first start, size of the download.

    python3 tools/check_wasm.py --release && python3 tools/compare_wasm.py [FOLDER…]

A folder has a `model.ort` or `model.onnx`, and a `test_data_set_0`; the default is those of models/. Needs the npm registry. Each number is the best of
several processes, which alternate.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import subprocess
import sys
from pathlib import Path

import environment

ROOT = environment.TOOLS.parent
OURS = environment.TARGET / "wasm" / "package"
PEER = environment.TARGET / "wasm-peer"
PEER_VERSION = "1.30.0"
ROUNDS = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = sorted(path.parent for path in (ROOT / "models").glob("*/model.ort"))
    parser.add_argument("folders", nargs="*", type=Path, default=default)
    arguments = parser.parse_args()
    if not OURS.exists():
        print("first: python3 tools/check_wasm.py --release", file=sys.stderr)
        return 1
    if not (theirs := installed()):
        print("skipped: onnxruntime-web cannot be installed")
        return 0
    packages = {"ort-wasm": OURS / "index.js", "onnxruntime-web": theirs / "ort.wasm.min.mjs"}
    print("| model | run, ms | onnxruntime-web | ratio | first start, ms | onnxruntime-web | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    ratios: list[tuple[float, float]] = []
    for folder in arguments.folders:
        rounds = [{name: timed(path, folder) for name, path in packages.items()} for _ in range(ROUNDS)]
        run, start = ([min(record[name][what] for record in rounds) for name in packages] for what in ("run", "start"))
        ratios.append((run[0] / run[1], start[0] / start[1]))
        cells = [folder.name, *(f"{value:.2f}" for value in (*run, ratios[-1][0], *start, ratios[-1][1]))]
        print(f"| {' | '.join(cells)} |", flush=True)
    means = [math.exp(sum(map(math.log, column)) / len(column)) for column in zip(*ratios)]
    print(f"| geometric mean | | | {means[0]:.2f} | | | {means[1]:.2f} |")
    sizes = [compressed(OURS / "ort_wasm_bg.wasm"), compressed(theirs / "ort-wasm-simd-threaded.wasm")]
    print(f"\ndownload, gzip: {sizes[0]:.2f} MiB next to {sizes[1]:.2f} MiB")
    return 0


def installed() -> Path | None:
    """The folder of onnxruntime-web's files."""
    files = PEER / "node_modules" / "onnxruntime-web" / "dist"
    if not files.exists():
        PEER.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--ignore-scripts", "--prefix", str(PEER)]
        subprocess.run([*command, f"onnxruntime-web@{PEER_VERSION}"], check=False)
    return files if files.exists() else None


def timed(package: Path, folder: Path) -> dict[str, float]:
    script = environment.TARGET / "wasm" / "tests" / "time_model.mjs"
    command = ["node", str(script), str(package), str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def compressed(path: Path) -> float:
    return len(gzip.compress(path.read_bytes(), 9)) / 2**20


if __name__ == "__main__":
    sys.exit(main())
