"""The library as a package installs it, and the commands that build it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import environment

ROOT = environment.TOOLS.parent
BINDING = ROOT / "bindings" / "c"
PROGRAMS = BINDING / "programs"
#: What the steps make.
WORK = environment.TARGET / "c"
#: The library with its headers.
PREFIX = WORK / "onnxruntime"
LIBRARY = PREFIX / "lib" / "libonnxruntime.so.1"
SUITE = "http://deb.debian.org/debian unstable main"


class Skipped(Exception):
    """A step that cannot run on this machine."""


def build(profile: str) -> None:
    """Builds the library and places it as in a package."""
    if profile == "dev":
        # As `cargo test` builds it, with the features of all crates: it has, as a rule. It leaves it among the dependencies.
        command, folder = ["cargo", "test", "-q", "--workspace", "--no-run", "--test", "table"], "debug/deps"
    else:
        command, folder = ["cargo", "build", "-q", "--profile", profile, "-p", "ort-capi"], profile
    subprocess.run(command, check=True, cwd=ROOT)
    place(target() / folder)


def build_with_address_sanitizer() -> None:
    """Builds the library with AddressSanitizer, whose runtime programs are linked to."""
    host = re.search(r"host: (\S+)", run(["rustc", "-vV"]))[1]
    runtime = Path(run(["rustc", "--print", "sysroot"]).strip(), "lib", "rustlib", host, "lib")
    archives = list(runtime.glob("librustc-*_rt.asan.a"))
    assert archives, f"the toolchain has no AddressSanitizer for {host}"
    # Stable toolchains have the sanitizer, too.
    flags = {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-Zsanitizer=address", "CARGO_TARGET_DIR": str(target() / "address")}
    command = ["cargo", "build", "-q", "--target", host, "-p", "ort-capi"]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **flags})
    place(target() / "address" / host / "debug")
    package = PREFIX / "lib" / "pkgconfig" / "libonnxruntime.pc"
    of_runtime = f"-Wl,--whole-archive {archives[0]} -Wl,--no-whole-archive -rdynamic -lpthread -lrt -lm -ldl"
    package.write_text(re.sub(r"(?m)^Libs: .*", rf"\g<0> {of_runtime}", package.read_text()))


def target() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR", environment.TARGET))


def place(built: Path) -> None:
    """Places a library as in a package."""
    for folder in ("lib/pkgconfig", "lib/cmake/onnxruntime"):
        (PREFIX / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(built / "libonnxruntime.so", LIBRARY)
    link = PREFIX / "lib" / "libonnxruntime.so"
    link.unlink(missing_ok=True)
    link.symlink_to(LIBRARY.name)
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


def headers() -> Path:
    """onnxruntime's headers, from Debian's package."""
    include = PREFIX / "include"
    if (include / "onnxruntime_c_api.h").exists():
        return include
    apt = WORK / "apt"
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


def compiled(compiler: str, source: str, *flags: str) -> Path:
    """A program of bindings/c/programs, compiled as its build system would."""
    headers()
    # A library of custom operators receives the table, and is linked to nothing.
    libs = [] if "-shared" in flags else ["--libs"]
    flags_of = [tool("pkg-config"), "--cflags", *libs, "libonnxruntime"]
    environ = {**os.environ, "PKG_CONFIG_PATH": str(PREFIX / "lib" / "pkgconfig")}
    library = run(flags_of, env=environ).split()
    program = WORK / source.replace(".", "_")
    path = PROGRAMS / source
    rpath = f"-Wl,-rpath,{PREFIX / 'lib'}"
    run([tool(compiler), *flags, "-Wall", "-O1", str(path), "-o", str(program), *library, rpath])
    return program
