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
    concat,
    constant,
    constant_of_shape,
    dropout,
    expand,
    flatten,
    gather,
    gather_elements,
    gather_nd,
    identity,
    if_,
    loop_,
    pad,
    range,
    reshape,
    scan,
    shape,
    slice,
    split,
    squeeze,
    tile,
    transpose,
}
