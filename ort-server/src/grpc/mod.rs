//! The protocol over gRPC: the methods of `inference.GRPCInferenceService`, and `grpc.health.v1.Health/Check`.

mod codec;
mod contents;
mod health;
mod infer;
mod messages;
mod metadata;
mod stream;
mod timeout;
mod trace;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response as HttpResponse};
use axum::routing::post;
use http_body_util::BodyExt;
use tonic::server::Grpc;
use tonic::{Code, Request, Response, Status};

use self::codec::CountingCodec;
use self::timeout::timeout;
use crate::app::App;
use crate::budget::{CountedBody, HeldBody, Reservation};
use crate::failure::Failure;
use crate::trace::Span;

/// The bytes of a message of any method but `ModelInfer`, whose maximum is an option.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// The one method of streams.
const STREAM: &str = "ModelStreamInfer";

/// What a method knows of its call, in addition to the message.
#[derive(Clone, Debug)]
struct Call {
    app: Arc<App>,
    deadline: Instant,
    reservation: Arc<Reservation>,
    span: Option<Arc<Span>>,
}

/// The routes of gRPC: a path for each method.
pub(crate) fn routes(app: &Arc<App>) -> Router {
    let path = |method: &str| format!("/inference.GRPCInferenceService/{method}");
    let mut routes = Router::new().route(
        "/grpc.health.v1.Health/Check",
        post(async |request| unary(request, health::check).await),
    );
    macro_rules! methods {
        ($($name:literal => $method:path,)*) => {
            $(routes = routes.route(&path($name), post(async |request| unary(request, $method).await));)*
        };
    }
    methods! {
        "ServerLive" => health::server_live,
        "ServerReady" => health::server_ready,
        "ModelReady" => health::model_ready,
        "ServerMetadata" => metadata::server,
        "ModelMetadata" => metadata::model,
        "ModelConfig" => metadata::config,
        "ModelStatistics" => metadata::statistics,
        "RepositoryIndex" => metadata::index,
        "RepositoryModelLoad" => metadata::load,
        "RepositoryModelUnload" => metadata::unload,
    }
    routes
        .route(&path("ModelInfer"), post(infer_route))
        .route(&path(STREAM), post(stream::route))
        .fallback(async || {
            Status::unimplemented("the server has no such method")
                .into_http::<Body>()
                .into_response()
        })
        .layer(from_fn_with_state(app.clone(), admitted))
}

/// Begins the span of a call that is traced, counts the bytes of the message, and holds their reservation until the
/// response is sent.
async fn admitted(State(app): State<Arc<App>>, request: HttpRequest, next: Next) -> HttpResponse {
    let reservation = app.budget.reservation();
    let deadline = app.deadline(timeout(request.headers()));
    // Each message of a stream has the limit.
    let is_stream = request.uri().path().ends_with(STREAM);
    let limit = if is_stream { usize::MAX } else { app.limits.max_body };
    let span = trace::begin(&app, &request);
    let (mut parts, body) = request.into_parts();
    let body = CountedBody::new(body, limit, reservation.clone()).map_err(Status::from);
    let call = Call { app, deadline, reservation: reservation.clone(), span: span.clone() };
    parts.extensions.insert(call);
    let response = next.run(HttpRequest::from_parts(parts, Body::new(body))).await;
    let response = response.map(|body| Body::new(HeldBody::new(body, reservation)));
    match span {
        Some(span) => trace::ended(span, response),
        None => response,
    }
}

async fn infer_route(request: HttpRequest) -> HttpResponse {
    let call = request.extensions().get::<Call>();
    let max_bytes = call.map_or(MAX_MESSAGE_BYTES, |call| call.app.limits.max_body);
    answered(request, max_bytes, infer::infer).await
}

/// Answers a call with one message in each direction.
async fn unary<M, R, F>(request: HttpRequest, method: fn(Call, M) -> F) -> HttpResponse
where
    M: prost::Message + Default + 'static,
    R: prost::Message + 'static,
    F: Future<Output = Result<R, Failure>> + Send + 'static,
{
    answered(request, MAX_MESSAGE_BYTES, method).await
}

async fn answered<M, R, F>(
    request: HttpRequest,
    max_bytes: usize,
    method: fn(Call, M) -> F,
) -> HttpResponse
where
    M: prost::Message + Default + 'static,
    R: prost::Message + 'static,
    F: Future<Output = Result<R, Failure>> + Send + 'static,
{
    let Some(call) = request.extensions().get::<Call>().cloned() else {
        return Status::internal("the call has no context").into_http::<Body>();
    };
    let deadline = call.deadline;
    let mut grpc = Grpc::new(CountingCodec::new(call.reservation.clone()))
        .max_decoding_message_size(max_bytes)
        .max_encoding_message_size(usize::MAX);
    let service = tower::service_fn(move |request: Request<(M, Arc<Reservation>)>| {
        let (message, _) = request.into_inner();
        let answer = method(call.clone(), message);
        async { Ok::<_, Status>(Response::new(answer.await?)) }
    });
    match tokio::time::timeout_at(deadline.into(), grpc.unary(service, request)).await {
        Ok(response) => match Status::from_header_map(response.headers()) {
            Some(status) if status.code() == Code::OutOfRange => {
                status_of(status, max_bytes).into_http::<Body>()
            }
            _ => response.map(Body::new),
        },
        Err(_) => Status::from(Failure::Late).into_http::<Body>(),
    }
}

/// The status of a failed call. The code for a message whose length exceeds the maximum is one that no method has.
fn status_of(status: Status, max_bytes: usize) -> Status {
    match status.code() {
        Code::OutOfRange => Failure::TooLarge { limit: max_bytes }.into(),
        _ => status,
    }
}

#[cfg(test)]
mod tests;
