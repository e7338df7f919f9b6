"""Why a row of the table is above 1: the first that fits says it."""

from __future__ import annotations

import re

# What `NAME TYPE SIZE` has to match -> why it is slower than onnxruntime.
REASONS: dict[str, str] = {}


def reason(name: str, dtype: str, size: str) -> str | None:
    row = f"{name} {dtype} {size}"
    return next((why for pattern, why in REASONS.items() if re.search(pattern, row)), None)
