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
    eliminate_identity,
    constant_folding,
}
