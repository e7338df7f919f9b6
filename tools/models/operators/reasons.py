"""Reasons why a row of the table is above 1; the first match applies."""

from __future__ import annotations

import re

# What `NAME TYPE SIZE` has to match -> why it is slower than onnxruntime.
REASONS: dict[str, str] = {
    r"^(Sin|Cos|Pow|Mod) f64": "plain eval, by the standard library",
    r"^Pow( channels| rows| scalar)? (f32|i32)": "to half an ulp, in f64",
    r"^Atan f32": "to half an ulp, in f64",
    r"^(Erf|Tanh|Sigmoid|Exp|.*Gelu.*|Softsign) f32": "to an ulp or two",
    r"^DynamicQuantizeLinear ": "reads twice",
    r"^MeanVarianceNormalization ": "plain eval, in f64",
    r"^ReduceLogSumExp .* (i32|i64) ": "sums of powers in f64, where theirs are of integers",
    r"^Reduce(Mean|L2|LogSum) .* (i32|i64) ": "plain eval, in 128 bits",
    r"^Reduce\w+ 1?,?3 f64 16 KiB": "rows of eleven, which fill no register",
    r"^(CumSum|CumProd) ": "sums in f64, one element after the other",
    r"^Transpose .* (i8|u8|bool|f16|bf16|i16|u16) ": "squares of 64 bytes go through registers in two steps",
    r"^GridSample ": "places are worked out in f64, one by one",
    r"^Resize linear down .* (i8|u8|i32) ": "sums in f64, which decides what integers become",
    r"^Col2Im ": "each tap adds to the whole image",
    r"^RoiAlign ": "sums in f64",
    r"^DeformConv ": "plain eval, in f64",
    r"^(Slice|SpaceToDepth|DepthToSpace|Concat|Split|Trilu)\b": "plain eval: short runs are copied one by one",
    r"^(Pad|Tile|Expand)\b": "short runs are copied one by one",
    r"^Shrink .* [iu]\d": "plain eval, in f64",
    r"^(NonZero|Unique)": "plain eval: what is found is collected before it is written",
    r"^Scatter.* add ": "plain eval",
    r"^GatherElements ": "an index at a time, checked",
    r"^(Gather|Scatter|Compress|ReverseSequence)": "places are worked out for a block before anything is moved",
    r"^(ConstantOfShape|EyeLike|Range) ": "memory is zeroed before it is written",
    r"^(Identity|Reshape) ": "a plain copy, which theirs is, too",
}


def reason(name: str, dtype: str, size: str) -> str | None:
    row = f"{name} {dtype} {size}"
    return next((why for pattern, why in REASONS.items() if re.search(pattern, row)), None)
