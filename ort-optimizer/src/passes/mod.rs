//! The passes: one folder per family, one file per pass. `passes!` declares a family's files and lists the passes
//! that they define.

use crate::pass::Pass;

/// Declares the modules and collects their `PASS`, in the order in which they run.
macro_rules! passes {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*

        /// The passes of this family, in order.
        pub(super) static PASSES: &[$crate::pass::Pass] = &[$($module::PASS),*];
    };
}

mod cleanup;
mod layout;
mod linear;
mod quantized;
mod shapes;
mod transformer;
mod transposes;

pub(crate) use self::cleanup::InsertCastTransformer;

/// Every family, in the order in which they run; within a level, that is. Attention is found before its products are
/// fused with their neighbours.
const FAMILIES: &[&[Pass]] = &[
    cleanup::PASSES,
    shapes::PASSES,
    transposes::PASSES,
    quantized::PASSES,
    transformer::PASSES,
    linear::PASSES,
    layout::PASSES,
];

/// Every pass, in order.
pub(crate) fn all() -> impl Iterator<Item = &'static Pass> {
    FAMILIES.iter().copied().flatten()
}
