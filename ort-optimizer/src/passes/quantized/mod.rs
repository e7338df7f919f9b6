//! Quantized networks: integer operators for what stands between DequantizeLinear and QuantizeLinear.

mod biased;
mod bounds;
mod coded;

// One a line.
passes! {
    double_qdq_pairs_remover,
    qdq_propagation,
    clip_quant_fusion,
    relu_quant_fusion,
    qdq_selector_action,
    matmul_integer_to_float_fusion,
    dynamic_quantize_matmul_fusion,
    matmul_nbits_fusion,
    qdq_final_cleanup,
    qdq_constant_folding,
}
