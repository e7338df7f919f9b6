//! What both protocols report of a model with the same fields: its statistics and its configuration.
//!
//! Source: Triton, "statistics extension" and "model configuration extension"; `grpc_service.proto`, `model_config.proto`.

mod config;
mod statistics;

pub(crate) use self::config::ModelConfig;
pub(crate) use self::statistics::{StatisticsResponse, statistics};
