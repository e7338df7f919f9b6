//! Fusions of products and convolutions with nodes before and after them.

mod activations;
mod channels;
mod matrices;

// One per line.
passes! {
    loop_projection,
    conv_bn_fusion,
    conv_mul_fusion,
    conv_add_fusion,
    pad_fusion,
    mat_mul_batch_normalization_fusion,
    mat_mul_add_fusion,
    gemm_sum_fusion,
    gemm_transpose_fusion,
    gemm_constant_fusion,
    fuse_relu_clip,
    div_mul_fusion,
    label_encoder_fusion,
    one_hot_mat_mul_fusion,
    lookup_fusion,
    lookup_projection,
    global_average_pool_fusion,
    matmul_transpose_fusion,
    mat_mul_scale_fusion,
    conv_activation_fusion,
    gemm_activation_fusion,
    conv_add_activation_fusion,
    hard_swish_tail_fusion,
    quick_gelu_tail_fusion,
}
