//! The operators of com.microsoft that are no form of one of ai.onnx.

// One a line, in alphabetical order.
ops! {
    cdist,
    gather_block_quantized,
    inverse,
    matmul_bnb4,
    matmul_fpq4,
    matmul_nbits,
    moe,
}
