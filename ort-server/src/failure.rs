//! Why a request fails, and its status in HTTP and gRPC.

use axum::http::StatusCode;
use ort_session::{LimitError, PlanError, RunError, TensorError};
use tonic::{Code, Status};

/// A failed request.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("there is no model `{name}`")]
    UnknownModel { name: String },
    #[error("model `{name}` has no version `{version}`")]
    UnknownVersion { name: String, version: String },
    #[error("model `{name}`, version {version}, is not available: {reason}")]
    NotAvailable { name: String, version: u64, reason: String },
    #[error("model `{name}` cannot be loaded: {reason}")]
    NotLoaded { name: String, reason: String },
    #[error("{0}")]
    Request(String),
    #[error("input `{name}`: {what}")]
    Input { name: String, what: String },
    #[error("output `{name}`: {what}")]
    Output { name: String, what: String },
    #[error("{what} is not supported")]
    Unsupported { what: String },
    #[error(
        "loading and unloading is disabled: start the server with --model-control-mode explicit"
    )]
    NoControl,
    #[error("the message has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("model `{name}` has {n} waiting requests, the maximum")]
    QueueFull { name: String, n: usize },
    #[error("the requests in progress hold {limit} bytes, the maximum")]
    MemoryFull { limit: usize },
    #[error("the request was not answered in time")]
    Late,
    #[error("the server is shutting down")]
    Draining,
    #[error("the request was cancelled: the server is shutting down")]
    Cancelled,
    #[error("the connection was closed: {0}")]
    Disconnected(String),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("internal error: {0}")]
    Internal(&'static str),
}

/// What both protocols distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Invalid,
    Unknown,
    Forbidden,
    TooLarge,
    Overloaded,
    Late,
    Unavailable,
    Unsupported,
    Internal,
}

impl Failure {
    pub(crate) fn input(name: &str, what: impl Into<String>) -> Self {
        Failure::Input { name: name.to_owned(), what: what.into() }
    }

    pub(crate) fn output(name: &str, what: impl Into<String>) -> Self {
        Failure::Output { name: name.to_owned(), what: what.into() }
    }

    pub(crate) fn class(&self) -> Class {
        match self {
            Failure::UnknownModel { .. } | Failure::UnknownVersion { .. } => Class::Unknown,
            Failure::NotAvailable { .. } | Failure::Draining | Failure::Cancelled => {
                Class::Unavailable
            }
            Failure::NotLoaded { .. }
            | Failure::Request(_)
            | Failure::Input { .. }
            | Failure::Output { .. }
            | Failure::Disconnected(_) => Class::Invalid,
            Failure::Unsupported { .. } => Class::Unsupported,
            Failure::NoControl => Class::Forbidden,
            Failure::TooLarge { .. } => Class::TooLarge,
            Failure::QueueFull { .. } | Failure::MemoryFull { .. } => Class::Overloaded,
            Failure::Late => Class::Late,
            Failure::Internal(_) => Class::Internal,
            Failure::Run(error) => run_class(error),
        }
    }

    /// A word for the reason, in metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self.class() {
            Class::Overloaded => "REJECTED",
            Class::Late | Class::Unavailable => "CANCELED",
            Class::Internal => "BACKEND",
            _ => "OTHER",
        }
    }

    pub(crate) fn http_status(&self) -> StatusCode {
        match self.class() {
            Class::Invalid => StatusCode::BAD_REQUEST,
            Class::Unknown => StatusCode::NOT_FOUND,
            Class::Forbidden => StatusCode::FORBIDDEN,
            Class::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Class::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Class::Late => StatusCode::GATEWAY_TIMEOUT,
            Class::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Class::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Class::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn grpc_code(&self) -> Code {
        match self.class() {
            Class::Invalid => Code::InvalidArgument,
            Class::Unknown => Code::NotFound,
            Class::Forbidden => Code::PermissionDenied,
            Class::TooLarge | Class::Overloaded => Code::ResourceExhausted,
            Class::Late => Code::DeadlineExceeded,
            Class::Unavailable => Code::Unavailable,
            Class::Unsupported => Code::Unimplemented,
            Class::Internal => Code::Internal,
        }
    }
}

/// A typed error of a run is due to the request's values or shapes: the model itself has been loaded.
fn run_class(error: &RunError) -> Class {
    match error {
        RunError::DeadlineExceeded { .. } | RunError::Limit(LimitError::Time { .. }) => Class::Late,
        RunError::Cancelled { .. } => Class::Unavailable,
        RunError::Limit(LimitError::Bytes { .. })
        | RunError::NoMemory { .. }
        | RunError::Plan(PlanError::Arena { .. } | PlanError::TooLarge { .. }) => Class::TooLarge,
        RunError::Panicked { .. } | RunError::NotComputed { .. } => Class::Internal,
        _ => Class::Invalid,
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        Status::new(failure.grpc_code(), failure.to_string())
    }
}

/// Of a request's tensor.
pub(crate) fn in_input(name: &str) -> impl FnOnce(TensorError) -> Failure {
    move |error| Failure::input(name, error.to_string())
}

/// Of a response's tensor.
pub(crate) fn in_output(name: &str) -> impl FnOnce(TensorError) -> Failure {
    move |error| Failure::output(name, error.to_string())
}
