//! The operators of com.microsoft that are no form of one of ai.onnx.

// One a line, in alphabetical order.
ops! {
    bifurcation_detector,
    cdist,
    conv_transpose_with_dynamic_pads,
    crop_and_resize,
    dynamic_time_warping,
    gather_block_quantized,
    inverse,
    matmul_bnb4,
    matmul_fpq4,
    matmul_nbits,
    maxpool_with_mask,
    moe,
    murmur_hash3,
    ngram_hash_mapping,
    ngram_repeat_block,
    tokenizer,
    unfold_tensor,
    varlen_ngram_hash_mapping,
    word_conv_embedding,
}
