//! Functions of contiguous f32 rows, written once and compiled for every instruction set.
//!
//! Element-wise functions work in place and element by element: the result does not depend on where
//! an element stands, so callers may cut rows as they like. NaN stays NaN unless a function says
//! otherwise. Bounds are in units in the last place of the true value, over all f32, as measured by
//! the tests; a denormal result is exact only while denormals are not flushed.

mod elementwise;
mod formula;

pub use elementwise::{
    clip, erf, exp, gelu, gelu_tanh, hard_sigmoid, hard_swish, leaky_relu, sigmoid, silu, tanh,
};
pub(crate) use formula::clamp;
