//! Shape rules that many operators share.

mod axes;
mod broadcast;
mod conv_pool;
mod expect;
mod join;
mod known;
mod map;
mod matmul;
mod reduce;
mod scalar;
mod square;
mod window;

pub use axes::{float_along, normalize_axes, normalize_axis};
pub(crate) use broadcast::known_or_zero;
pub use broadcast::{broadcast_dims, broadcast_facts};
pub use conv_pool::{AutoPad, WindowAttrs};
pub(crate) use conv_pool::{known_or_one, read_axes};
pub use expect::expect_dims;
pub use join::join_facts;
pub(crate) use known::{MAX_RANK, expect_few, sizes};
pub use known::{
    dims_product, folded, int_values, known_dims, known_shape, ranked_fact, tensor_fact, vector_len,
};
pub use map::map_types;
pub(crate) use matmul::{attention_flops, element_flops, known_dim, product_flops};
pub use matmul::{matmul_dims, matmul_shape};
pub use reduce::{Axes, reduced_dims, reduced_fact};
pub use scalar::{known_scalar, read_scalar};
pub(crate) use square::square_dims;
pub use square::square_matrices;
pub(crate) use window::unravel;
pub use window::{PADDING, Window};
