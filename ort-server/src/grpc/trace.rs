//! The span of a call.
//!
//! Source: OpenTelemetry semantic conventions, "gRPC", server.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use http_body_util::BodyExt;
use tonic::{Code, Status};

use crate::app::App;
use crate::trace::Span;

/// The span of an inference call; `None` if it is not traced.
pub(super) fn begin(app: &App, request: &Request) -> Option<Arc<Span>> {
    let tracer = app.tracer.as_ref()?;
    let method = request.uri().path().trim_start_matches('/');
    if !method.ends_with("Infer") {
        return None;
    }
    let span = tracer.begin(request.headers(), method.to_owned())?;
    span.set("rpc.system.name", "grpc");
    span.set("rpc.method", method);
    Some(span)
}

/// A response whose status, in its headers or trailers, becomes the span's.
pub(super) fn ended(span: Arc<Span>, response: Response) -> Response {
    set_status(&span, response.headers());
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            if let Some(trailers) = frame.trailers_ref() {
                set_status(&span, trailers);
            }
            frame
        }))
    })
}

fn set_status(span: &Span, headers: &HeaderMap) {
    let Some(status) = Status::from_header_map(headers) else { return };
    let name = name(status.code());
    span.set("rpc.response.status_code", name);
    let is_failure = matches!(
        status.code(),
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    );
    if is_failure {
        span.fail(name);
    }
}

/// The name of a code, as gRPC spells it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
