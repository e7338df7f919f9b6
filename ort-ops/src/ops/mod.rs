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
    attention,
    batch_normalization,
    dft,
    embed_layer_normalization,
    group_normalization,
    if_,
    layer_normalization,
    lp_normalization,
    lrn,
    mean_variance_normalization,
    mel_weight_matrix,
    reduce,
    rnn,
    rotary_embedding,
    skip_layer_normalization,
    softmax,
    stft,
    transpose,
    window,
}
