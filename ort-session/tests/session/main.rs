//! The session as its users see it: names, types, threads, providers, bytes, memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

mod arena;
mod bytes;
mod cache;
mod concurrency;
mod inputs;
mod memory;
mod model;
mod optimize;
mod packed;
mod profile;
mod providers;
mod sequence_map;
mod thread_counts;
mod trace;
