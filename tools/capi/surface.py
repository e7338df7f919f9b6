"""What the library offers to programs: its symbols, its table, its size."""

from __future__ import annotations

import json
import re
from pathlib import Path

from .library import LIBRARY, ROOT, WORK, headers, run, tool

#: Functions that ort-sys names differently from the header.
RENAMED = {"AddExternalInitializersFromMemory": "AddExternalInitializersFromFilesInMemory"}
#: The tables of functions.
TABLES = ["OrtApi", "OrtModelEditorApi", "OrtCompileApi"]
#: The maximum size of the library, without symbols.
MOST_BYTES = 8 << 20


def symbols() -> str:
    lines = run([tool("nm"), "-D", "--defined-only", str(LIBRARY)]).splitlines()
    names = sorted(line.split()[-1] for line in lines)
    assert names == ["OrtGetApiBase", "OrtSessionOptionsAppendExecutionProvider_CPU"], f"exports {names}"
    name = re.search(r"SONAME\s+(\S+)", run([tool("objdump"), "-p", str(LIBRARY)]))
    assert name and name[1] == "libonnxruntime.so.1", f"has the name {name}"
    return f"{', '.join(names)} of {name[1]}"


def size() -> str:
    stripped = WORK / "stripped.so"
    run([tool("strip"), "-o", str(stripped), str(LIBRARY)])
    n_bytes = stripped.stat().st_size
    assert n_bytes <= MOST_BYTES, f"{n_bytes / 2**20:.1f} MiB, more than {MOST_BYTES >> 20}"
    return f"{n_bytes / 2**20:.1f} MiB"


def declared() -> dict[str, list[str]]:
    """The functions of each table, in the order of the declarations that the library is built from."""
    metadata = json.loads(run(["cargo", "metadata", "--format-version", "1"], cwd=ROOT))
    (package,) = (it for it in metadata["packages"] if it["name"] == "ort-sys")
    text = (Path(package["manifest_path"]).parent / "src" / "lib.rs").read_text()
    # Some functions are declared twice: once for WebAssembly.
    return {
        table: [RENAMED.get(name, name) for name in dict.fromkeys(re.findall(r"^\tpub (\w+):", body, re.MULTILINE))]
        for table, body in ((table, struct(text, f"pub struct {table} {{")) for table in TABLES)
    }


def struct(text: str, start: str) -> str:
    """The fields of a struct, in Rust or in C."""
    body = text[text.index(start) + len(start):]
    return body[: re.search(r"^\};?$", body, re.MULTILINE).start()]


def table() -> str:
    """Compiles assertions on the offset of each function in the header."""
    text = (headers() / "onnxruntime_c_api.h").read_text()
    asserts, counts = [], []
    for table, names in declared().items():
        body = re.sub(r"ORT_CLASS_RELEASE\((\w+)\)", r"Release\1", struct(text, f"struct {table} {{"))
        known = [name for name in names if re.search(rf"\b{name}\b", body)]
        assert known == names[: len(known)], f"the header lacks a function that precedes others it has, of {table}"
        for i, name in enumerate(known):
            asserts.append(f"_Static_assert(offsetof({table}, {name}) == {i} * sizeof(void *), \"{name}\");")
        counts.append(f"{len(known)} of {len(names)} of {table}")
    asserts.append(f"_Static_assert(sizeof(OrtApi) == {counts[0].split()[0]} * sizeof(void *), \"size\");")
    source = WORK / "offsets.c"
    source.write_text("#include <onnxruntime_c_api.h>\n#include <stddef.h>\n" + "\n".join(asserts) + "\n")
    run([tool("gcc"), "-fsyntax-only", f"-I{headers()}", str(source)])
    version = re.search(r"#define ORT_API_VERSION (\d+)", text)
    return f"version {version[1] if version else '?'} has the offsets of {', '.join(counts)}"
