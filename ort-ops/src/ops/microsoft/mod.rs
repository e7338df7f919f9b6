//! The operators of com.microsoft that are no form of one of ai.onnx.

// One a line, in alphabetical order.
ops! {
    bifurcation_detector,
    dynamic_time_warping,
    murmur_hash3,
    ngram_hash_mapping,
    ngram_repeat_block,
    tokenizer,
    unfold_tensor,
    varlen_ngram_hash_mapping,
    word_conv_embedding,
}
