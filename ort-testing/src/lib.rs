//! Tests only: seeded data, and the closeness of numbers.
//!
//! It depends on no crate of the workspace: the unit tests of such a crate would see its types twice.
//!
//! ```
//! use ort_testing::{Rng, ulps};
//!
//! assert_eq!(Rng::new(1).uniforms(3), Rng::new(1).uniforms(3));
//! assert_eq!(ulps(1.0, 1.0 + f32::EPSILON), 1);
//! ```

#![forbid(unsafe_code)]

mod close;
mod rng;

pub use crate::close::{assert_close, sum_bound, ulps, ulps_f64};
pub use crate::rng::Rng;
