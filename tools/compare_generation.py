#!/usr/bin/env python3
"""Measures the time of a token at several cache lengths: with a state, with plain feeds, and in onnxruntime.

    python3 tools/compare_generation.py [--threads N] [--tokens N] [--lengths 32,512,1000] [CASE ...]

For each decoder and length, the median time of a token after about that many others:

    state     ort-cli generate, which keeps the cache in place
    feeds     ort-cli bench on inputs of that length: the cache is an input and an output of every run
    onnxruntime        the same in onnxruntime, outputs fed back
    with IOBinding     outputs bound as OrtValues, which become inputs: nothing is copied to or from numpy

and whether the greedy ids of both runtimes are the same. The rows of one length are measured one after the
other. CASE is a folder as `make_models.py` writes it; the default is decoder_step and decoder_attention24.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from statistics import median

import environment

environment.enter("requirements-peers.txt", "venv-peers")

import numpy as np
import onnxruntime as ort

DEFAULT = ["decoder_step", "decoder_attention24"]


def called(*command) -> dict:
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return json.loads(done.stdout)


def prompt(length: int) -> list[int]:
    return [(37 * i + 11) % 8192 for i in range(length)]


class Onnxruntime:
    """Greedy generation; `is_bound` for OrtValues instead of arrays."""

    def __init__(self, model: Path, threads: int, is_bound: bool):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.is_bound = is_bound
        self.pasts = [i for i in self.session.get_inputs() if i.name.startswith("past")]

    def run(self, ids: list[int], tokens: int) -> tuple[list[int], list[float]]:
        value = ort.OrtValue.ortvalue_from_numpy if self.is_bound else lambda array: array
        cache = {}
        for past in self.pasts:
            _, heads, _, size = past.shape
            cache[past.name] = value(np.zeros((1, heads, 0, size), np.float32))
        new, made, times = ids, [], []
        for _ in range(tokens):
            start = time.perf_counter()
            before = len(ids) + len(made) - len(new)
            feed = {
                "input_ids": np.array([new], np.int64),
                "position_ids": np.arange(before, before + len(new), dtype=np.int64)[None],
            }
            logits, cache = (self.bound if self.is_bound else self.plain)(feed, cache)
            made.append(int(logits[0, -1].argmax()))
            new = made[-1:]
            times.append((time.perf_counter() - start) * 1e3)
        return made, times

    def plain(self, feed: dict, cache: dict):
        names = [output.name for output in self.session.get_outputs()]
        outputs = dict(zip(names, self.session.run(names, feed | cache)))
        return outputs["logits"], {past.name: outputs[present(past.name)] for past in self.pasts}

    def bound(self, feed: dict, cache: dict):
        binding = self.session.io_binding()
        for name, array in feed.items():
            binding.bind_cpu_input(name, array)
        for name, value in cache.items():
            binding.bind_ortvalue_input(name, value)
        names = ["logits", *(present(past.name) for past in self.pasts)]
        for name in names:
            binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        logits, *presents = binding.get_outputs()
        return logits.numpy(), {past.name: value for past, value in zip(self.pasts, presents)}


def present(past: str) -> str:
    return past.replace("past", "present")


def measure(args, case: Path, length: int) -> dict:
    model, threads, tokens = case / "model.onnx", args.threads, args.tokens
    ids = prompt(length - tokens)
    common = ["--threads", threads, "--json"]
    row = {"model": case.name, "cache": length}
    state = called(
        args.cli, "generate", model, "--ids", ",".join(map(str, ids)), "--max-tokens", tokens, *common
    )
    row["state"] = median(state["token_ms"][1:])
    plain = Onnxruntime(model, threads, is_bound=False)
    shapes = [f"{p.name}=1x{p.shape[1]}x{length - 1}x{p.shape[3]}" for p in plain.pasts]
    shapes = [*shapes, "input_ids=1x1", "position_ids=1x1"]
    flags = [word for shape in shapes for word in ("--shape", shape)]
    row["feeds"] = called(args.cli, "bench", model, *flags, "--seconds", args.seconds, *common)["p50_ms"]
    made, times = plain.run(ids, tokens)
    row["onnxruntime"], row["same ids"] = median(times[1:]), made == state["ids"]
    del plain
    _, times = Onnxruntime(model, threads, is_bound=True).run(ids, tokens)
    row["with IOBinding"] = median(times[1:])
    best = min(row["onnxruntime"], row["with IOBinding"])
    row["state / best"] = row["state"] / best
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", type=Path, metavar="CASE")
    parser.add_argument("--cli", type=Path, default=environment.TARGET / "release" / "ort-cli")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=24, help="how many tokens are generated")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long plain feeds run")
    parser.add_argument("--lengths", default="32,512,1000")
    args = parser.parse_args()
    cases = args.cases or [environment.TARGET / "models" / "hard" / name for name in DEFAULT]
    print(f"onnxruntime {ort.__version__}, {args.threads} threads, ms per token")
    for case in cases:
        for length in map(int, args.lengths.split(",")):
            row = measure(args, case, length)
            cells = (f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values())
            print("  ".join(f"{name} {cell}" for name, cell in zip(row, cells)), flush=True)


if __name__ == "__main__":
    main()
