//! Shape rules that many operators share.

mod axes;
mod broadcast;
mod known;

pub use axes::{normalize_axes, normalize_axis};
pub use broadcast::{broadcast_dims, broadcast_facts};
pub use known::{
    dims_product, folded, int_values, known_dims, known_shape, ranked_fact, tensor_fact, vector_len,
};
