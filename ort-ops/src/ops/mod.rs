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
    affine_grid,
    average_pool,
    col2im,
    conv,
    conv_integer,
    conv_transpose,
    deform_conv,
    gemm,
    global_pool,
    grid_sample,
    if_,
    lp_pool,
    matmul,
    matmul_integer,
    max_pool,
    max_unpool,
    non_max_suppression,
    qlinear_conv,
    qlinear_matmul,
    resize,
    roi_align,
    transpose,
}
