"""All attention operators: prompts and decoding steps, with masks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .elementwise import Family
from .node import Node, Operands


class Call(NamedTuple):
    """The sizes of a call: queries, heads, key and value heads, head size, and past keys."""

    queries: int
    past: int = 0
    heads: int = 8
    kv_heads: int = 8
    size: int = 64

    @property
    def keys(self) -> int:
        return self.past + self.queries


CALLS = {"prompt 128": Call(128), "prompt 512": Call(512)} | {
    f"step {past}": Call(1, past) for past in (32, 512, 1000)
}
LONG = {"2 heads, step 4000": Call(1, 4000, heads=2, kv_heads=2)}


def of_one_size(describe):
    describe.has_one_size = True
    return describe


def rows(d: Operands, call: Call) -> list[np.ndarray]:
    """Queries, keys and values with the heads in the last dimension."""
    widths = (call.heads, call.kv_heads, call.kv_heads)
    return [d.values((1, call.queries, n * call.size), "any", i) for i, n in enumerate(widths)]


def past(d: Operands, call: Call, capacity: int | None = None) -> list[np.ndarray | None]:
    shape = (1, call.kv_heads, call.past if capacity is None else capacity, call.size)
    return [d.values(shape, "any", i) for i in (3, 4)] if call.past else [None, None]


def standard() -> Family:
    """ai.onnx's Attention."""

    def described(call: Call, mask=None, **how):
        heads = {"q_num_heads": call.heads, "kv_num_heads": call.kv_heads}

        def describe(d: Operands) -> Node:
            constants = [mask and mask(d, call), *past(d, call)]
            outputs = 3 if call.past else 1
            return Node("Attention", rows(d, call), constants, heads | how, 24, outputs)

        return of_one_size(describe)

    def grouped(call: Call) -> Call:
        return call._replace(kv_heads=2)

    biases = lambda d, call: d.values((1, call.heads, call.queries, call.keys), "any", 5)
    flags = lambda d, call: np.ones((call.queries, call.keys), bool)
    found = {f"Attention {name}": described(call) for name, call in (CALLS | LONG).items()}
    for name, call in CALLS.items():
        found[f"Attention groups, {name}"] = described(grouped(call))
    found["Attention causal"] = described(CALLS["prompt 512"], is_causal=1)
    found["Attention biases"] = described(CALLS["prompt 512"], biases)
    found["Attention flags"] = described(CALLS["prompt 512"], flags)
    found["Attention cap"] = described(CALLS["prompt 512"], softcap=20.0)
    found["Attention step with biases"] = described(CALLS["step 1000"], biases)
    return found


def group_query() -> Family:
    """GroupQueryAttention, with a cache buffer of five quarters of the keys."""

    def described(call: Call, is_rotary=False, extra=lambda d, call: [], **how):
        heads = {"num_heads": call.heads, "kv_num_heads": call.kv_heads, "do_rotary": int(is_rotary)}
        length = np.array([call.keys - 1], "i4"), np.array([call.keys], "i4")

        def describe(d: Operands) -> Node:
            capacity = call.keys * 5 // 4
            caches = past(d, call, capacity)
            if not call.past:
                caches = past(d, call._replace(past=1), capacity)
            tables = [d.values((capacity, call.size // 2), "fraction", i) for i in (6, 7)]
            tables = tables if is_rotary else [None, None]
            constants = [*caches, *length, *tables, *extra(d, call)]
            return Node("GroupQueryAttention", rows(d, call), constants, heads | how, 20, 3, "com.microsoft")

        return of_one_size(describe)

    calls = {name: call._replace(kv_heads=2) for name, call in CALLS.items()}
    prompt, step = calls["prompt 512"], calls["step 1000"]
    found = {f"GroupQueryAttention {name}": described(call) for name, call in calls.items()}
    found["GroupQueryAttention 2 heads, step 4000"] = described(LONG["2 heads, step 4000"])
    biases = lambda d, call: [None, d.values((1, 1, call.queries, call.keys), "any", 5)]
    sinks = lambda d, call: [None, None, d.values((call.heads,), "any", 5)]
    for name, call in {"prompt": prompt, "step": step}.items():
        found[f"GroupQueryAttention rotary, {name}"] = described(call, True)
        found[f"GroupQueryAttention window, {name}"] = described(call, local_window_size=128)
        found[f"GroupQueryAttention cap, {name}"] = described(call, softcap=20.0)
        found[f"GroupQueryAttention smooth, {name}"] = described(call, smooth_softmax=1)
        found[f"GroupQueryAttention biases, {name}"] = described(call, extra=biases)
        found[f"GroupQueryAttention sinks, {name}"] = described(call, extra=sinks)
    return found


def multi_head() -> Family:
    """MultiHeadAttention and DecoderMaskedMultiHeadAttention."""

    def described(call: Call, op="MultiHeadAttention", constants=lambda d, call: [], **how):
        def describe(d: Operands) -> Node:
            outputs = 3 if call.past else 1
            how_many = {"num_heads": call.heads} | how
            return Node(op, rows(d, call), constants(d, call), how_many, 20, outputs, "com.microsoft")

        return of_one_size(describe)

    prompt = CALLS["prompt 512"]
    bias = lambda d, call: d.values((3 * call.heads * call.size,), "any", 5)
    ends = np.array([500], "i4")
    forms = {
        "": lambda d, call: [],
        " bias": lambda d, call: [bias(d, call)],
        " ends": lambda d, call: [None, ends],
        " flags": lambda d, call: [None, np.ones((1, call.keys), "i4")],
        " 3-D flags": lambda d, call: [None, np.ones((1, call.queries, call.keys), "i4")],
        " biases": lambda d, call: [None, None, d.values((1, 1, call.queries, call.keys), "any", 6)],
    }
    found = {f"MultiHeadAttention{name}": described(prompt, constants=of) for name, of in forms.items()}
    found["MultiHeadAttention prompt 128"] = described(CALLS["prompt 128"])
    found["MultiHeadAttention causal"] = described(prompt, unidirectional=1)
    for name, call in (CALLS | LONG).items():
        if call.past:
            with_past = lambda d, call: [None, None, None, *past(d, call)]
            found[f"MultiHeadAttention {name}"] = described(call, constants=with_past)
            with_past = lambda d, call: [None, None, *past(d, call)]
            decoder = "DecoderMaskedMultiHeadAttention"
            found[f"{decoder} {name}"] = described(call, decoder, with_past)
            shared = lambda d, call: [
                None, None, *past(d, call, call.keys * 5 // 4), np.array([call.past], "i4"),
            ]  # fmt: skip
            how = {"past_present_share_buffer": 1}
            found[f"{decoder} shared, {name}"] = described(call, decoder, shared, **how)
    return found


def projected() -> Family:
    """com.microsoft's Attention, which projects one input to queries, keys and values."""

    def described(call: Call, constants=lambda d, call: [], **how):
        def describe(d: Operands) -> Node:
            width = call.heads * call.size
            weights = [d.values((width, 3 * width), "fraction", 8), d.values((3 * width,), "any", 9)]
            x = d.values((1, call.queries, width))
            how_many = {"num_heads": call.heads} | how
            outputs = 2 if call.past else 1
            constant = weights + constants(d, call)
            return Node("Attention", [x], constant, how_many, 20, outputs, "com.microsoft")

        return of_one_size(describe)

    prompt = CALLS["prompt 512"]
    both = lambda d, call: [None, np.stack(past(d, call))]
    forms = {
        "": lambda d, call: [],
        " ends": lambda d, call: [np.array([500], "i4")],
        " flags": lambda d, call: [np.ones((1, call.keys), "i4")],
        " 3-D flags": lambda d, call: [np.ones((1, call.queries, call.keys), "i4")],
        " biases": lambda d, call: [None, None, d.values((1, 1, call.queries, call.keys), "any", 6)],
    }
    found = {f"Attention of x{name}": described(prompt, of) for name, of in forms.items()}
    found["Attention of x causal"] = described(prompt, unidirectional=1)
    for name, call in CALLS.items():
        if call.past:
            found[f"Attention of x {name}"] = described(call, both)
    return found
