"""Reasons why a row of the table is above 1; the first match applies."""

from __future__ import annotations

import re

# A pattern for `NAME TYPE SIZE` -> the reason why the row is slower than in onnxruntime.
REASONS: dict[str, str] = {
    r"^(Pow|Mod)\b.* (f64|i32|i64)": "one element after the other, by the standard library",
    r"^Pow( channels| rows| scalar)? f32": "computed in f64, accurate to 0.5 ulp",
    r"^(Atan|Erf|Tanh|Sigmoid|Exp|.*Gelu.*|Softsign) f32": "accurate to 1 to 2 ulp",
    r"^DynamicQuantizeLinear ": "reads its input twice",
    r"^ReduceLogSumExp .* (i32|i64) ": "sums of exponentials in f64, theirs in integers",
    r"^Reduce(Mean|L2|LogSum) .* (i32|i64) ": "exact sums, theirs wrap",
    r"^Reduce\w+ 1?,?3 f64 16 KiB": "rows of 11 elements do not fill a register",
    r"^(CumSum|CumProd) .* f32 ": "sums in f64",
    r"^GridSample (linear|cubic) ": "weights of taps are computed in f64",
    r"^Resize linear down .* (i8|u8|i32) ": "sums in f64, which determine the rounding to integers",
    r"^Col2Im ": "each tap is added to the whole image",
    r"^DeformConv ": "the taps' places are computed in f64",
    r"^(Concat|Split|Pad|Tile|Expand|Slice|SpaceToDepth|DepthToSpace|Trilu)\b": "short runs are copied one by one",
    r"^Shrink [iu]64": "computed in f64",
    r"^Unique ": "many groups are found by sorting",
    r"^GatherElements ": "one checked index at a time",
    r"^(Gather|Scatter|Compress|ReverseSequence)": "offsets are computed for a block before elements are moved",
    r"^(ConstantOfShape|EyeLike|Range) ": "memory is zeroed before it is written",
    r"^(Identity|Reshape) ": "a plain copy, as in onnxruntime",
}


def reason(name: str, dtype: str, size: str) -> str | None:
    row = f"{name} {dtype} {size}"
    return next((why for pattern, why in REASONS.items() if re.search(pattern, row)), None)
