//! The program `ort-server`: serves ONNX models over HTTP and gRPC, by the Open Inference Protocol (v2) that Triton and KServe
//! speak.
//!
//! All connections share one session per version of a model. Requests wait in a bounded queue for threads that run
//! them, alone or in batches; asynchronous threads only move bytes. Whatever a request does, the answer is its own: an
//! error names the input, and affects no other request.
//!
//! # When to use it alone
//!
//! As a program; `cargo install ort-server` installs it. The library exports its `main` and the server, for programs that
//! embed it:
//!
//! ```no_run
//! use ort_server::{Options, Parser, Server};
//!
//! # async fn run() -> Result<(), ort_server::ServerError> {
//! let options = Options::parse_from(["", "--model-repository", "models", "--http-port", "0"]);
//! let server = Server::start(options).await?;
//! server.load().await?;
//! println!("http://{}", server.http_address());
//! server.drain().await;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod options;
mod server;

mod listener;
mod tls;

mod app;
mod budget;
mod failure;
mod grpc;
mod http;
mod metrics;
mod trace;

mod model;
mod report;
mod repository;
mod statistics;

mod datatype;
mod raw;
mod request;

use std::process::ExitCode;

pub use clap::Parser;

pub use crate::options::Options;
pub use crate::server::{Server, ServerError};
pub use crate::tls::TlsError;

/// The name in the server's metadata.
const SERVER: &str = "ort-server";

/// The protocol's extensions that the server has.
const EXTENSIONS: &[&str] =
    &["binary_tensor_data", "model_configuration", "model_repository", "statistics"];

/// The platform in the metadata of models, as the protocol names it.
const PLATFORM: &str = "onnx_onnxv1";

/// Runs the program with the arguments of the process: until SIGTERM or SIGINT, and then until all requests are
/// answered.
pub fn main() -> ExitCode {
    let options = Options::parse();
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
    log.with_max_level(options.log_level()).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("the asynchronous runtime cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(serve(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> Result<(), ServerError> {
    let server = Server::start(options).await?;
    let stopped = stopped();
    tokio::pin!(stopped);
    tokio::select! {
        loaded = server.load() => {
            loaded?;
            stopped.await;
        }
        () = &mut stopped => {}
    }
    server.drain().await;
    Ok(())
}

/// Waits for a signal to stop.
async fn stopped() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupted => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    let _ = interrupted.await;
}
