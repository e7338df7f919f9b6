//! The operators of com.microsoft that are no form of one of ai.onnx.

// One a line, in alphabetical order.
ops! {
    cdist,
    conv_transpose_with_dynamic_pads,
    crop_and_resize,
    gather_block_quantized,
    inverse,
    matmul_bnb4,
    matmul_fpq4,
    matmul_nbits,
    maxpool_with_mask,
    moe,
}
