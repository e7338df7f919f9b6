//! Convolution and pooling of f32 planes, channels first.
//!
//! `y[o,p] = act(b[o] + Σ_{c,t} w[o,c,t]·x[c, s·p + d·t − pad])` for one image and one group, where
//! positions `p` and taps `t` have up to three axes and x is zero outside.
//!
//! - **Dense**: a product, weights [o, c·t] packed once by [`pack_a`](crate::gemm::pack_a) as
//!   A, [`Columns`] of the image as B, generated panel by panel and never stored as a whole.
//!   With few filters, [`Direct`] reads the image directly instead, and with few positions
//!   [`Narrow`] uses a lane per filter; the bits are the same.
//! - **Depthwise**, one input channel per group: [`Depthwise`] computes rows of a plane directly.
//! - **Transposed**, one input channel per group: [`ShiftedSum`] computes the outputs that are a stride apart.
//! - **Pooling**: [`Pool`], first the rows of windows and then their columns.
//!
//! The bits of a result do not depend on how rows or positions are split among calls.

mod axis;
mod columns;
mod depthwise;
pub mod direct;
pub mod narrow;
mod parts;
mod patches;
mod pool;
mod rows;
mod small;
mod transposed;
mod window;

pub use axis::Axis;
pub use columns::Columns;
pub use depthwise::Depthwise;
pub use direct::Direct;
pub use narrow::Narrow;
pub use parts::{PlanePart, plane_parts};
pub(crate) use pool::{Max, Sum};
pub use pool::{Pool, PoolKind};
pub(crate) use rows::{Finish, Layers, fold_rows};
pub use small::Padded;
pub use transposed::ShiftedSum;
pub(crate) use window::Fold;

#[cfg(test)]
mod tests;
