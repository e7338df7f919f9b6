"""Small models beside onnxruntime: what each takes for one, in turns."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from . import programs


def commands(args: argparse.Namespace, folder: Path) -> dict[str, list[str]]:
    flags = ["--threads", str(args.threads), "--seconds", str(args.seconds)]
    return {
        "ours": programs.ours(args.cli, folder, "default", *flags),
        "theirs": programs.peer("ort-onnx", folder, args.threads, args.seconds),
    }


def milliseconds(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """What each runtime takes: the least of the rounds."""
    best = {}
    for _ in range(args.rounds):
        for name, command in commands(args, folder).items():
            record = programs.measured(command)
            if "p10_ms" not in record:
                sys.exit(f"{folder.name}: {name} did not run: {record.get('error')}")
            best[name] = min(best.get(name, math.inf), record["p10_ms"])
    return best
