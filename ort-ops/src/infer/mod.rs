//! Shape rules that many operators share.

mod axes;
mod broadcast;
mod reduce;

pub use axes::{normalize_axes, normalize_axis};
pub use broadcast::{broadcast_dims, broadcast_facts};
pub use reduce::{Axes, reduced_dims, reduced_fact};
