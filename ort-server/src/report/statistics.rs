//! The statistics of models.

use serde::Serialize;

use crate::app::App;
use crate::failure::Failure;
use crate::model::Model;
use crate::statistics::{Times, Total};

#[derive(Clone, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct StatisticsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) model_stats: Vec<ModelStatistics>,
}

#[derive(Clone, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct ModelStatistics {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    /// In milliseconds since 1970.
    #[prost(uint64, tag = "3")]
    pub(crate) last_inference: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) inference_count: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) execution_count: u64,
    #[prost(message, optional, tag = "6")]
    pub(crate) inference_stats: Option<InferStatistics>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) batch_stats: Vec<BatchStatistics>,
}

/// By requests.
#[derive(Clone, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct InferStatistics {
    #[prost(message, optional, tag = "1")]
    pub(crate) success: Option<Duration>,
    #[prost(message, optional, tag = "2")]
    pub(crate) fail: Option<Duration>,
    #[prost(message, optional, tag = "3")]
    pub(crate) queue: Option<Duration>,
    #[prost(message, optional, tag = "4")]
    pub(crate) compute_input: Option<Duration>,
    #[prost(message, optional, tag = "5")]
    pub(crate) compute_infer: Option<Duration>,
    #[prost(message, optional, tag = "6")]
    pub(crate) compute_output: Option<Duration>,
}

/// By runs, of those with this batch size.
#[derive(Clone, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct BatchStatistics {
    #[prost(uint64, tag = "1")]
    pub(crate) batch_size: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) compute_input: Option<Duration>,
    #[prost(message, optional, tag = "3")]
    pub(crate) compute_infer: Option<Duration>,
    #[prost(message, optional, tag = "4")]
    pub(crate) compute_output: Option<Duration>,
}

/// A number of events and their total time.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, prost::Message)]
pub(crate) struct Duration {
    #[prost(uint64, tag = "1")]
    pub(crate) count: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) ns: u64,
}

/// The statistics of the models with this name and version; an empty text stands for all.
///
/// # Errors
/// If there is none.
pub(crate) fn statistics(
    app: &App,
    name: &str,
    version: &str,
) -> Result<StatisticsResponse, Failure> {
    let models = if name.is_empty() {
        app.repository.ready()
    } else if version.is_empty() {
        // It is an error that there is no version.
        app.repository.get(name, version)?;
        app.repository.ready().into_iter().filter(|model| model.name == name).collect()
    } else {
        vec![app.repository.get(name, version)?]
    };
    let model_stats = models.iter().map(|model| ModelStatistics::of(model)).collect();
    Ok(StatisticsResponse { model_stats })
}

impl ModelStatistics {
    fn of(model: &Model) -> Self {
        let statistics = &model.statistics;
        let batch = |(&size, times): (&usize, &Times)| BatchStatistics {
            batch_size: u64::try_from(size).unwrap_or(u64::MAX),
            compute_input: Some((&times.inputs).into()),
            compute_infer: Some((&times.compute).into()),
            compute_output: Some((&times.outputs).into()),
        };
        Self {
            name: model.name.clone(),
            version: model.version.to_string(),
            last_inference: statistics.last_ms.get(),
            inference_count: statistics.n_inferences.get(),
            execution_count: statistics.n_runs.get(),
            inference_stats: Some(InferStatistics {
                success: Some((&statistics.succeeded).into()),
                fail: Some((&statistics.failed).into()),
                queue: Some((&statistics.queued).into()),
                compute_input: Some((&statistics.ran.inputs).into()),
                compute_infer: Some((&statistics.ran.compute).into()),
                compute_output: Some((&statistics.ran.outputs).into()),
            }),
            batch_stats: statistics.sizes().iter().map(batch).collect(),
        }
    }
}

impl From<&Total> for Duration {
    fn from(total: &Total) -> Self {
        Self { count: total.n.get(), ns: total.ns.get() }
    }
}
