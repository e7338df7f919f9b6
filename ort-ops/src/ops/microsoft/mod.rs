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
    matmul_integer16,
    matmul_integer_to_float,
    matmul_nbits,
    maxpool_with_mask,
    moe,
    qgemm,
    qlinear_binary,
    qlinear_concat,
    qlinear_pool,
    qlinear_reduce_mean,
    qlinear_softmax,
    qlinear_unary,
    qlinear_where,
}
