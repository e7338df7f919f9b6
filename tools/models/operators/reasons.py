"""Why a row of the table is above 1: the first that fits says it."""

from __future__ import annotations

import re

# What `NAME TYPE SIZE` has to match -> why it is slower than onnxruntime.
REASONS: dict[str, str] = {
    r"^(Sin|Cos|Pow) f64": "plain eval, by the standard library",
    r"^(Quantize|Dequantize)Linear.* (f16|i16|i32|u16) ": "plain eval: the kernels are of f32 and bytes",
    r"^DynamicQuantizeLinear ": "reads twice",
    r"^MeanVarianceNormalization ": "plain eval, in f64",
    r"^ReduceLogSumExp .* (i32|i64) ": "exponentials in f64, where theirs are of integers",
    r"^Reduce(Mean|L2|LogSum) .* (i32|i64) ": "plain eval, in 128 bits",
    r"^BatchNormalization f64": "plain eval",
    r"^(Log)?Softmax \d+ f64": "plain eval, by the standard library",
    r"^GridSample ": "places are worked out in f64, one by one",
    r"^Resize .* (i8|u8|i32) ": "plain eval, in f64, which decides what integers become",
    r"^(RoiAlign.*|MaxRoiPool|DeformConv|AffineGrid|Col2Im|MaxUnpool) ": "plain eval, in f64",
    r"^(Pad|Slice|Tile|Expand|ReverseSequence|Concat|Split|Trilu)\b": "plain eval: short runs are copied one by one",
    r"^(Gather(?!Elements)|Scatter|Compress|NonZero|Unique)": "plain eval: places are worked out before anything is moved",
    r"^(ConstantOfShape|EyeLike|Range|Identity|Reshape) ": "a plain write to memory, which theirs is, too",
}


def reason(name: str, dtype: str, size: str) -> str | None:
    row = f"{name} {dtype} {size}"
    return next((why for pattern, why in REASONS.items() if re.search(pattern, row)), None)
