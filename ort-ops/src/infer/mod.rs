//! Shape rules that many operators share.

mod axes;
mod broadcast;

pub use axes::{normalize_axes, normalize_axis};
pub use broadcast::{broadcast_dims, broadcast_facts};
