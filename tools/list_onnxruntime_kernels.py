#!/usr/bin/env python3
"""Lists the kernels of onnxruntime's CPU provider: one line per operator, for the table in docs.

    python3 tools/list_onnxruntime_kernels.py > xtask/src/docs/onnxruntime_kernels.txt

A line contains the domain, the operator, the first and the newest since-version with a kernel, and the
element types of its data in any of them. An operator with several type parameters is listed by the
one of its data: T, T1, or the entry in DATA.
"""

from __future__ import annotations

import collections
import re

import environment

environment.enter()

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as state

# Operators whose data has neither the parameter T nor T1, or in which another operand has it.
DATA = {
    "ConstantOfShape": "T2",
    "OneHot": "T3",
    "Optional": "V",
    "OptionalGetElement": "V",
    "OptionalHasElement": "O",
    "Loop": "V",
    "Scan": "V",
    "If": "V",
    "MelWeightMatrix": "T3",
    "SequenceAt": "S",
    "SequenceErase": "S",
    "SequenceInsert": "S",
    "SequenceLength": "S",
    "RandomNormalLike": "T2",
    "RandomUniformLike": "T2",
    "EyeLike": "T2",
    "QLinearConv": "T1",
    "QGemm": "TA",
    "WordConvEmbedding": "T1",
}
# Kernels whose constraints do not name the data.
UNNAMED = {
    "DynamicQuantizeLinear": ["float"],
    "NonMaxSuppression": ["float"],
    "QLinearAveragePool": ["int8", "uint8"],
    "QLinearConcat": ["int8", "uint8"],
    "QLinearGlobalAveragePool": ["int8", "uint8"],
}


def data_types(kernel) -> list[str]:
    """The element types of the data that a kernel accepts."""
    if kernel.op_name in UNNAMED:
        return UNNAMED[kernel.op_name]
    constraints = kernel.type_constraints
    names = [DATA.get(kernel.op_name), "T", "T1", *sorted(constraints)]
    name = next((name for name in names if name in constraints), None)
    return [found for text in constraints.get(name, []) for found in re.findall(r"tensor\((\w+)\)", text)]


def main() -> None:
    versions = collections.defaultdict(list)
    types = collections.defaultdict(set)
    for kernel in state.get_all_opkernel_def():
        is_copy_between_devices = kernel.op_name.startswith("Memcpy")
        if kernel.provider != "CPUExecutionProvider" or is_copy_between_devices:
            continue
        key = (kernel.domain or "ai.onnx", kernel.op_name)
        versions[key].append(kernel.version_range[0])
        types[key].update(data_types(kernel))
    print(f"# onnxruntime {ort.__version__}, CPU; made by tools/list_onnxruntime_kernels.py")
    for key in sorted(versions):
        first, newest = min(versions[key]), max(versions[key])
        print(*key, first, newest, *sorted(types[key]))


if __name__ == "__main__":
    main()
