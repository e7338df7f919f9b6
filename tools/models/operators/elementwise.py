"""Unary functions, and n-ary functions with broadcasting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper

from .node import TYPES, Node, Operands

Description = Callable[[Operands], Node]
Family = dict[str, Description]

ANYWHERE = (
    "Abs Neg Sign Floor Ceil Round Exp Erf Tanh Sigmoid HardSigmoid HardSwish Relu LeakyRelu Elu Selu Celu"
    " Softplus Softsign Mish Gelu Sin Cos Tan Sinh Cosh Asinh Atan Reciprocal ThresholdedRelu Shrink"
    " Not BitwiseNot IsNaN IsInf"
)
# Operators that need a newer operator set than the others.
NEWER = {"Celu": 28, "BitCast": 26, "CumProd": 26}


def function(op: str, kind: str = "any") -> Description:
    return lambda d: Node(op, [d.values(d.image, kind)], opset=NEWER.get(op, 22))


def functions() -> Family:
    """Unary functions."""
    found = {op: function(op) for op in ANYWHERE.split()}
    found |= {op: function(op, "positive") for op in ("Log", "Sqrt")}
    found |= {op: function(op, "fraction") for op in ("Asin", "Acos", "Atanh")}
    found["Acosh"] = lambda d: Node("Acosh", [d.values(d.image, "positive") + d.scalar(1)])
    found["Clip"] = lambda d: Node("Clip", [d.values(d.image)], [d.scalar(1), d.scalar(3)])
    for e in (0.5, 1.7, 2.0, 3.0):
        found[f"Pow {e}"] = lambda d, e=e: Node(
            "Pow", [d.values(d.image, "positive")], [d.scalar(e)]
        )
    for op in ("QuickGelu", "Gelu", "FastGelu"):
        found[f"{op} (com.microsoft)"] = lambda d, op=op: Node(
            op, [d.values(d.image)], domain="com.microsoft"
        )
    found["BiasGelu (com.microsoft)"] = lambda d: Node(
        "BiasGelu", [d.values(d.rows(64))], [d.values((64,))], domain="com.microsoft"
    )
    return found


BINARY = (
    "Add Sub Mul Div Max Min Sum Mean Mod Pow Equal Greater Less GreaterOrEqual LessOrEqual And Or Xor"
    " BitwiseAnd BitwiseOr BitwiseXor BitShift PRelu"
)
ATTRIBUTES = {"BitShift": {"direction": "LEFT"}}


def pair(op: str, shape_of: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Description:
    def described(d: Operands) -> Node:
        how = ATTRIBUTES.get(op, {"fmod": int(d.is_float)} if op == "Mod" else {})
        other = d.values(shape_of(d.image), "positive", 1)
        kind = "positive" if op == "Pow" else "any"
        return Node(op, [d.values(d.image, kind), other], [], how)

    return described


def broadcasts() -> Family:
    """Binary functions, with and without broadcasting."""
    found = {op: pair(op, lambda shape: shape) for op in BINARY.split()}
    for op in ("Add", "Div", "Max", "Greater", "PRelu"):
        found[f"{op} channels"] = pair(op, lambda shape: (shape[1], 1, 1))
        found[f"{op} rows"] = pair(op, lambda shape: shape[3:])
        found[f"{op} scalar"] = pair(op, lambda shape: ())
    found["Add planes"] = pair("Add", lambda shape: shape[2:])

    def where(shape_of: Callable) -> Description:
        def described(d: Operands) -> Node:
            flags = np.random.default_rng(0).random(shape_of(d.image)) > 0.5
            return Node("Where", [flags, d.values(d.image), d.values(d.image, "any", 1)])

        return described

    found["Where"] = where(lambda shape: shape)
    found["Where rows"] = where(lambda shape: shape[3:])
    return found


def casts() -> Family:
    """Casts from every type to every other."""

    def cast(to: str) -> Description:
        number = helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[to][0]))
        return lambda d: Node("Cast", [d.values(d.image)], [], {"to": number})

    found = {f"Cast to {to}": cast(to) for to in TYPES}
    for op, zero in (("QuantizeLinear", np.uint8(3)), ("QuantizeLinear i8", np.int8(3))):
        found[op] = lambda d, zero=zero: Node(
            "QuantizeLinear", [d.values(d.image)], [d.scalar(0.05), np.array(zero)], {}, 21
        )
    found["DequantizeLinear"] = lambda d: Node(
        "DequantizeLinear", [d.values(d.image)], [np.float32(0.05), d.scalar(0)], {}, 21
    )
    found["DynamicQuantizeLinear"] = lambda d: Node(
        "DynamicQuantizeLinear", [d.values(d.image)], outputs=3
    )
    return found
