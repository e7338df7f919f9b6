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
    binary,
    bit_shift,
    cast,
    clip,
    comparison,
    gelu,
    if_,
    is_nan,
    mod_,
    pow,
    prelu,
    quantization,
    transpose,
    unary,
    variadic,
    where_,
}
