//! The session as its users see it: names, types, threads, providers, bytes, memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

mod arena;
mod bytes;
mod cache;
mod combinations;
mod concurrency;
mod free_dimensions;
mod inputs;
mod log;
mod memory;
mod model;
mod networks;
mod optimize;
mod options;
mod packed;
mod pools;
mod prepacking;
mod profile;
mod providers;
mod sequence_map;
mod thread_counts;
mod trace;
