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
    concat,
    constant,
    constant_of_shape,
    conv,
    conv_transpose,
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
    pad,
    pow,
    prelu,
    range,
    reduce,
    reshape,
    rnn,
    rotary_embedding,
    scan,
    shape,
    skip_layer_normalization,
    slice,
    softmax,
    split,
    squeeze,
    tile,
    transpose,
    unary,
    variadic,
    where_,
}
