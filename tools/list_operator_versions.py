#!/usr/bin/env python3
"""Writes the table in ort-onnx/src/opsets.rs: the operator set versions in which each operator changed.

    python3 tools/list_operator_versions.py

A file states the version of each imported operator set, but not the operator versions of its nodes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import environment

environment.enter()

import onnx.defs

FILE = Path(__file__).resolve().parent.parent / "ort-onnx/src/opsets.rs"
DOMAINS = ("", "ai.onnx.ml")


def main() -> None:
    versions: dict[tuple[str, str], set[int]] = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS:
            versions[schema.domain, schema.name].add(schema.since_version)
    lines = []
    for (domain, name), found in sorted(versions.items()):
        numbers = ", ".join(str(version) for version in sorted(found))
        lines.append(f'    ("{domain}", "{name}", &[{numbers}]),\n')
    table = "const TABLE: &[(&str, &str, &[i32])] = &[\n" + "".join(lines) + "];\n"
    text = FILE.read_text()
    FILE.write_text(re.sub(r"const TABLE: .*?\n\];\n", lambda _: table, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
