//! Inference over HTTP.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;

use super::admission::{read, reservation};
use super::metadata::{ModelPath, of_path};
use super::request::{Context, HEADER_LENGTH, decode};
use super::response::encode;
use crate::app::App;
use crate::failure::Failure;

/// Longer messages are decoded and encoded on a thread that may block.
const MAX_INLINE_BYTES: usize = 64 << 10;

pub(super) async fn infer(
    State(app): State<Arc<App>>,
    path: ModelPath,
    request: Request,
) -> Result<Response, Failure> {
    let _active = app.begin()?;
    let arrival = Instant::now();
    let (name, version) = of_path(&path);
    // A model that is unknown costs no reading of the message.
    app.repository.get(name, version)?;
    let (parts, body) = request.into_parts();
    let header = header_length(&parts.headers)?;
    let reservation = reservation(&app, &parts.extensions);
    let read = timeout_at((arrival + app.limits.max_time).into(), read(body, &reservation)).await;
    let body = read.map_err(|_| Failure::Late)??;
    let n_bytes = body.len();
    let span = parts.extensions.get().cloned();
    let context = Context { max_time: app.limits.max_time, arrival, reservation, span };
    let decode = move || decode(&body, header, context);
    let decoded = off_async(n_bytes, decode).await??;
    let model = app.repository.get(name, version)?;
    let outputs = model.infer(decoded.request).await?;
    let n_bytes = outputs.iter().map(|(_, tensor)| tensor.n_bytes()).sum();
    let (id, form) = (decoded.id, decoded.form);
    let encode = move || encode(&model, id.as_deref(), &outputs, &form);
    Ok(off_async(n_bytes, encode).await??.into_response())
}

/// The length of the JSON, if the client gives it.
fn header_length(headers: &HeaderMap) -> Result<Option<usize>, Failure> {
    let Some(value) = headers.get(HEADER_LENGTH) else { return Ok(None) };
    let length = value.to_str().ok().and_then(|text| text.parse().ok());
    let invalid = || Failure::Request(format!("{HEADER_LENGTH} is not a number"));
    length.map(Some).ok_or_else(invalid)
}

/// Runs `work` on `n_bytes`, which must not keep asynchronous threads busy for long.
async fn off_async<T: Send + 'static>(
    n_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if n_bytes <= MAX_INLINE_BYTES {
        return Ok(work());
    }
    spawn_blocking(work).await.map_err(|_| Failure::Internal("a conversion panicked"))
}
