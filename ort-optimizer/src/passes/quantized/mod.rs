//! Quantized networks: integer operators for what stands between DequantizeLinear and QuantizeLinear.

// One a line.
passes! {}
