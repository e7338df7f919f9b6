//! The session as its users see it: names, types, threads, providers, bytes, memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

mod arena;
mod attention_states;
mod bound_outputs;
mod bounds;
mod bytes;
mod cache;
#[cfg(unix)]
mod cache_trust;
mod changing_shapes;
mod chosen_outputs;
mod combinations;
mod concurrency;
mod control_flow;
mod copies;
mod edited;
mod free_dimensions;
mod hooked;
mod initializers;
mod inputs;
mod listener;
mod load_limits;
mod loading;
mod log;
mod memory;
mod model;
mod names;
mod narrow_weights;
mod networks;
mod observed_values;
mod onnx;
mod operators;
mod optimize;
mod options;
mod packed;
mod panics;
mod parallel;
mod pools;
mod prepacking;
mod profile;
mod providers;
mod run_events;
mod run_options;
mod saving;
mod sequence_map;
mod states;
mod stress;
mod taking;
mod thread_counts;
mod trace;
mod written_attention;
