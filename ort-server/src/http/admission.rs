//! What every request goes through first: its span begins, if it is traced, and its bytes are reserved.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;

use crate::app::App;
use crate::budget::{CountedBody, HeldBody, Reservation};
use crate::failure::Failure;
use crate::trace::Span;

/// Traces an inference request; its span is an extension of the request.
pub(super) async fn traced(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(span) = span(&app, &request) else { return next.run(request).await };
    request.extensions_mut().insert(span.clone());
    let response = next.run(request).await;
    let status = response.status();
    span.set("http.response.status_code", u64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail(status.as_str());
    }
    response.map(|body| Body::new(HeldBody::new(body, span)))
}

/// Source: OpenTelemetry semantic conventions, "HTTP server span".
fn span(app: &App, request: &Request) -> Option<Arc<Span>> {
    let tracer = app.tracer.as_ref()?;
    let route = request.extensions().get::<MatchedPath>()?.as_str();
    let method = request.method().as_str();
    if !route.ends_with("/infer") || method != "POST" {
        return None;
    }
    let span = tracer.begin(request.headers(), format!("{method} {route}"))?;
    let version = match request.version() {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    for (name, value) in [
        ("http.request.method", method),
        ("http.route", route),
        ("url.path", request.uri().path()),
        ("url.scheme", tracer.scheme),
        ("network.protocol.version", version),
    ] {
        span.set(name, value);
    }
    Some(span)
}

/// Runs a request whose body is counted; the reservation is an extension of the request, and held until the
/// response is sent.
pub(super) async fn admitted(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let reservation = app.budget.reservation();
    let limit = app.limits.max_body;
    let (mut parts, body) = request.into_parts();
    // What is known to be too large is not read.
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Failure::TooLarge { limit }.into_response();
    }
    if parts.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Failure::Unsupported { what: "a compressed message".to_owned() }.into_response();
    }
    parts.extensions.insert(reservation.clone());
    let body = Body::new(CountedBody::new(body, limit, reservation.clone()));
    let response = next.run(Request::from_parts(parts, body)).await;
    response.map(|body| Body::new(HeldBody::new(body, reservation)))
}

/// The whole body of a request, as one slice: a copy, which counts as well.
///
/// # Errors
/// If it is too large, the server has no memory for it, or the client disconnects.
pub(crate) async fn read(body: Body, reservation: &Reservation) -> Result<Bytes, Failure> {
    match body.collect().await {
        Ok(collected) => {
            let body = collected.to_bytes();
            reservation.add(body.len())?;
            Ok(body)
        }
        Err(error) => Err(match error.into_inner().downcast::<Failure>() {
            Ok(failure) => *failure,
            Err(error) => Failure::Disconnected(error.to_string()),
        }),
    }
}

/// The reservation that [`admitted`] made.
pub(crate) fn reservation(app: &App, extensions: &axum::http::Extensions) -> Arc<Reservation> {
    extensions.get().cloned().unwrap_or_else(|| app.budget.reservation())
}
