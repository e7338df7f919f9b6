#!/usr/bin/env python3
"""Checks that onnxruntime loads the files we save, and gives the same results as for its own.

    python3 tools/check_with_onnxruntime.py --rewrite 'target/release/examples/rewrite' [CASE ...]
    python3 tools/check_with_onnxruntime.py --optimize target/release/ort-cli \\
        [--levels disable,basic,extended,layout] [--model '*.raw.ort'] [CASE ...]

--rewrite: the command rewrites a `.ort` file with our writer; {in} and {out} stand for the two paths,
which are appended if the command does not contain them. onnxruntime runs both files at ORT_DISABLE_ALL on the
stored inputs, and outputs must be equal bit for bit.

--optimize: `ort-cli optimize` writes a file for each model at each level. onnxruntime runs it at
ORT_DISABLE_ALL and at its default level; outputs must be those of the original at ORT_DISABLE_ALL,
and the stored ones, within the case's tolerance (rtol and atol of tol.txt, else 1e-3 and 1e-5).
The table shows the largest difference in units of the tolerance: up to 1 passes. Fusions change the order of
rounding, and some networks amplify that: where onnxruntime's own conversion
(model.default.ort next to the model) differs from the original, ours may differ by twice as much. The stored
outputs are compared with the original as well: where that fails, ours may fail too.

CASE is a folder with `*.ort` next to test_data_set_K/, or a folder of such folders. The default is the
models in models/, and the node cases in the packed fixture or, with --optimize, the models
that make_models.py has written to target/models. A case that onnxruntime cannot run itself, or runs
with different results, counts as "not compared"; our file must load nevertheless.

If onnxruntime cannot be installed, this prints "skipped" and succeeds.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import environment

try:
    environment.enter()
except environment.Unavailable as reason:
    print(f"skipped: {reason}")
    sys.exit(0)

import numpy as np
import onnxruntime as ort
from pack_node_cases import unpack
from peers import tensors

ROOT = environment.TOOLS.parent
FIXTURE = ROOT / "ort-conformance/fixtures/node_cases.bin"
FATAL_ONLY = 4
LEVELS = ["disable", "basic", "extended", "layout"]
UNOPTIMIZED = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
DEFAULT = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
ROW = "{:34} {:8} {:>11} {:>9} {:>9} {:>9}  {}"


class Rejected(Exception):
    """A runtime does not load, save or run a model."""


class NotCompared(Exception):
    """onnxruntime itself produces nothing to compare with."""


def call(words: list[str]) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Rejected(f"our command failed: {done.stderr.strip()}")
    return done.stdout


def rewritten(command: str, model: Path, out: Path) -> None:
    words = shlex.split(command)
    if "{in}" not in words:
        words += ["{in}", "{out}"]
    paths = {"{in}": str(model), "{out}": str(out)}
    call([paths.get(word, word) for word in words])


def load(model: Path, level: ort.GraphOptimizationLevel = UNOPTIMIZED) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    try:
        return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions share no narrower base
        raise Rejected(f"onnxruntime does not load it: {error}") from None


def run(session: ort.InferenceSession, data_set: Path) -> list:
    types = [value.type for value in session.get_inputs()]
    try:
        return session.run(None, tensors.read(data_set, "input", types))
    except Exception as error:  # as above; also types that Python cannot pass to it
        raise Rejected(f"onnxruntime does not run it: {error}") from None


def stored(session: ort.InferenceSession, data_set: Path) -> list:
    """The stored outputs in the model's order; by position where they have no names."""
    types = [value.type for value in session.get_outputs()]
    values = tensors.read(data_set, "output", types)
    names = [value.name for value in session.get_outputs()]
    return [values[name] for name in names] if set(names) <= set(values) else list(values.values())


def equal(x, y) -> bool:
    """Equal bit for bit."""
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(equal(a, b) for a, b in zip(x, y))
    if x is None or y is None or isinstance(x, dict):
        return x == y
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    return x.tolist() == y.tolist() if x.dtype == object else x.tobytes() == y.tobytes()


def strain(x, y, tolerance: tuple[float, float]) -> float:
    """The largest |x - y| / (atol + rtol |y|); infinite if types or shapes differ."""
    if isinstance(x, list) and isinstance(y, list):
        if len(x) != len(y):
            return math.inf
        return max((strain(a, b, tolerance) for a, b in zip(x, y)), default=0.0)
    if equal(x, y):
        return 0.0
    if x is None or y is None or isinstance(x, dict):
        return math.inf
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape or x.dtype == bool or x.dtype == object:
        return math.inf
    rtol, atol = tolerance
    wide = np.complex128 if np.iscomplexobj(x) else np.float64
    x, y = x.astype(wide), y.astype(wide)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        share = np.abs(x - y) / (atol + rtol * np.abs(y))
    return float(np.max(np.where(same, 0.0, np.where(np.isfinite(share), share, np.inf))))


def originals(model: Path) -> list[tuple[Path, list]]:
    """Each data set, with onnxruntime's outputs for the unoptimized model."""
    original, found = load(model), []
    for data_set in sorted(model.parent.glob("test_data_set_*")):
        try:
            expected, again = run(original, data_set), run(load(model), data_set)
        except Rejected:
            raise NotCompared("onnxruntime cannot run the original from Python") from None
        if not equal(expected, again):
            raise NotCompared("the original is random")
        found.append((data_set, expected))
    return found


def read_tolerance(case: Path) -> tuple[float, float]:
    path = case / "tol.txt"
    rtol, atol = path.read_text().split() if path.exists() else ("1e-3", "1e-5")
    return float(rtol), float(atol)


def check_rewritten(model: Path, command: str, folder: Path) -> str:
    """ "equal" or "not compared: …"; raises Rejected if ours is wrong."""
    out = folder / "ours.ort"
    out.unlink(missing_ok=True)  # so that the previous model's file cannot pass for this one
    rewritten(command, model, out)
    ours = load(out)
    try:
        expected = originals(model)
    except NotCompared as reason:
        return f"not compared: {reason}"
    for data_set, outputs in expected:
        if not equal(run(ours, data_set), outputs):
            raise Rejected(f"outputs differ on {data_set.name}")
    return "equal"


def rewrite_all(models: list[Path], command: str) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as made:
        for model in models:
            try:
                counts[check_rewritten(model, command, Path(made))] += 1
            except Rejected as error:
                counts["wrong"] += 1
                print(f"{model.parent.name}/{model.name}: {error}", flush=True)
    return counts


def check_optimized(cli: str, model: Path, level: str, out: Path, expected: list) -> tuple:
    """The nodes before and after, the two strains against the original, and that against the stored outputs."""
    words = [cli, "optimize", str(model), "-o", str(out), "--level", level, "--json"]
    nodes = json.loads(call(words))["nodes"]
    tolerance, strains, of_stored = read_tolerance(model.parent), [], 0.0
    for at in [UNOPTIMIZED, DEFAULT]:
        session, worst = load(out, at), 0.0
        for data_set, outputs in expected:
            found = run(session, data_set)
            worst = max(worst, strain(found, outputs, tolerance))
            of_stored = max(of_stored, strain(found, stored(session, data_set), tolerance))
        strains.append(worst)
    return f"{nodes['before']} → {nodes['after']}", *strains, of_stored


class Originals:
    """A model in onnxruntime, and how much our outputs may differ from its own."""

    def __init__(self, model: Path) -> None:
        self.runs, self.limit, self.stored_limit = [], 1.0, 1.0
        try:
            self.runs, self.note = originals(model), ""
        except (NotCompared, Rejected) as reason:
            self.note = f"not compared: {reason}"
            return
        tolerance, session = read_tolerance(model.parent), load(model)
        theirs = model.with_name("model.default.ort")
        converted = load(theirs) if theirs.exists() else session
        for data_set, outputs in self.runs:
            own = strain(run(converted, data_set), outputs, tolerance)
            self.limit = max(self.limit, 2 * own)
            if strain(outputs, stored(session, data_set), tolerance) > 1.0:
                self.stored_limit, self.note = math.inf, "the original fails on the stored outputs, too"
        self.stored_limit = max(self.stored_limit, self.limit)
        if self.limit > 1.0:
            self.note = f"up to {self.limit:.2g}: onnxruntime's own conversion differs by half of that"


def optimize_one(cli: str, model: Path, levels: list[str], out: Path) -> Iterator[str]:
    """Prints a row for each level; yields its category."""
    name = f"{model.parent.name}/{model.name.removesuffix('.ort')}"
    original = Originals(model)
    for level in levels:
        out.unlink(missing_ok=True)
        try:
            nodes, *strains = check_optimized(cli, model, level, out, original.runs)
        except Rejected as error:
            print(ROW.format(name, level, "", "", "", "", error), flush=True)
            yield "wrong"
            continue
        limits = [original.limit, original.limit, original.stored_limit]
        is_close = all(found <= limit for found, limit in zip(strains, limits))
        remark = original.note if is_close else f"WRONG {original.note}"
        print(ROW.format(name, level, nodes, *(f"{x:.2g}" for x in strains), remark), flush=True)
        yield "wrong" if not is_close else "close" if original.runs else "not compared"


def optimize_all(models: list[Path], cli: str, levels: list[str]) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    print(ROW.format("model", "level", "nodes", "disable", "default", "stored", ""))
    with tempfile.TemporaryDirectory() as made:
        for model in models:
            counts.update(optimize_one(cli, model, levels, Path(made) / "ours.ort"))
    return counts


def find_models(cases: list[Path], pattern: str) -> list[Path]:
    found = [model for case in cases for model in case.rglob(pattern) if model.suffix == ".ort"]
    return sorted(model for model in found if any(model.parent.glob("test_data_set_*")))


def packed_cases(folder: Path) -> Path:
    """The node cases of the repository, unpacked."""
    for path, content in unpack(FIXTURE.read_bytes()).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def some_levels(text: str) -> list[str]:
    levels = text.split(",")
    if not set(levels) <= set(LEVELS):
        raise argparse.ArgumentTypeError(f"expected some of {','.join(LEVELS)}")
    return levels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", type=Path, metavar="CASE")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--rewrite", metavar="COMMAND")
    what.add_argument("--optimize", metavar="ORT_CLI")
    parser.add_argument("--levels", type=some_levels, default=LEVELS)
    parser.add_argument("--model", default="*.ort", metavar="GLOB")
    args = parser.parse_args()
    ort.set_default_logger_severity(FATAL_ONLY)
    with tempfile.TemporaryDirectory() as unpacked:
        if args.rewrite:
            cases = args.cases or [ROOT / "models", packed_cases(Path(unpacked))]
            counts = rewrite_all(find_models(cases, args.model), args.rewrite)
        else:
            cases = args.cases or [ROOT / "models", environment.TARGET / "models"]
            counts = optimize_all(find_models(cases, args.model), args.optimize, args.levels)
    for result, count in sorted(counts.items()):
        print(f"{count} {result}")
    sys.exit(counts["wrong"] > 0 or not counts)


if __name__ == "__main__":
    main()
