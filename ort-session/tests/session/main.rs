//! The session as its users see it: names, types, threads, providers, bytes, memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

mod arena;
mod bound_outputs;
mod bytes;
mod cache;
mod chosen_outputs;
mod concurrency;
mod hooked;
mod inputs;
mod loading;
mod memory;
mod model;
mod optimize;
mod packed;
mod panics;
mod profile;
mod providers;
mod run_options;
mod sequence_map;
mod stress;
mod thread_counts;
