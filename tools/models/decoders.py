"""Language models with a KV cache, in the forms that exporters produce."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

from .graph import INT32, INT64, MICROSOFT, Graph
from .layout import Feed

LAYERS, HEADS, HEAD_SIZE, VOCABULARY = 8, 8, 64, 8192
HIDDEN = HEADS * HEAD_SIZE
# In grouped attention, several query heads share a key and value head.
SHARED_HEADS, GATED = 2, 1408
CAPACITY = 1024


def tokens(g: Graph, n: int, **more: np.ndarray) -> Feed:
    return {"input_ids": g.rng.integers(0, VOCABULARY, (1, n)), **more}


def cache(g: Graph, heads: int, length: int) -> Feed:
    shape = (1, heads, length, HEAD_SIZE)
    return {name: g.normal(shape, 1.0) for layer in range(LAYERS) for name in past_names(layer)}


def past_names(layer: int) -> list[str]:
    return [f"past.{layer}.{kind}" for kind in ("key", "value")]


def past(g: Graph, layer: int, heads: int, length) -> list[str]:
    return [g.input(name, ["batch", heads, length, HEAD_SIZE]) for name in past_names(layer)]


def present(g: Graph, layer: int, values: list[str], heads: int, length) -> None:
    for name, value in zip(past_names(layer), values):
        name = name.replace("past", "present")
        g.op("Identity", value, out=name)
        g.output(name, ["batch", heads, length, HEAD_SIZE])


def logits(g: Graph, x: str, weight: str) -> None:
    g.op("MatMul", x, weight, out="logits")
    g.output("logits", ["batch", "length", VOCABULARY])


# -- GPT-2: positions are learned, heads are plain nodes, the cache grows by Concat --


def layer_norm(g: Graph, x: str) -> str:
    scale = g.folded("LayerNormalization", np.ones(HIDDEN, np.float32))
    return g.op("LayerNormalization", x, scale, bias(g, HIDDEN), axis=-1)


def bias(g: Graph, size: int) -> str:
    return g.weight(size, std=0.02)


def linear(g: Graph, x: str, n_in: int, n_out: int, gain: float = 1.0) -> str:
    y = g.op("MatMul", x, g.weight(n_in, n_out, std=gain * HIDDEN**-0.5))
    return g.op("Add", y, bias(g, n_out))


def gelu(g: Graph, x: str) -> str:
    """The tanh approximation, node by node."""
    cubic = g.op("Mul", g.op("Pow", x, g.const(3.0)), g.const(0.044715))
    inner = g.op("Mul", g.op("Add", x, cubic), g.const((2 / np.pi) ** 0.5))
    one_more = g.op("Add", g.op("Tanh", inner), g.const(1.0))
    return g.op("Mul", g.op("Mul", x, g.const(0.5)), one_more)


def causal_mask(g: Graph, first_past: str, ids: str) -> str:
    """Zeros and lowest floats, `[new tokens, all tokens]`, sliced from a square."""
    table = np.tril(np.ones((CAPACITY, CAPACITY), bool))
    square = g.op("Where", g.folded("Where", table), g.const(0.0), g.const(-3e38))
    n_new = g.op("Shape", ids, start=1, end=2)
    n_past = g.op("Shape", first_past, start=2, end=3)
    n_all = g.op("Add", n_past, n_new)
    rows = g.op("Slice", square, n_past, n_all, g.const([0]))
    return g.op("Slice", rows, g.const([0]), n_all, g.const([1]))


def by_head(g: Graph, x: str) -> str:
    return g.op("Transpose", g.reshape(x, [0, 0, HEADS, HEAD_SIZE], ""), perm=[0, 2, 1, 3])


def attention(g: Graph, x: str, pasts: list[str], mask: str) -> tuple[str, list[str]]:
    """The result, and past and new keys and values."""
    parts = g.op("Split", linear(g, x, HIDDEN, 3 * HIDDEN), g.const([HIDDEN] * 3), outputs=3, axis=2)
    query, *new = (by_head(g, part) for part in parts)
    key, value = (g.op("Concat", *pair, axis=2) for pair in zip(pasts, new))
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = g.op("Add", g.op("Div", scores, g.const(HEAD_SIZE**0.5)), mask)
    heads = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
    y = g.reshape(g.op("Transpose", heads, perm=[0, 2, 1, 3]), [0, 0, HIDDEN], "")
    return linear(g, y, HIDDEN, HIDDEN), [key, value]


def written_out(n_past: int, n_new: int):
    """As Optimum exports GPT-2."""
    g = Graph("decoder", opset=17, seed=21)
    ids, positions = (g.input(name, ["batch", "length"], INT64) for name in ("input_ids", "position_ids"))
    table = g.weight(VOCABULARY, HIDDEN, std=0.3)
    x = g.op("Add", g.op("Gather", table, ids), g.op("Gather", g.weight(CAPACITY, HIDDEN, std=0.1), positions))
    pasts = [past(g, layer, HEADS, "past_length") for layer in range(LAYERS)]
    mask = causal_mask(g, pasts[0][0], ids)
    for layer in range(LAYERS):
        y, kept = attention(g, layer_norm(g, x), pasts[layer], mask)
        present(g, layer, kept, HEADS, "total_length")
        x = g.op("Add", x, y)
        inner = gelu(g, linear(g, layer_norm(g, x), HIDDEN, 4 * HIDDEN))
        x = g.op("Add", x, linear(g, inner, 4 * HIDDEN, HIDDEN, gain=0.5))
    logits(g, layer_norm(g, x), g.op("Transpose", table, perm=[1, 0]))
    positions = np.arange(n_past, n_past + n_new)[None]
    return g.model(), tokens(g, n_new, position_ids=positions) | cache(g, HEADS, n_past)


@contextmanager
def sizes(**of: int):
    """Overrides the sizes of this module in its scope."""
    before = {name: globals()[name] for name in of}
    globals().update(of)
    try:
        yield
    finally:
        globals().update(before)


def tiny(n_past: int, n_new: int):
    """The same with few parameters: models/tiny_decoder."""
    of = {"LAYERS": 2, "HEADS": 2, "HEAD_SIZE": 8, "HIDDEN": 16, "VOCABULARY": 64, "CAPACITY": 64}
    with sizes(**of):
        return written_out(n_past, n_new)


# -- Llama: heads share keys and values, rotary embeddings, gated layers --


def rotary_tables(g: Graph) -> list[str]:
    frequencies = 10_000.0 ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
    angles = np.arange(CAPACITY)[:, None] * frequencies
    tables = (np.cos(angles), np.sin(angles))
    return [g.folded("RotaryEmbedding", table.astype(np.float32)) for table in tables]


def heads_of(g: Graph, x: str) -> list[str]:
    """Queries, keys and values, each from its own layer."""
    widths = (HIDDEN, *[SHARED_HEADS * HEAD_SIZE] * 2)
    return [g.op("MatMul", x, g.weight(HIDDEN, width)) for width in widths]


def gated(g: Graph, x: str) -> str:
    gate, up = (g.op("MatMul", x, g.weight(HIDDEN, GATED)) for _ in range(2))
    swish = g.op("Mul", gate, g.op("Sigmoid", gate))
    return g.op("MatMul", g.op("Mul", swish, up), g.weight(GATED, HIDDEN))


def ones(g: Graph) -> str:
    return g.folded("RMSNormalization", np.ones(HIDDEN, np.float32))


def skipped(g: Graph, x: str, y: str) -> tuple[str, str]:
    """The norm of the sum, and the sum."""
    norm, _, _, total = g.op(
        "SkipSimplifiedLayerNormalization", x, y, ones(g), outputs=4, domain=MICROSOFT, epsilon=1e-5
    )  # fmt: skip
    return norm, total


def shared_buffer(n_past: int, n_new: int):
    """As exported by GenAI's builder: keys and values in a buffer of fixed length."""
    g = Graph("decoder_gqa", opset=17, seed=22)
    ids = g.input("input_ids", ["batch", "length"], INT64)
    lengths = [g.input("seqlens_k", ["batch"], INT32), g.input("total_sequence_length", [], INT32)]
    tables = rotary_tables(g)
    x = g.op("Gather", g.weight(VOCABULARY, HIDDEN, std=0.3), ids)
    norm = g.op("SimplifiedLayerNormalization", x, ones(g), axis=-1, epsilon=1e-5)
    options = {"num_heads": HEADS, "kv_num_heads": SHARED_HEADS, "do_rotary": 1, "domain": MICROSOFT}
    for layer in range(LAYERS):
        buffers = past(g, layer, SHARED_HEADS, CAPACITY)
        operands = [*heads_of(g, norm), *buffers, *lengths, *tables]
        y, *kept = g.op("GroupQueryAttention", *operands, outputs=3, **options)
        present(g, layer, kept, SHARED_HEADS, CAPACITY)
        norm, x = skipped(g, x, g.op("MatMul", y, g.weight(HIDDEN, HIDDEN)))
        norm, x = skipped(g, x, gated(g, norm))
    logits(g, norm, g.weight(HIDDEN, VOCABULARY))
    total = n_past + n_new
    feed = tokens(
        g,
        n_new,
        seqlens_k=np.array([total - 1], np.int32),
        total_sequence_length=np.array(total, np.int32),
    )
    return g.model(), feed | cache(g, SHARED_HEADS, CAPACITY)


def in_four_bits(n_past: int, n_new: int):
    """The same with weights of 4 bits in blocks of 32, whose products may use int8."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    model, feed = shared_buffer(n_past, n_new)
    how = {"bits": 4, "block_size": 32, "is_symmetric": True, "accuracy_level": 4}
    quantizer = MatMulNBitsQuantizer(model, **how)
    quantizer.process()
    return quantizer.model.model, feed


def standard(n_past: int, n_new: int):
    """With the operators introduced by opsets 23 and 24."""
    g = Graph("decoder_attention24", opset=24, seed=23)
    ids, positions = (g.input(name, ["batch", "length"], INT64) for name in ("input_ids", "position_ids"))
    tables = rotary_tables(g)
    x = g.op("Gather", g.weight(VOCABULARY, HIDDEN, std=0.3), ids)
    heads = {"q_num_heads": HEADS, "kv_num_heads": SHARED_HEADS}
    for layer in range(LAYERS):
        pasts = past(g, layer, SHARED_HEADS, "past_length")
        query, key, value = heads_of(g, g.op("RMSNormalization", x, ones(g), axis=-1))
        query = g.op("RotaryEmbedding", query, *tables, positions, num_heads=HEADS)
        key = g.op("RotaryEmbedding", key, *tables, positions, num_heads=SHARED_HEADS)
        y, *kept = g.op("Attention", query, key, value, None, *pasts, outputs=3, is_causal=1, **heads)
        present(g, layer, kept, SHARED_HEADS, "total_length")
        x = g.op("Add", x, g.op("MatMul", y, g.weight(HIDDEN, HIDDEN)))
        x = g.op("Add", x, gated(g, g.op("RMSNormalization", x, ones(g), axis=-1)))
    logits(g, g.op("RMSNormalization", x, ones(g), axis=-1), g.weight(HIDDEN, VOCABULARY))
    feed = tokens(g, n_new, position_ids=np.arange(n_past, n_past + n_new)[None])
    return g.model(), feed | cache(g, SHARED_HEADS, n_past)
