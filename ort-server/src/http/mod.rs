//! The protocol over HTTP: paths, and errors as `{"error": "…"}`.

mod admission;
mod data;
mod infer;
mod metadata;
mod request;
mod response;
mod text;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;

use self::admission::{admitted, traced};
use crate::app::App;
use crate::failure::Failure;
use crate::metrics;

/// The routes of HTTP.
pub(crate) fn routes(app: &Arc<App>) -> Router {
    let model = Router::new()
        .route("/", get(metadata::model))
        .route("/ready", get(metadata::model_ready))
        .route("/config", get(metadata::config))
        .route("/stats", get(metadata::statistics))
        .route("/infer", post(infer::infer));
    Router::new()
        .route("/v2", get(metadata::server))
        .route("/v2/", get(metadata::server))
        .route("/v2/health/live", get(metadata::live))
        .route("/v2/health/ready", get(metadata::ready))
        .route("/v2/models/stats", get(metadata::all_statistics))
        .nest("/v2/models/{name}", model.clone())
        .nest("/v2/models/{name}/versions/{version}", model)
        .route("/v2/repository/index", post(metadata::index))
        .route("/v2/repository/models/{name}/load", post(metadata::load))
        .route("/v2/repository/models/{name}/unload", post(metadata::unload))
        .route("/metrics", get(metrics::page))
        .fallback(async || error(StatusCode::NOT_FOUND, "there is no such path"))
        .method_not_allowed_fallback(async || {
            error(StatusCode::METHOD_NOT_ALLOWED, "the path does not have this method")
        })
        .layer(from_fn_with_state(app.clone(), admitted))
        .layer(from_fn_with_state(app.clone(), traced))
        .with_state(app.clone())
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = error(self.http_status(), &self.to_string());
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            let seconds = axum::http::HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

#[derive(Serialize)]
struct ErrorMessage<'a> {
    error: &'a str,
}

fn error(status: StatusCode, message: &str) -> Response {
    let mut response = json(&ErrorMessage { error: message });
    *response.status_mut() = status;
    response
}

/// A response of JSON.
fn json(message: &impl Serialize) -> Response {
    match serde_json::to_vec(message) {
        Ok(text) => {
            let json = [(header::CONTENT_TYPE, "application/json")];
            (json, Body::from(text)).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
