//! Quantized networks: integer operators for what stands between DequantizeLinear and QuantizeLinear.

mod bounds;
mod coded;

// One a line.
passes! {
    double_qdq_pairs_remover,
    qdq_propagation,
    clip_quant_fusion,
    relu_quant_fusion,
    qdq_selector_action,
    qdq_final_cleanup,
    qdq_constant_folding,
}
