//! The operators of com.microsoft that are no form of one of ai.onnx.

// One a line, in alphabetical order.
ops! {
    attention,
    group_query_attention,
    multi_head_attention,
}
