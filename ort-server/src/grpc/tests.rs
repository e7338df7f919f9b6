//! Calls of the routes, without a connection.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use clap::Parser;
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use ort_session::{DType, Tensor};
use prost::Message;
use tonic::{Code, Status};
use tower::ServiceExt;

use super::codec::framed;
use super::messages::{
    Empty, Flag, InferTensor, InferTensorContents, ModelInferRequest, ModelInferResponse,
    ModelMetadataResponse, ModelRequest,
};
use super::routes;
use crate::app::App;
use crate::budget::Budget;
use crate::options::Options;
use crate::raw;
use crate::repository::Repository;

/// The model of the repository that has one input, of 3 channels.
const MODEL: &str = "ppocr_cls";
const SHAPE: [usize; 4] = [1, 3, 48, 192];

/// The state of a server with that model.
fn app() -> Arc<App> {
    app_with("60")
}

fn app_with(max_time: &str) -> Arc<App> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../models");
    let options = ["", "--model-repository", folder, "--threads", "1", "--max-body-mib", "2"];
    let options = Options::parse_from(options.into_iter().chain(["--max-time", max_time]));
    let repository = Repository::new(options.settings().unwrap());
    repository.load(MODEL).unwrap();
    Arc::new(App::new(repository, options.limits(), Budget::new(16 << 20), None, false))
}

/// The answer to a message on the wire.
async fn sent<R: Message + Default>(
    app: &Arc<App>,
    method: &str,
    message: Bytes,
) -> Result<R, Status> {
    sent_body(app, method, Body::from(message)).await
}

async fn sent_body<R: Message + Default>(
    app: &Arc<App>,
    method: &str,
    body: Body,
) -> Result<R, Status> {
    let request = Request::post(format!("/inference.GRPCInferenceService/{method}"));
    let request = request.header("content-type", "application/grpc").body(body);
    let response = routes(app).oneshot(request.unwrap()).await.unwrap();
    let head = response.headers().clone();
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let status = |headers: &HeaderMap| Status::from_header_map(headers);
    let status = status(&head).or_else(|| status(&trailers)).unwrap();
    match status.code() {
        Code::Ok => Ok(R::decode(&body.to_bytes()[5..]).unwrap()),
        _ => Err(status),
    }
}

fn request(input: InferTensor) -> ModelInferRequest {
    let model_name = MODEL.to_owned();
    ModelInferRequest { model_name, inputs: vec![input], ..ModelInferRequest::default() }
}

fn input(app: &App) -> InferTensor {
    let model = app.repository.get(MODEL, "").unwrap();
    let (name, datatype) = (model.description.inputs[0].name.clone(), "FP32".to_owned());
    InferTensor { name, datatype, shape: vec![1, 3, 48, 192], ..InferTensor::default() }
}

#[tokio::test]
async fn raw_and_typed_inputs_give_the_same_outputs() {
    let app = app();
    let ready: Flag = sent(&app, "ServerLive", framed(&Empty {})).await.unwrap();
    assert!(ready.is_set);
    let asked = ModelRequest { name: MODEL.to_owned(), version: "1".to_owned() };
    let metadata: ModelMetadataResponse =
        sent(&app, "ModelMetadata", framed(&asked)).await.unwrap();
    assert_eq!(metadata.inputs[0].datatype, "FP32");

    let values: Vec<f32> = (0_u16..3 * 48 * 192).map(|i| f32::from(i % 97) / 97.0).collect();
    let x = Tensor::from_slice(&SHAPE, &values).unwrap();
    let mut typed = request(input(&app));
    let contents = InferTensorContents { fp32s: values, ..InferTensorContents::default() };
    typed.inputs[0].contents = Some(Box::new(contents));
    let typed: ModelInferResponse = sent(&app, "ModelInfer", framed(&typed)).await.unwrap();
    let mut raw = request(input(&app));
    raw.raw_input_contents = vec![raw::encode("x", &x).unwrap()];
    raw.id = "id".to_owned();
    let raw: ModelInferResponse = sent(&app, "ModelInfer", framed(&raw)).await.unwrap();
    assert_eq!((raw.id.as_str(), raw.model_version.as_str()), ("id", "1"));
    let numbers = &typed.outputs[0].contents.as_ref().unwrap().fp32s;
    let expected = Tensor::from_slice(&[numbers.len()], numbers).unwrap();
    let bytes = raw.raw_output_contents[0].clone();
    let found = raw::decode("y", DType::F32, expected.shape(), bytes).unwrap();
    assert_eq!(found.as_slice::<f32>().unwrap(), expected.as_slice::<f32>().unwrap());
    assert_eq!(app.budget.used(), 0);
}

#[tokio::test]
async fn invalid_calls_have_their_codes() {
    let app = app();
    let infer = async |message: Bytes| {
        sent::<ModelInferResponse>(&app, "ModelInfer", message).await.unwrap_err()
    };
    let mut unknown = request(input(&app));
    unknown.model_name = "none".to_owned();
    assert_eq!(infer(framed(&unknown)).await.code(), Code::NotFound);
    let empty = infer(framed(&request(input(&app)))).await;
    assert_eq!(empty.code(), Code::InvalidArgument);
    assert!(empty.message().starts_with("input `"), "{empty}");
    let damaged = infer(Bytes::from_static(&[0, 0, 0, 0, 2, 0x2a, 9])).await;
    assert_eq!(damaged.code(), Code::InvalidArgument);
    // The length alone is too much, and is not allocated.
    let long = infer(Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff, 0])).await;
    assert_eq!(long.code(), Code::ResourceExhausted);
    assert_eq!(long.message(), "the message has more than 2097152 bytes");
    let mut large = request(input(&app));
    large.raw_input_contents = vec![Bytes::from(vec![0; 3 << 20])];
    assert_eq!(infer(framed(&large)).await.code(), Code::ResourceExhausted);
    // Two bytes each, but much more in memory.
    let mut many = request(input(&app));
    many.inputs = vec![InferTensor::default(); 100_000];
    let many = infer(framed(&many)).await;
    assert_eq!(many.message(), "the requests in progress hold 16777216 bytes, the maximum");
    let lacking = sent::<Empty>(&app, "TraceSetting", framed(&Empty {})).await.unwrap_err();
    assert_eq!(lacking.code(), Code::Unimplemented);
    assert_eq!(app.budget.used(), 0);
}

#[tokio::test]
async fn a_message_whose_rest_does_not_come_is_late() {
    let app = app_with("0.05");
    for method in ["ModelInfer", "ModelStreamInfer"] {
        // A message of nine bytes, of which there is one.
        let part = Ok::<_, Infallible>(Bytes::from_static(&[0, 0, 0, 0, 9, 1]));
        let body = Body::from_stream(stream::iter([part]).chain(stream::pending()));
        let late = sent_body::<Empty>(&app, method, body).await.unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded, "{method}");
        assert_eq!(app.budget.used(), 0);
    }
}
