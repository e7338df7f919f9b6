#!/usr/bin/env python3
"""Builds the npm package of bindings/wasm and runs its tests in Node, and in Chromium if it is installed.

    python3 tools/check_wasm.py [--release]

The package is left in target/wasm/package. If tools/cross.sh or Node is not available, it reports that and succeeds.
`--release` builds the package as it is shipped, and fails if it exceeds the size limit.
"""

from __future__ import annotations

import argparse
import gzip
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import environment

ROOT = environment.TOOLS.parent
BINDING = ROOT / "bindings" / "wasm"
FOLDER = environment.TARGET / "wasm"
PACKAGE = FOLDER / "package"
#: The maximum size of the module, compressed as for a download.
MOST_BYTES = int(1.2 * 2**20)
#: The exit code of tools/cross.sh where it is unavailable.
UNAVAILABLE = 69
FEATURES = "-C target-feature=+simd128"
#: What the compiler uses. With more, binaryen writes types that Node 20 rejects.
WASM_FEATURES = [
    "bulk-memory",
    "bulk-memory-opt",
    "call-indirect-overlong",
    "multivalue",
    "mutable-globals",
    "nontrapping-float-to-int",
    "reference-types",
    "sign-ext",
    "simd",
]
#: The time limit for the tests in a browser.
SECONDS = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="store_true", help="build as the package is shipped")
    arguments = parser.parse_args()
    if not shutil.which("node"):
        print("skipped: Node is not installed")
        return 0
    if not build("dist" if arguments.release else "dev"):
        print("skipped: see above")
        return 0
    n_bytes = len(gzip.compress((PACKAGE / "ort_wasm_bg.wasm").read_bytes(), 9))
    print(f"ort_wasm_bg.wasm: {n_bytes / 2**20:.2f} MiB compressed", flush=True)
    if arguments.release and n_bytes > MOST_BYTES:
        print(f"more than {MOST_BYTES / 2**20:.1f} MiB", file=sys.stderr)
        return 1
    models = (ROOT / "models").as_uri() + "/"
    command = ["node", "--test", str(FOLDER / "tests" / "package.test.mjs")]
    return subprocess.call(command, env=os.environ | {"MODELS": models}) or in_chromium()


def build(profile: str) -> bool:
    """Builds the package; `False` if there is no compiler for it."""
    target = "wasm32-unknown-unknown"
    cross = [str(environment.TOOLS / "cross.sh")]
    cargo = ["cargo", "build", "-q", "-p", "ort-wasm", "--target", target, "--profile", profile]
    status = subprocess.call([*cross, *cargo], env=os.environ | {"RUSTFLAGS": FEATURES})
    if status == UNAVAILABLE:
        return False
    if status != 0:
        sys.exit(status)
    built = environment.TARGET / "cross" / "build" / target / ("debug" if profile == "dev" else profile)
    shutil.rmtree(FOLDER, ignore_errors=True)
    bindgen = ["cargo", "run", "-q", "-p", "xtask", "--features", "wasm", "--", "wasm"]
    subprocess.run([*bindgen, str(built / "ort_wasm.wasm"), str(PACKAGE)], cwd=ROOT, check=True)
    if profile == "dist":
        module = "target/wasm/package/ort_wasm_bg.wasm"
        enabled = [f"--enable-{name}" for name in WASM_FEATURES]
        subprocess.run([*cross, "wasm-opt", "-O3", *enabled, module, "-o", module], check=True)
    for name in ["package.json", "README.md"]:
        shutil.copy(BINDING / name, PACKAGE)
    for file in (BINDING / "js").iterdir():
        shutil.copy(file, PACKAGE)
    for name in ["LICENSE-APACHE", "LICENSE-MIT"]:
        shutil.copy(ROOT / name, PACKAGE)
    shutil.copytree(BINDING / "tests", FOLDER / "tests")
    return True


def in_chromium() -> int:
    """Runs the models in a page and in its worker, both under a policy without `unsafe-eval`."""
    if not (browser := shutil.which("chromium")):
        print("skipped: Chromium is not installed")
        return 0
    answered, answer = threading.Event(), []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *rest: object) -> None:
            super().__init__(*rest, directory=str(FOLDER))

        def translate_path(self, path: str) -> str:
            if path.startswith("/models/"):
                return str(ROOT / path[1:])
            return super().translate_path(path)

        def end_headers(self) -> None:
            policy = "default-src 'none'; connect-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'"
            self.send_header("Content-Security-Policy", policy)
            super().end_headers()

        def do_POST(self) -> None:
            answer.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(204)
            self.end_headers()
            answered.set()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        page = f"http://127.0.0.1:{server.server_address[1]}/tests/page.html"
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command = [browser, *flags, f"--user-data-dir={profile}", "--remote-debugging-port=0", page]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        answered.wait(SECONDS)
        process.terminate()
        process.wait()
    server.shutdown()
    print(f"in Chromium: {answer[0] if answer else 'no answer'}")
    return 0 if answer and answer[0].startswith("ok") else 1


if __name__ == "__main__":
    sys.exit(main())
