#!/usr/bin/env python3
"""Packs the node cases into the single file that the conformance tests read.

    python3 tools/pack_node_cases.py [--cases target/models/node] [--out FILE] [--check]

The container, all numbers little-endian base-128 varints (seven bits a byte, the lowest first, the
top bit set on all but the last byte). The file is one zlib stream (RFC 1950); inflated it is:

    magic       the 8 bytes "ORTCASE1"
    n_files     then for each file, sorted by extension and path:
                    n_bytes of its path below the cases' folder, that path (UTF-8, "/"),
                    n_bytes of the file
    n_copies    then for each copy: n_literal, n_copied, distance
    literals    the rest

The concatenated files are restored by this loop: for each copy, append the next n_literal
literals, then n_copied bytes from `distance` bytes before the end (the two may overlap);
finally append the remaining literals. So a tensor shared by many cases is stored once, and a model
as its difference from an earlier one; deflate alone sees only the last 32 KiB.

The same files give the same bytes with the same version of zlib. Regenerated cases differ in
their models, which onnxruntime writes in the varying order of its hash tables; so
`--check` considers models of equal size equal.
"""

from __future__ import annotations

import argparse
import os
import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAGIC = b"ORTCASE1"
# Copies are searched where 16 bytes recur, at positions that are multiples of 4. Copies shorter than
# 64 bytes are left to deflate, which encodes them in less space.
SEED, STEP, SHORTEST = 16, 4, 64


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def find_copies(data: bytes) -> tuple[bytes, bytes, int]:
    """(literals, copies, n_copies) of the greedy parse of `data`, as the container stores them."""
    first_at: dict[bytes, int] = {}
    literals, copies, n_copies = bytearray(), bytearray(), 0
    indexed, done, at = 0, 0, 0  # positions below `done` are written, below `indexed` in the table
    while at + SEED <= len(data):
        while indexed + SEED <= at:
            first_at.setdefault(data[indexed : indexed + SEED], indexed)
            indexed += STEP
        source = first_at.get(data[at : at + SEED])
        if source is not None:
            start, end, source = grown(data, at, source, done)
            if end - start >= SHORTEST:
                copies += varint(start - done) + varint(end - start) + varint(start - source)
                literals += data[done:start]
                n_copies += 1
                done = at = end
                continue
        at += 1
    return bytes(literals + data[done:]), bytes(copies), n_copies


def grown(data: bytes, at: int, source: int, floor: int) -> tuple[int, int, int]:
    """Extends the equal bytes at `at` and `source` in both directions: (start, end, start of the source)."""
    end = at + SEED
    distance = at - source
    while end < len(data) and data[end] == data[end - distance]:
        end += 1
    while at > floor and source > 0 and data[at - 1] == data[source - 1]:
        at, source = at - 1, source - 1
    return at, end, source


def pack(files: dict[str, bytes]) -> bytes:
    names = sorted(files, key=lambda path: (os.path.splitext(path)[1], path))
    index = varint(len(names))
    for name in names:
        path = name.encode()
        index += varint(len(path)) + path + varint(len(files[name]))
    literals, copies, n_copies = find_copies(b"".join(files[name] for name in names))
    return zlib.compress(MAGIC + index + varint(n_copies) + copies + literals, 9)


class Reader:
    """Reads numbers and bytes from the front of `data`."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self) -> int:
        number = shift = 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number


def unpack(packed: bytes) -> dict[str, bytes]:
    """Unpacks the files: a complete reader of the container."""
    reader = Reader(zlib.decompress(packed))
    if reader.take(len(MAGIC)) != MAGIC:
        raise ValueError("not a file of node cases")
    sizes = {}
    for _ in range(reader.number()):
        path = reader.take(reader.number()).decode()
        sizes[path] = reader.number()
    copies = [[reader.number() for _ in range(3)] for _ in range(reader.number())]
    data = bytearray()
    for n_literal, n_copied, distance in copies:
        data += reader.take(n_literal)
        while n_copied > 0:  # a copy that overlaps itself is done in pieces of `distance`
            start = len(data) - distance
            piece = data[start : start + n_copied]
            data += piece
            n_copied -= len(piece)
    data += reader.data[reader.at :]
    contents = Reader(bytes(data))
    return {path: contents.take(size) for path, size in sizes.items()}


def read_cases(folder: Path) -> dict[str, bytes]:
    """The files of each case that the tests need: all but model.onnx."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in (".ort", ".pb", ".txt")
    }


def differences(made: dict[str, bytes], stored: dict[str, bytes]) -> list[str]:
    def content(files: dict[str, bytes], path: str):
        file = files.get(path)
        return len(file) if file is not None and path.endswith(".ort") else file

    paths = sorted(made.keys() | stored.keys())
    return [path for path in paths if content(made, path) != content(stored, path)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    fixture = ROOT / "ort-conformance/fixtures/node_cases.bin"
    parser.add_argument("--cases", type=Path, default=ROOT / "target/models/node")
    parser.add_argument("--out", type=Path, default=fixture)
    parser.add_argument("--check", action="store_true", help="compare with --out, write nothing")
    args = parser.parse_args()
    files = read_cases(args.cases)
    if not files:
        sys.exit(f"no cases in {args.cases}: make them with tools/make_models.py node")
    if args.check:
        different = differences(files, unpack(args.out.read_bytes()))
        sys.exit(f"{len(different)} files differ, the first is {different[0]}" if different else 0)
    packed = pack(files)
    if unpack(packed) != files:
        sys.exit("the packed cases do not unpack to the same files")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_bytes(packed)
    n_cases = sum(path.endswith(".ort") for path in files)
    n_bytes = sum(map(len, files.values()))
    print(f"{n_cases} cases, {len(files)} files: {n_bytes} bytes packed to {len(packed)}")


if __name__ == "__main__":
    main()
