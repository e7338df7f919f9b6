//! The session as its users see it: names, types, threads, providers, bytes, memory.

mod bytes;
mod concurrency;
mod inputs;
mod model;
mod providers;
