//! Inference over a stream of gRPC: an answer for each request, in order. Requests run at once; one that fails has an
//! answer with its error, and the stream goes on.
//!
//! Source: Triton, `ModelStreamInfer` of `grpc_service.proto`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request as HttpRequest;
use axum::response::Response as HttpResponse;
use futures_util::stream::{self, Stream, StreamExt};
use tonic::server::Grpc;
use tonic::{Request, Response, Status, Streaming};

use super::codec::CountingCodec;
use super::messages::{
    InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
    ParameterChoice,
};
use super::{Call, infer, status_of};
use crate::budget::Reservation;
use crate::failure::Failure;

/// The requests of a stream that wait or run at once; the client's flow control stops at more.
const MAX_IN_PROGRESS: usize = 128;

/// A request of a client that wants to know whether an answer is the last one; here it always is.
const WANTS_FINAL: &str = "triton_enable_empty_final_response";
const IS_FINAL: &str = "triton_final_response";

type Message = (ModelInferRequest, Arc<Reservation>);
type Answer = Result<(ModelStreamInferResponse, Arc<Reservation>), Status>;

pub(super) async fn route(request: HttpRequest) -> HttpResponse {
    let Some(call) = request.extensions().get::<Call>().cloned() else {
        return Status::internal("the call has no context").into_http::<Body>();
    };
    let codec = CountingCodec::of_stream(call.reservation.clone());
    let mut grpc = Grpc::new(codec)
        .max_decoding_message_size(call.app.limits.max_body)
        .max_encoding_message_size(usize::MAX);
    let service = tower::service_fn(move |request: Request<Streaming<Message>>| {
        let answers = answers(call.clone(), request.into_inner());
        async { Ok::<_, Status>(Response::new(answers)) }
    });
    grpc.streaming(service, request).await.map(Body::new)
}

/// The answers of a stream; it ends with the requests, or the first error that is not of one request.
fn answers(
    call: Call,
    requests: Streaming<Message>,
) -> impl Stream<Item = Result<ModelStreamInferResponse, Status>> {
    let incoming = stream::unfold(Some(Incoming { call: call.clone(), requests }), next);
    let answers = incoming.map(move |message| {
        let call = call.clone();
        async move { answer(call, message?).await }
    });
    let mut sent: Option<Arc<Reservation>> = None;
    answers.buffered(MAX_IN_PROGRESS).map(move |answer| {
        let (response, reservation) = answer?;
        // The answer before this one has been sent, and its bytes are returned.
        sent.replace(reservation);
        Ok(response)
    })
}

/// The requests of a stream.
struct Incoming {
    call: Call,
    requests: Streaming<Message>,
}

/// The next request, and those after it.
async fn next(incoming: Option<Incoming>) -> Option<(Result<Message, Status>, Option<Incoming>)> {
    let mut incoming = incoming?;
    match incoming.message().await {
        Ok(None) => None,
        Ok(Some(message)) => Some((Ok(message), Some(incoming))),
        Err(status) => Some((Err(status), None)),
    }
}

impl Incoming {
    /// # Errors
    /// If the message is not valid, or takes too long, or the server shuts down. A stream without a message may last.
    async fn message(&mut self) -> Result<Option<Message>, Status> {
        let app = self.call.app.clone();
        let mut had_part = false;
        loop {
            let message = tokio::select! {
                message = self.requests.message() => message,
                () = app.rejecting() => return Err(Failure::Draining.into()),
                () = tokio::time::sleep(app.limits.max_time) => {
                    // Some part of a message arrived in the time before this one already.
                    let has_part = self.call.reservation.n_bytes() > 0;
                    if has_part && had_part {
                        return Err(Failure::Late.into());
                    }
                    had_part = has_part;
                    continue;
                }
            };
            return message.map_err(|status| status_of(status, app.limits.max_body));
        }
    }
}

async fn answer(call: Call, (message, reservation): Message) -> Answer {
    let deadline = call.app.deadline(None);
    let call = Call { deadline, reservation: reservation.clone(), ..call };
    let (name, id) = (message.model_name.clone(), message.id.clone());
    let wanted = message.parameters.get(WANTS_FINAL).and_then(|it| it.choice.as_ref());
    let wants_final = matches!(wanted, Some(ParameterChoice::Bool(true)));
    let (mut response, error_message) = match infer::infer(call, message).await {
        Ok(response) => (response, String::new()),
        Err(failure) => {
            let response =
                ModelInferResponse { model_name: name, id, ..ModelInferResponse::default() };
            (response, failure.to_string())
        }
    };
    if wants_final {
        let choice = Some(ParameterChoice::Bool(true));
        response.parameters.insert(IS_FINAL.to_owned(), InferParameter { choice });
    }
    let infer_response = Some(response);
    Ok((ModelStreamInferResponse { error_message, infer_response }, reservation))
}
