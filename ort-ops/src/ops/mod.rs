//! The operators of ai.onnx, and those of other domains that are forms of one of them; a domain's
//! own operators have a directory each. `ops!` declares each file and registers what it defines:
//! neither goes without the other.

/// Declares the modules and collects their `DEFS`.
macro_rules! ops {
    ($($module:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// The definitions of every file of this directory.
        pub static ALL: &[&[ort_graph::OpDef]] = &[$($module::DEFS),*];
    };
}

pub mod microsoft;
pub mod ml;
pub mod nchwc;

/// The definitions of every file of every domain.
pub fn all() -> Vec<&'static [ort_graph::OpDef]> {
    [ALL, microsoft::ALL, ml::ALL, nchwc::ALL].concat()
}

// One a line, in alphabetical order.
ops! {
    activation,
    affine_grid,
    argmax,
    attention,
    average_pool,
    batch_normalization,
    binary,
    bit_shift,
    cast,
    center_crop_pad,
    class_loss,
    clip,
    col2im,
    comparison,
    compress,
    concat,
    concat_from_sequence,
    constant,
    constant_of_shape,
    conv,
    conv_integer,
    conv_transpose,
    crop,
    cumulative,
    deform_conv,
    depth_to_space,
    det,
    dft,
    dropout,
    einsum,
    embed_layer_normalization,
    expand,
    eye_like,
    flatten,
    gather,
    gather_elements,
    gather_nd,
    gelu,
    gemm,
    global_pool,
    grid_sample,
    group_normalization,
    identity,
    if_,
    image_scaler,
    is_nan,
    layer_normalization,
    loop_,
    lp_normalization,
    lp_pool,
    lrn,
    matmul,
    matmul_integer,
    max_pool,
    max_roi_pool,
    max_unpool,
    mean_variance_normalization,
    mel_weight_matrix,
    mod_,
    multinomial,
    non_max_suppression,
    non_zero,
    one_hot,
    optional,
    pad,
    pow,
    prelu,
    qlinear_conv,
    qlinear_matmul,
    quantization,
    random,
    range,
    reduce,
    regex_full_match,
    reshape,
    resize,
    reverse_sequence,
    rnn,
    roi_align,
    rotary_embedding,
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
    stft,
    string_concat,
    string_normalizer,
    string_split,
    swiglu,
    tensor_scatter,
    tfidf_vectorizer,
    tile,
    top_k,
    transpose,
    trilu,
    unary,
    unique,
    variadic,
    where_,
    window,
}
