//! Files that the crate writes, read back; and files that it must refuse.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod adapters;
mod by_hand;
mod container;
mod hostile;
mod models;
mod properties;
mod refusals;
mod round_trip;
mod sharing;
