#!/usr/bin/env python3
"""Draws time and memory of several runtimes, as `compare_peers.py --json` measured them, as an SVG.

    python3 tools/compare_peers.py --json target/peers.json CASE...
    python3 tools/draw_benchmarks.py target/peers.json docs/benchmarks.svg

Each model has a bar for each runtime in two panels: time of a run relative to onnxruntime's, and private
memory in MiB. Shorter is better. A runtime that did not run a model has no bar there.
"""

from __future__ import annotations

import argparse
import json
from html import escape
from pathlib import Path

#: The names of runtimes in the measurements and in the picture, and their colours.
RUNTIMES = [
    ("ours", "ort-rs", "#d9480f"),
    ("ort-onnx", "onnxruntime", "#868e96"),
    ("openvino", "OpenVINO", "#ced4da"),
]
WIDTH, LABELS, GAP = 840, 150, 40
BAR, BETWEEN, TOP = 11, 12, 64
PANEL = (WIDTH - LABELS - 2 * GAP) / 2


def panel(x: float, title: str, rows: list[list[float | None]], form: str) -> list[str]:
    """The bars of a panel that starts at `x`; `form` formats the number next to a bar."""
    most = max(value for row in rows for value in row if value is not None)
    scale = (PANEL - 45) / most
    parts = [f'<text x="{x}" y="{TOP - 14}" class="title">{escape(title)}</text>']
    for i, row in enumerate(rows):
        for j, (value, (_, name, colour)) in enumerate(zip(row, RUNTIMES)):
            if value is None:
                continue
            y = TOP + i * (len(RUNTIMES) * BAR + BETWEEN) + j * BAR
            text = f"{name}: {value:{form}}"
            parts.append(
                f'<rect x="{x}" y="{y}" width="{max(value * scale, 1):.1f}" height="{BAR - 2}" '
                f'fill="{colour}"><title>{escape(text)}</title></rect>'
                f'<text x="{x + value * scale + 4:.1f}" y="{y + BAR - 3}" class="value">{value:{form}}</text>'
            )
    return parts


def picture(record: dict, threads: str) -> str:
    """The SVG of a table of `compare_peers.py`."""
    rows = [row for row in record["tables"][threads] if row["ort-onnx"].get("p10_ms")]
    times = [
        [row[key]["p10_ms"] / row["ort-onnx"]["p10_ms"] if "p10_ms" in row.get(key, {}) else None
         for key, _, _ in RUNTIMES]
        for row in rows
    ]  # fmt: skip
    memory = [[row.get(key, {}).get("rss_anon_mib") for key, _, _ in RUNTIMES] for row in rows]
    height = TOP + len(rows) * (len(RUNTIMES) * BAR + BETWEEN) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Time and memory of ort-rs, onnxruntime and OpenVINO">',
        "<style>text{font:12px sans-serif;fill:#495057}.title{font-weight:bold}.value{font-size:9px}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for i, (_, name, colour) in enumerate(RUNTIMES):
        x = LABELS + i * 120
        parts.append(f'<rect x="{x}" y="14" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="24">{name}</text>')
    for i, row in enumerate(rows):
        y = TOP + i * (len(RUNTIMES) * BAR + BETWEEN) + 1.5 * BAR + 3
        parts.append(f'<text x="{LABELS - 12}" y="{y}" text-anchor="end">{escape(row["model"])}</text>')
    plural = "thread" if threads == "1" else "threads"
    parts += panel(LABELS, f"time of a run, relative to onnxruntime ({threads} {plural})", times, ".2f")
    parts += panel(LABELS + PANEL + GAP, "private memory, MiB", memory, ".0f")
    parts.append(f'<text x="{LABELS}" y="{height - 10}" class="value">{escape(record["machine"])}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measured", type=Path, help="a file of compare_peers.py --json")
    parser.add_argument("svg", type=Path, help="the picture")
    parser.add_argument("--threads", default="1", help="which table; the default is that of one thread")
    arguments = parser.parse_args()
    record = json.loads(arguments.measured.read_text())
    arguments.svg.write_text(picture(record, arguments.threads))


if __name__ == "__main__":
    main()
