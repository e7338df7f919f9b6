//! Shape rules that many operators share.

mod axes;
mod broadcast;
mod join;
mod known;
mod conv_pool;
mod matmul;
mod expect;
mod reduce;

pub use axes::{normalize_axes, normalize_axis};
pub(crate) use broadcast::known_or_zero;
pub use broadcast::{broadcast_dims, broadcast_facts};
pub use join::join_facts;
pub use known::{
    dims_product, folded, int_values, known_dims, known_shape, ranked_fact, tensor_fact, vector_len,
};
pub use conv_pool::{AutoPad, PADDING, Window, WindowAttrs};
pub(crate) use conv_pool::{read_axes, unravel};
pub(crate) use matmul::{known_dim, product_flops};
pub use matmul::{matmul_dims, matmul_shape};
pub use expect::expect_dims;
pub use reduce::{Axes, reduced_dims, reduced_fact};
