//! The operators of com.microsoft that are no form of one of ai.onnx.

// One a line, in alphabetical order.
ops! {
    matmul_integer16,
    matmul_integer_to_float,
    qgemm,
    qlinear_binary,
    qlinear_concat,
    qlinear_pool,
    qlinear_reduce_mean,
    qlinear_softmax,
    qlinear_unary,
    qlinear_where,
}
