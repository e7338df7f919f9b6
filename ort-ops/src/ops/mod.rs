//! The operators. `ops!` declares each file and registers what it defines: neither goes without
//! the other.

/// Declares the modules and collects their `DEFS`.
macro_rules! ops {
    ($($module:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// The definitions of every file.
        pub static ALL: &[&[ort_graph::OpDef]] = &[$($module::DEFS),*];
    };
}

// One a line, in alphabetical order.
ops! {
    activation,
    argmax,
    attention,
    average_pool,
    batch_normalization,
    binary,
    bit_shift,
    cast,
    clip,
    comparison,
    compress,
    concat,
    constant,
    constant_of_shape,
    conv,
    conv_transpose,
    depth_to_space,
    dropout,
    embed_layer_normalization,
    expand,
    flatten,
    gather,
    gather_elements,
    gather_nd,
    gelu,
    gemm,
    global_pool,
    group_normalization,
    identity,
    if_,
    is_nan,
    layer_normalization,
    loop_,
    lp_normalization,
    lp_pool,
    lrn,
    matmul,
    max_pool,
    max_unpool,
    mean_variance_normalization,
    mod_,
    non_zero,
    one_hot,
    pad,
    pow,
    prelu,
    quantization,
    range,
    reduce,
    reshape,
    reverse_sequence,
    rnn,
    rotary_embedding,
    scan,
    scatter_elements,
    scatter_nd,
    shape,
    skip_layer_normalization,
    slice,
    softmax,
    split,
    squeeze,
    tile,
    transpose,
    trilu,
    unary,
    variadic,
    where_,
}
