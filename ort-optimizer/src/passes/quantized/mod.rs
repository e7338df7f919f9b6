//! Quantized networks: integer operators for nodes between DequantizeLinear and QuantizeLinear.
//!
//! ONNX Runtime's session keys correspond to names of passes:
//!
//! ```text
//! session.disable_quant_qdq = 1              without all of these
//! session.disable_qdq_constant_folding = 1   without QDQConstantFolding
//! session.disable_double_qdq_remover = 1     without DoubleQDQPairsRemover
//! session.enable_quant_qdq_cleanup = 1       with QDQFinalCleanupTransformer
//! session.enable_dq_matmulnbits_fusion = 0   without DQMatMulNBitsFusion
//! ```
//! QDQS8ToU8Transformer and Avx2WeightS8ToU8 (session.qdqisint8allowed, session.x64quantprecision)
//! are not needed: kernels support both signs, and their sums do not saturate.

mod biased;
mod bounds;
mod nbits;
mod values;

// One per line.
passes! {
    double_qdq_pairs_remover,
    qdq_propagation,
    weight_bias_quantization,
    clip_quant_fusion,
    relu_quant_fusion,
    qdq_selector_action,
    matmul_integer_to_float_fusion,
    dynamic_quantize_matmul_fusion,
    dq_matmul_nbits_fusion,
    matmul_nbits_fusion,
    qdq_final_cleanup,
    qdq_constant_folding,
}
