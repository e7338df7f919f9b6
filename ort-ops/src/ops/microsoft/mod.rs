//! The operators of com.microsoft that are no form of one of ai.onnx.

// One a line, in alphabetical order.
ops! {
    qlinear_binary,
    qlinear_concat,
    qlinear_pool,
    qlinear_reduce_mean,
    qlinear_softmax,
    qlinear_unary,
    qlinear_where,
}
