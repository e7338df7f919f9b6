//! Shape rules that many operators share.

mod axes;
mod broadcast;
mod expect;
mod reduce;
mod scalar;

pub use axes::{normalize_axes, normalize_axis};
pub use broadcast::{broadcast_dims, broadcast_facts};
pub use expect::expect_dims;
pub use reduce::{Axes, reduced_dims, reduced_fact};
pub use scalar::{known_scalar, read_scalar};
