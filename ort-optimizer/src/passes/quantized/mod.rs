//! Quantized networks: integer operators for what stands between DequantizeLinear and QuantizeLinear.

mod coded;

// One a line.
passes! {
    double_qdq_pairs_remover,
}
