//! The passes. `passes!` declares each file and puts what it defines on the list.

mod inline_if;

use crate::pass::Pass;

/// Declares the modules and collects their `PASS`, in the order in which they run.
macro_rules! passes {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

        /// Every pass, in order.
        pub(crate) static PASSES: &[Pass] = &[$($module::PASS),*];
    };
}

passes! {
    dead_code_elimination,
    eliminate_identity,
    eliminate_slice,
    eliminate_dropout,
    expand_elimination,
    cast_elimination,
    noop_elimination,
    not_where_fusion,
    common_subexpression_elimination,
    constant_folding,
    gelu_fusion,
}
