//! Shape rules that many operators share.

mod axes;
mod broadcast;
mod conv_pool;
mod matmul;
mod window;

pub use axes::{normalize_axes, normalize_axis};
pub(crate) use broadcast::known_or_zero;
pub use broadcast::{broadcast_dims, broadcast_facts};
pub use conv_pool::{AutoPad, WindowAttrs};
pub(crate) use conv_pool::{known_or_one, read_axes};
pub(crate) use matmul::{known_dim, product_flops};
pub use matmul::{matmul_dims, matmul_shape};
pub(crate) use window::unravel;
pub use window::{PADDING, Window};
