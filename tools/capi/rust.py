"""Programs of Rust crates that use the crate `ort`."""

from __future__ import annotations

import os
from pathlib import Path

import onnxruntime

from .library import LIBRARY, PROGRAMS, ROOT, WORK, Skipped, run
from .models import compare


def built(name: str) -> Path:
    """A package of bindings/c/programs, compiled; its program."""
    target = WORK / "cargo"
    try:
        run(["cargo", "build", "-q", "--locked", "--target-dir", str(target)], cwd=PROGRAMS / name)
    except AssertionError as reason:
        raise Skipped(f"the program `{name}` does not build: {reason}") from None
    return target / "debug" / f"run-{name}"


def loading(library: Path) -> dict[str, str]:
    """An environment in which the crate `ort` loads a library."""
    return {**os.environ, "ORT_DYLIB_PATH": str(library)}


def original() -> Path:
    """onnxruntime's own library, which its Python package contains."""
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.1*")
    return library


def ort() -> str:
    """A program of the crate `ort`, which loads the library."""
    return compare([str(built("ort"))], env=loading(LIBRARY))


def magika() -> str:
    """The types of files by the crate `magika`, on onnxruntime and on our library."""
    program = str(built("magika"))
    files = sorted(path for path in PROGRAMS.iterdir() if path.is_file())
    files += [ROOT / "README.md", ROOT / "Cargo.toml", Path(__file__), *ROOT.glob("models/*/model.o*")]
    theirs, ours = (
        [line.split() for line in run([program, *map(str, files)], env=loading(library)).splitlines()]
        for library in (original(), LIBRARY)
    )
    assert len(theirs) == len(files), f"{len(theirs)} results for {len(files)} files"
    for file, (label, score), (our_label, our_score) in zip(files, theirs, ours, strict=True):
        is_same = label == our_label and abs(float(score) - float(our_score)) < 1e-3
        assert is_same, f"{file}: {label} {score}, and here {our_label} {our_score}"
    labels = {label for label, _ in theirs}
    return f"magika 1.1.0: {len(files)} files, {len(labels)} types ({', '.join(sorted(labels))})"
