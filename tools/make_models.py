#!/usr/bin/env python3
"""Generates the test models: `.ort` files with reference tensors.

    python3 tools/make_models.py [--out target/models] [PART ...]

    OUT/node/NAME/   the node cases of the onnx package that onnxruntime can save as `.ort`:
                     model.ort, model.onnx, tol.txt ("rtol atol") and
                     test_data_set_K/{input,output}_J.pb, whose outputs are the standard's
    OUT/real/NAME/   models contained in PyPI packages:
                     model.raw.ort      onnxruntime at ORT_DISABLE_ALL
                     model.default.ort  what onnxruntime's converter writes: all levels, no NCHWc
                     model.all.ort      ORT_ENABLE_ALL on this machine: NCHWc nodes inside
                     model.onnx, tol.txt and test_data_set_0/: seeded inputs, and the outputs of
                     onnxruntime at ORT_DISABLE_ALL
    OUT/built/NAME/  the same files, for models written node by node (`models/mobilenet.py`, ...)
    OUT/hard/NAME/   the same files, for a model or two of each class that may be slow
    OUT/transposed/NAME/ the same files, for networks with transposed convolutions
    OUT/single/NAME/ the same files, for single convolutions
    OUT/blocks/NAME/ the same files, for hundreds of small random networks, which onnxruntime converts
                     to NCHWc at ORT_ENABLE_ALL: `ort-cli test OUT/blocks` must pass
    OUT/standard/{node,simple,pytorch-operator,pytorch-converted,light}/NAME/
                     the backend tests of the onnx package, all of them, as `.onnx` only

PART is node, real, built, hard, transposed, single, blocks or standard; the default is all. They take several minutes
and 4 GB. `--only NAME` restricts the models by name.

onnxruntime's NCHWc blocks have 16 channels with AVX-512 and 8 without. An emulator hides AVX-512:

    qemu-x86_64 -cpu Haswell target/venv/bin/python tools/make_models.py blocks --out target/models8
"""

from __future__ import annotations

import argparse
from pathlib import Path

import environment

environment.enter()

from models import blocks, built, hard, node, real, single, standard, transposed

PARTS = {
    "node": node.make,
    "real": real.make,
    "built": built.make,
    "single": single.make,
    "hard": hard.make,
    "transposed": transposed.make,
    "blocks": blocks.make,
    "standard": standard.make,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=environment.TARGET / "models")
    parser.add_argument("--only", action="append", metavar="NAME", help="may be repeated")
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; known are {', '.join(PARTS)}")
    for part in args.parts or PARTS:
        PARTS[part](args.out, args.only)


if __name__ == "__main__":
    main()
