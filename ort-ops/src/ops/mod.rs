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
    argmax,
    batch_normalization,
    binary,
    bit_shift,
    cast,
    comparison,
    compress,
    concat,
    concat_from_sequence,
    constant,
    constant_of_shape,
    conv,
    depth_to_space,
    dropout,
    embed_layer_normalization,
    expand,
    flatten,
    gather,
    gather_elements,
    gather_nd,
    gemm,
    group_normalization,
    identity,
    if_,
    is_nan,
    layer_normalization,
    loop_,
    lp_normalization,
    lrn,
    matmul,
    mean_variance_normalization,
    mod_,
    non_zero,
    one_hot,
    optional,
    pad,
    pow,
    prelu,
    range,
    reduce,
    reshape,
    reverse_sequence,
    scan,
    scatter_elements,
    scatter_nd,
    sequence,
    shape,
    skip_layer_normalization,
    slice,
    softmax,
    split,
    split_to_sequence,
    squeeze,
    tensor_scatter,
    tile,
    top_k,
    transpose,
    trilu,
    unary,
    unique,
    variadic,
    where_,
}
