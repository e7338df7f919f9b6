//! Functions of contiguous rows, written once and compiled for every instruction set: of f32, and
//! [`each`] and [`pairs`] of any type.
//!
//! The f32 functions work in place; [`map`] reads from another row. Element-wise functions give each element the
//! same result wherever it is, so callers may split rows arbitrarily. NaN stays NaN unless a
//! function says otherwise. Error bounds are in units in the last place of the exact value and
//! measured by the tests; while denormals are flushed, errors may be greater by 2⁻¹²⁵, twice the
//! least normal number.

#[macro_use]
mod registers;

mod angles;
mod arithmetic;
mod double;
mod each;
mod elementwise;
#[cfg(target_arch = "x86_64")]
mod exponential;
mod fold;
mod formula;
mod functions_f64;
mod half;
mod log_sum_exp;
mod norm;
mod recurrent;
mod reduce;
mod rotary;
mod select;
mod softmax;
mod transcendental;

pub use crate::isa::{f32_to_i32, f32_to_i64, f64_to_i32, f64_to_i64};
pub use arithmetic::{
    add, add_bias, add_bias_where, add_scalar, add_scaled, div, div_by, div_scalar, div_scalar_by,
    greatest, greatest_from, greatest_from_scalar, greatest_scalar, hide_where, least, least_from,
    least_from_scalar, least_scalar, mul, mul_scalar, scaled, sub, sub_from, sub_from_scalar,
    sub_scalar, weighted_sum,
};
pub use each::{Lane, any, each, each_in_place, pairs};
pub use elementwise::{
    acos, asin, atan, clip, erf, exp, gelu, gelu_tanh, hard_sigmoid, hard_swish, leaky_relu,
    scaled_hard_swish, scaled_relu, sigmoid, silu, softsign, tanh,
};
pub use fold::{Block, FoldOf, fold_block, fold_columns_of, fold_rows_of};
pub(crate) use formula::{clamp, hard_swish as hard_swish_of};
pub use functions_f64::{FunctionF64, map_f64};
pub use half::{
    bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, narrow_f16, round_to_odd, widen_f16,
};
pub use log_sum_exp::{log_sum_exp, log_sum_exp_of_columns};
pub use norm::{Moments, Row as NormRow, layer_norm, rms_norm, scale_and_shift, standardize};
pub use recurrent::{gru_cell, lstm_cell};
pub use reduce::{
    Fold, dot, fold_columns, fold_row, fold_rows, greater, less, sum_of_squared_deviations,
};
pub use rotary::rotate;
pub use select::select;
pub use softmax::{
    Form as SoftmaxForm, MAX_COLUMNS, Rows, column_totals, softmax, softmax_of_columns,
    softmax_rows, softmax_step,
};
pub use transcendental::{
    acosh, asinh, atanh, celu, cos, cosh, elu, ln, mish, pow, pow_by_f64, selu, sin, sinh,
    softplus, tan,
};

/// Elements that [`map`] copies before it calls the function: so few that a processor reads the next ones from memory
/// while it computes.
const TILE: usize = 128;

/// `y = x`, then `f(start, piece)` for each piece of `y` while it is in cache: turns an in-place function
/// into one between rows. `start` is the start of the piece, to index other operands; `f` must be
/// element-wise.
///
/// # Panics
/// If the lengths differ.
pub fn map(x: &[f32], y: &mut [f32], mut f: impl FnMut(usize, &mut [f32])) {
    assert_eq!(x.len(), y.len(), "operands have the same length");
    for (i, (x, y)) in x.chunks(TILE).zip(y.chunks_mut(TILE)).enumerate() {
        y.copy_from_slice(x);
        f(i * TILE, y);
    }
}

#[cfg(test)]
mod tests;
