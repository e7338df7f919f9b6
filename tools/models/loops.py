"""Networks dominated by a Loop or a Scan, as some exporters produce for recurrent layers and decoding."""

from __future__ import annotations

import numpy as np
from onnx import helper

from .graph import BOOL, FLOAT, INT64, Graph


def constant(g: Graph, value, dtype=np.float32) -> str:
    return g.folded("Constant", np.array(value, dtype))


def returned(g: Graph, name: str, value: str, shape, dtype=FLOAT) -> None:
    """An output that forwards another value."""
    g.op("Identity", value, out=f"{g.prefix}{name}")
    g.output(f"{g.prefix}{name}", shape, dtype)


def body_of_loop(seed: int) -> tuple[Graph, str]:
    """A body that runs for a given number of iterations, and the iteration number."""
    body = Graph("body", opset=17, seed=seed, prefix="body_")
    step = body.input("body_step", [], INT64)
    body.input("body_goes_on", [], BOOL)
    return body, step


def gru_step(g: Graph, x: str, state: str, width: int, hidden: int) -> str:
    """One step of a GRU, gate by gate."""
    of_input = g.op("MatMul", x, g.weight(width, 3 * hidden))
    of_state = g.op("MatMul", state, g.weight(hidden, 3 * hidden))
    split = {"outputs": 3, "axis": 1}
    update_x, reset_x, new_x = g.op("Split", of_input, g.const([hidden] * 3), **split)
    update_h, reset_h, new_h = g.op("Split", of_state, g.const([hidden] * 3), **split)
    update = g.op("Sigmoid", g.op("Add", update_x, update_h))
    reset = g.op("Sigmoid", g.op("Add", reset_x, reset_h))
    new = g.op("Tanh", g.op("Add", new_x, g.op("Mul", reset, new_h)))
    return blended(g, update, state, new)


def blended(g: Graph, share: str, a: str, b: str) -> str:
    """`share · a + (1 − share) · b`."""
    rest = g.op("Sub", g.const(1.0), share)
    return g.op("Add", g.op("Mul", share, a), g.op("Mul", rest, b))


def scan_gru():
    """A GRU as a Scan."""
    steps, width, hidden = 100, 96, 160
    body = Graph("body", opset=17, seed=31, prefix="body_")
    state = body.input("body_state", [1, hidden])
    new = gru_step(body, body.input("body_x", [1, width]), state, width, hidden)
    returned(body, "state_out", new, [1, hidden])
    returned(body, "y", new, [1, hidden])
    g = Graph("scan_gru", opset=17, seed=32)
    inputs = [g.input("state", [1, hidden]), g.input("xs", [steps, 1, width])]
    last, ys = g.op("Scan", *inputs, outputs=2, body=body.body(), num_scan_inputs=1)
    returned(g, "last", last, [1, hidden])
    returned(g, "ys", ys, [steps, 1, hidden])
    feed = {"state": np.zeros((1, hidden), np.float32), "xs": g.normal((steps, 1, width), 1.0)}
    return g.model(), feed


def loop_sequence():
    """A GRU that reads one sequence of tensors and writes another, as converted from Keras' TensorArrays."""
    steps, width, hidden, n_out = 120, 128, 300, 64
    g = Graph("loop_sequence", opset=17, seed=33)
    rows = g.op("SplitToSequence", g.input("x", [steps, 1, width]), axis=0, keepdims=0)
    body, step = body_of_loop(34)
    state = body.input("body_state", [1, hidden])
    sequence = helper.make_tensor_sequence_value_info
    body.inputs.append(sequence("body_seen", FLOAT, None))
    new = gru_step(body, body.op("SequenceAt", rows, step), state, width, hidden)
    returned(body, "goes_on_out", "body_goes_on", [], BOOL)
    returned(body, "state_out", new, [1, hidden])
    body.op("SequenceInsert", "body_seen", new, out="body_seen_out")
    body.outputs.append(sequence("body_seen_out", FLOAT, None))
    operands = [constant(g, steps, np.int64), constant(g, True, bool), constant(g, np.zeros((1, hidden)))]
    empty = g.op("SequenceEmpty", dtype=FLOAT)
    _, states = g.op("Loop", *operands, empty, outputs=2, body=body.body())
    states = g.op("ConcatFromSequence", states, axis=0)
    returned(g, "y", g.op("MatMul", states, g.weight(hidden, n_out)), [steps, n_out])
    return g.model(), {"x": g.normal((steps, 1, width), 1.0)}


def loop_while():
    """An LSTM with a mask, in a TensorFlow while loop: its weights are loop state that no iteration changes."""
    steps, width, hidden = 150, 448, 384
    shapes = {"w": [width, 4 * hidden], "r": [hidden, 4 * hidden], "b": [4 * hidden]}
    body, step = body_of_loop(35)
    state, cell = (body.input(f"body_{name}", [1, hidden]) for name in ("state", "cell"))
    weights = {name: body.input(f"body_{name}", shape) for name, shape in shapes.items()}
    x = body.op("MatMul", body.op("Gather", "xs", step), weights["w"])
    sums = body.op("Add", body.op("Add", x, body.op("MatMul", state, weights["r"])), weights["b"])
    parts = body.op("Split", sums, body.const([hidden] * 4), outputs=4, axis=1)
    take, forget, offer, give = (
        body.op(function, part) for function, part in zip(["Sigmoid", "Sigmoid", "Tanh", "Sigmoid"], parts)
    )
    new_cell = body.op("Add", body.op("Mul", forget, cell), body.op("Mul", take, offer))
    new_state = body.op("Mul", give, body.op("Tanh", new_cell))
    is_there = body.op("Cast", body.op("Gather", "mask", step), to=FLOAT)
    goes_on = body.op("Less", step, constant(body, steps - 1, np.int64))
    returned(body, "goes_on_out", goes_on, [], BOOL)
    returned(body, "state_out", blended(body, is_there, new_state, state), [1, hidden])
    returned(body, "cell_out", blended(body, is_there, new_cell, cell), [1, hidden])
    for name, shape in shapes.items():
        returned(body, f"{name}_out", weights[name], shape)
    returned(body, "y", new_state, [1, hidden])
    g = Graph("loop_while", opset=17, seed=36)
    g.input("xs", [steps, 1, width])
    g.input("mask", [steps], BOOL)
    zero = constant(g, np.zeros((1, hidden)))
    first = [zero, zero, g.weight(*shapes["w"]), g.weight(*shapes["r"]), g.weight(*shapes["b"], std=0.05)]
    last, *_, ys = g.op("Loop", None, constant(g, True, bool), *first, outputs=6, body=body.body())
    returned(g, "last", last, [1, hidden])
    returned(g, "ys", ys, ["steps", 1, hidden])
    return g.model(), {"xs": g.normal((steps, 1, width), 1.0), "mask": g.rng.random(steps) > 0.1}


def loop_concat():
    """Greedy decoding: each step appends its token and its state, and attends to all states so far."""
    steps, hidden, vocabulary = 200, 256, 500
    g = Graph("loop_concat", opset=17, seed=37)
    table = g.weight(vocabulary, hidden, std=1.0)
    body, _ = body_of_loop(38)
    token, state = body.input("body_token", [1], INT64), body.input("body_state", [1, hidden])
    tokens, states = body.input("body_tokens", ["n"], INT64), body.input("body_states", ["n", hidden])
    new = gru_step(body, body.op("Gather", table, token), state, hidden, hidden)
    scores = body.op("MatMul", new, body.op("Transpose", states, perm=[1, 0]))
    context = body.op("MatMul", body.op("Softmax", scores, axis=1), states)
    logits = body.op("MatMul", body.op("Add", new, context), body.weight(hidden, vocabulary))
    best = body.op("ArgMax", logits, axis=1, keepdims=0)
    returned(body, "goes_on_out", "body_goes_on", [], BOOL)
    returned(body, "token_out", best, [1], INT64)
    returned(body, "state_out", new, [1, hidden])
    returned(body, "tokens_out", body.op("Concat", tokens, best, axis=0), ["m"], INT64)
    returned(body, "states_out", body.op("Concat", states, new, axis=0), ["m", hidden])
    first = [g.input("token", [1], INT64), g.input("state", [1, hidden])]
    count = [constant(g, steps, np.int64), constant(g, True, bool)]
    _, _, tokens, states = g.op("Loop", *count, *first, *first, outputs=4, body=body.body())
    returned(g, "tokens", tokens, ["n"], INT64)
    returned(g, "states", states, ["n", hidden])
    return g.model(), {"token": np.array([1]), "state": g.normal((1, hidden), 1.0)}
