#!/usr/bin/env python3
"""Builds libonnxruntime and runs programs on it that were written for onnxruntime.

    python3 tools/check_c.py [--release]

A program in C, one in C++, one of the Rust crate `ort` and one for Node run the models of models/, and their outputs are compared with those
stored with the models. Another one runs a model with custom operators of its own and of a library. Every offset of the table is compared with onnxruntime's header, and the library exports nothing
but `Ort*`. The headers come from Debian unstable, onnxruntime-node from npm; what is unavailable is reported and skipped.
`--release` builds the library as it is shipped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import environment

environment.enter()

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = environment.TOOLS.parent
BINDING = ROOT / "bindings" / "c"
#: The library with its headers, as a package installs them.
PREFIX = environment.TARGET / "c" / "onnxruntime"
NODE = environment.TARGET / "c" / "node"
NODE_PACKAGE = "onnxruntime-node@1.30.0"
SUITE = "http://deb.debian.org/debian unstable main"
#: Functions that ort-sys names differently from the header.
RENAMED = {"AddExternalInitializersFromMemory": "AddExternalInitializersFromFilesInMemory"}
#: The maximum size of the library, without symbols.
MOST_BYTES = 8 << 20


class Skipped(Exception):
    """A step that cannot run on this machine."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="store_true", help="build the library as it is shipped")
    arguments = parser.parse_args()
    build("dist" if arguments.release else "dev")
    steps = {"symbols": symbols, "table": table, "C": program_in_c, "C++": program_in_cpp, "custom operators": custom, "model editor": editor, "ort": crate, "Node": node}
    if arguments.release:
        steps["size"] = size
    failed = 0
    for name, step in steps.items():
        try:
            print(f"{name}: {step()}")
        except Skipped as reason:
            print(f"{name}: skipped: {reason}")
        except (AssertionError, subprocess.CalledProcessError) as reason:
            print(f"{name}: FAILED: {reason}")
            failed += 1
    return 1 if failed else 0


def build(profile: str) -> None:
    """Builds the library and places it as in a package."""
    subprocess.run(["cargo", "build", "-q", "--profile", profile, "-p", "ort-capi"], check=True, cwd=ROOT)
    target = Path(os.environ.get("CARGO_TARGET_DIR", environment.TARGET))
    library = target / ("debug" if profile == "dev" else profile) / "libonnxruntime.so"
    for folder in ("lib/pkgconfig", "lib/cmake/onnxruntime"):
        (PREFIX / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(library, PREFIX / "lib" / "libonnxruntime.so.1")
    link = PREFIX / "lib" / "libonnxruntime.so"
    link.unlink(missing_ok=True)
    link.symlink_to("libonnxruntime.so.1")
    shutil.copy(BINDING / "package" / "libonnxruntime.pc", PREFIX / "lib" / "pkgconfig")
    shutil.copy(BINDING / "package" / "onnxruntimeConfig.cmake", PREFIX / "lib" / "cmake" / "onnxruntime")


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Skipped(f"{name} is not installed")
    return found


def run(command: list[str], **more: object) -> str:
    """The output of a command; fails with its error message."""
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{command[0]} failed with status {done.returncode}: {(done.stderr or done.stdout)[-600:]}"
    return done.stdout


def symbols() -> str:
    library = PREFIX / "lib" / "libonnxruntime.so.1"
    lines = run([tool("nm"), "-D", "--defined-only", str(library)]).splitlines()
    names = sorted(line.split()[-1] for line in lines)
    assert names == ["OrtGetApiBase", "OrtSessionOptionsAppendExecutionProvider_CPU"], f"exports {names}"
    name = re.search(r"SONAME\s+(\S+)", run([tool("objdump"), "-p", str(library)]))
    assert name and name[1] == "libonnxruntime.so.1", f"has the name {name}"
    return f"{', '.join(names)} of {name[1]}"


def size() -> str:
    stripped = environment.TARGET / "c" / "stripped.so"
    run([tool("strip"), "-o", str(stripped), str(PREFIX / "lib" / "libonnxruntime.so.1")])
    n_bytes = stripped.stat().st_size
    assert n_bytes <= MOST_BYTES, f"{n_bytes / 2**20:.1f} MiB, more than {MOST_BYTES >> 20}"
    return f"{n_bytes / 2**20:.1f} MiB"


def headers() -> Path:
    """onnxruntime's headers, from Debian's package."""
    include = PREFIX / "include"
    if (include / "onnxruntime_c_api.h").exists():
        return include
    apt = environment.TARGET / "c" / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    (apt / "sources.list").write_text(f"deb [trusted=yes] {SUITE}\n")
    options = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Architecture": "amd64",
    }
    get = [tool("apt-get"), "-q", *(part for key, value in options.items() for part in ("-o", f"{key}={value}"))]
    try:
        run([*get, "update"])
        run([*get, "download", "libonnxruntime-dev"], cwd=apt)
        (package,) = apt.glob("libonnxruntime-dev_*.deb")
        run([tool("dpkg-deb"), "-x", str(package), str(apt / "files")])
    except (AssertionError, ValueError) as reason:
        raise Skipped(f"no headers from Debian: {reason}") from None
    shutil.copytree(apt / "files" / "usr" / "include" / "onnxruntime", include, dirs_exist_ok=True)
    return include


def declared() -> list[str]:
    """The functions of the table, in the order of the declarations that the library is built from."""
    metadata = json.loads(run(["cargo", "metadata", "--format-version", "1"], cwd=ROOT))
    (package,) = (it for it in metadata["packages"] if it["name"] == "ort-sys")
    text = (Path(package["manifest_path"]).parent / "src" / "lib.rs").read_text()
    body = text[text.index("pub struct OrtApi {"):]
    body = body[: body.index("\n}\n")]
    names = re.findall(r"^\tpub (\w+):", body, re.MULTILINE)
    # Some functions are declared twice: once for WebAssembly.
    return [RENAMED.get(name, name) for name in dict.fromkeys(names)]


def table() -> str:
    """Compiles assertions on the offset of each function in the header."""
    text = (headers() / "onnxruntime_c_api.h").read_text()
    body = text[text.index("struct OrtApi {"):]
    body = re.sub(r"ORT_CLASS_RELEASE\((\w+)\)", r"Release\1", body[: body.index("\n};\n")])
    names = declared()
    known = [name for name in names if re.search(rf"\b{name}\b", body)]
    assert known == names[: len(known)], "the header lacks a function that precedes others it has"
    asserts = [f"_Static_assert(offsetof(OrtApi, {name}) == {i} * sizeof(void *), \"{name}\");" for i, name in enumerate(known)]
    asserts.append(f"_Static_assert(sizeof(OrtApi) == {len(known)} * sizeof(void *), \"size\");")
    source = environment.TARGET / "c" / "offsets.c"
    source.write_text("#include <onnxruntime_c_api.h>\n#include <stddef.h>\n" + "\n".join(asserts) + "\n")
    run([tool("gcc"), "-fsyntax-only", f"-I{headers()}", str(source)])
    version = re.search(r"#define ORT_API_VERSION (\d+)", text)
    return f"{len(known)} offsets of {len(names)} match version {version[1] if version else '?'}"


def models() -> Iterator[Path]:
    found = sorted([*(ROOT / "models").glob("*/model.ort"), *(ROOT / "models").glob("*/model.onnx")])
    assert found, "there are no models"
    yield from found


def tensors(model: Path, kind: str) -> list[onnx.TensorProto]:
    files = sorted((model.parent / "test_data_set_0").glob(f"{kind}_*.pb"))
    return [onnx.load_tensor(str(file)) for file in files]


def compare(command: list[str], **more: object) -> str:
    """Runs every model with a program, and compares its outputs."""
    for model in models():
        folder = environment.TARGET / "c" / "data"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        inputs = []
        for i, tensor in enumerate(tensors(model, "input")):
            array = numpy_helper.to_array(tensor)
            (folder / f"input_{i}").write_bytes(array.tobytes())
            shape = ",".join(map(str, array.shape)) or "s"
            inputs.append(f"{tensor.name}:{tensor.data_type}:{shape}:{folder / f'input_{i}'}")
        run([*command, str(model), str(folder), *inputs], **more)
        for i, tensor in enumerate(tensors(model, "output")):
            expected = numpy_helper.to_array(tensor)
            actual = np.fromfile(folder / f"{i}.bin", expected.dtype)
            assert actual.size == expected.size, f"{model}: output {i} has {actual.size} elements"
            close = np.allclose(actual, expected.ravel(), rtol=1e-3, atol=1e-4)
            assert close, f"{model}: output {i} differs by {np.abs(actual - expected.ravel()).max()}"
    return f"{len(list(models()))} models"


def compiled(compiler: str, source: str, *flags: str) -> Path:
    """A program of bindings/c/programs, compiled as its build system would."""
    headers()
    flags_of = [tool("pkg-config"), "--cflags", "--libs", "libonnxruntime"]
    environ = {**os.environ, "PKG_CONFIG_PATH": str(PREFIX / "lib" / "pkgconfig")}
    library = run(flags_of, env=environ).split()
    program = environment.TARGET / "c" / source.replace(".", "_")
    path = BINDING / "programs" / source
    rpath = f"-Wl,-rpath,{PREFIX / 'lib'}"
    run([tool(compiler), *flags, "-Wall", "-O1", str(path), "-o", str(program), *library, rpath])
    return program


def program_in_c() -> str:
    return compare([str(compiled("gcc", "run.c", "-std=gnu11"))])


def program_in_cpp() -> str:
    return compare([str(compiled("g++", "run.cc", "-std=c++17"))])


def custom() -> str:
    """Custom operators: those of a library in C, and those of the C++ wrapper."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None]) for name in "xy")
    nodes = [
        helper.make_node("Scale", ["x"], ["scaled"], domain="test.c", factor=2.0),
        helper.make_node("Positive", ["scaled"], ["found"], "the positive one", domain="test.cpp"),
        helper.make_node("Twice", ["found"], ["doubled"], domain="test.cpp"),
        helper.make_node("Minus", ["doubled"], ["y"], domain="test.cpp"),
    ]
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", 17), ("test.c", 1), ("test.cpp", 1))]
    model = helper.make_model(helper.make_graph(nodes, "custom", [x], [y]), opset_imports=opsets, ir_version=8)
    path = environment.TARGET / "c" / "custom.onnx"
    program = compiled("g++", "custom.cc", "-std=c++17")
    library = compiled("gcc", "custom_ops.c", "-std=gnu11", "-shared", "-fPIC")
    onnx.save(model, str(path))
    run([str(program), str(path), str(library)])
    return "one of C, three of C++"


def editor() -> str:
    """Models that a program builds, changes and compiles."""
    folder = environment.TARGET / "c" / "editor"
    folder.mkdir(exist_ok=True)
    run([str(compiled("g++", "editor.cc", "-std=c++17")), str(folder)])
    return "built, changed, compiled"


def crate() -> str:
    """A program of the crate `ort`, which loads the library."""
    folder, target = BINDING / "programs" / "ort", environment.TARGET / "c" / "cargo"
    try:
        run(["cargo", "build", "-q", "--locked", "--target-dir", str(target)], cwd=folder)
    except AssertionError as reason:
        raise Skipped(f"the crate `ort` does not build: {reason}") from None
    library = {**os.environ, "ORT_DYLIB_PATH": str(PREFIX / "lib" / "libonnxruntime.so.1")}
    return compare([str(target / "debug" / "run")], env=library)


def node() -> str:
    """onnxruntime-node with its library swapped for ours."""
    node, npm = tool("node"), tool("npm")
    NODE.mkdir(parents=True, exist_ok=True)
    folder = NODE / "node_modules" / "onnxruntime-node" / "bin" / "napi-v6" / "linux" / "x64"
    if not folder.exists():
        try:
            run([npm, "install", "--silent", "--ignore-scripts", "--prefix", str(NODE), NODE_PACKAGE], cwd=NODE)
        except AssertionError as reason:
            raise Skipped(f"{NODE_PACKAGE} cannot be installed: {reason}") from None
    shutil.copy(PREFIX / "lib" / "libonnxruntime.so.1", folder / "libonnxruntime.so.1")
    program = shutil.copy(BINDING / "programs" / "run.cjs", NODE)
    return f"{NODE_PACKAGE}, {compare([node, str(program)])}"


if __name__ == "__main__":
    sys.exit(main())
