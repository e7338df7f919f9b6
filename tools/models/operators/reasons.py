"""Why a row of the table is above 1: the first that fits says it."""

from __future__ import annotations

import re

# What `NAME TYPE SIZE` has to match -> why it is slower than onnxruntime.
REASONS: dict[str, str] = {
    r"^(Sin|Cos|Pow) f64": "plain eval, by the standard library",
    r"^Pow f32": "to half an ulp; powers that are integers are products",
    r"^Atan f32": "to an ulp, by a quotient",
    r"^(Erf|Tanh|Sigmoid|Gelu.*|Softsign) f32 16 KiB": "an ulp or two, and a start of a loop",
    r"^DequantizeLinear.* (i16|u16) ": "plain eval: the kernels are of bytes",
    r"^DynamicQuantizeLinear ": "reads twice",
    r"^MeanVarianceNormalization ": "plain eval, in f64",
    r"^ReduceLogSumExp .* (i32|i64) ": "exponentials in f64, where theirs are of integers",
    r"^Reduce(Mean|L2|LogSum) .* (i32|i64) ": "plain eval, in 128 bits",
    r"^Reduce(Max|Min) .* (i8|u8) ": "short rows are joined one by one",
    r"^(Log)?Softmax \d+ f64": "exponentials by the standard library",
    r"^(CumSum|CumProd) ": "sums in f64, one element after the other",
    r"^Transpose .* (i8|u8|bool) ": "64 rows of 64 bytes go through registers in two steps",
    r"^GridSample ": "places are worked out in f64, one by one",
    r"^Resize linear down .* (i8|u8|i32) ": "sums in f64, which decides what integers become",
    r"^Col2Im ": "each tap adds to the whole image",
    r"^(RoiAlign.*|MaxRoiPool|DeformConv|MaxUnpool) ": "plain eval, in f64",
    r"^(Pad|Slice|Tile|Expand|ReverseSequence|Concat|Split|Trilu)\b": "plain eval: short runs are copied one by one",
    r"^(Gather(?!Elements)|Scatter|Compress|NonZero|Unique)": "plain eval: places are worked out before anything is moved",
    r"^GatherElements ": "an index at a time, checked",
    r"^(ConstantOfShape|EyeLike|Range|Identity|Reshape) ": "a plain write to memory, which theirs is, too",
    r"^Div.* (i64|i32) ": "a division by zero is defined",
}


def reason(name: str, dtype: str, size: str) -> str | None:
    row = f"{name} {dtype} {size}"
    return next((why for pattern, why in REASONS.items() if re.search(pattern, row)), None)
