//! The operators of com.microsoft that are no form of one of ai.onnx.

// One a line, in alphabetical order.
ops! {
    attention,
    causal_conv_with_state,
    cdist,
    conv_transpose_with_dynamic_pads,
    crop_and_resize,
    engram_gate,
    gated_add,
    gated_rms_norm,
    gather_block_quantized,
    group_query_attention,
    hyper_connection,
    inverse,
    linear_attention,
    linear_attention_gate,
    matmul_bnb4,
    matmul_fpq4,
    matmul_nbits,
    maxpool_with_mask,
    moe,
    multi_head_attention,
    q_embed_layer_normalization,
    scaled_silu,
    sparse_attention,
}
