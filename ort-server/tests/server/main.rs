//! A server on free ports, called over sockets.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

mod batching;
mod client;
mod limits;
mod models;
mod options;
mod protocol;
mod repository;
mod shutdown;

use std::net::SocketAddr;

use ort_server::{Options, Parser, Server, ServerError};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::client::{Reply, request};

/// A server of a folder with models.
struct Running {
    runtime: Runtime,
    server: Server,
    folder: TempDir,
}

impl Running {
    /// A server of these models that is ready.
    fn start(models: &[(&str, &str)], arguments: &[&str]) -> Self {
        let running = Self::listening(models, arguments);
        running.load().unwrap();
        running
    }

    /// The same before it loads the models.
    fn listening(models: &[(&str, &str)], arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in models {
            models::write(&folder.path().join(path), text);
        }
        let repository = folder.path().to_str().unwrap();
        let always = [
            "ort-server",
            "--model-repository",
            repository,
            "--host",
            "127.0.0.1",
            "--http-port",
            "0",
            "--grpc-port",
            "0",
            "--threads",
            "1",
        ];
        let options = Options::parse_from(always.iter().chain(arguments));
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Server::start(options)).unwrap();
        Self { runtime, server, folder }
    }

    fn load(&self) -> Result<(), ServerError> {
        self.runtime.block_on(self.server.load())
    }

    fn address(&self) -> SocketAddr {
        self.server.http_address()
    }

    fn get(&self, path: &str) -> Reply {
        request(self.address(), "GET", path, &[], b"")
    }

    fn post(&self, path: &str, body: &str) -> Reply {
        request(self.address(), "POST", path, &[], body.as_bytes())
    }

    /// The number after `name{labels}` in the metrics.
    fn metric(&self, name: &str) -> u64 {
        let page = self.get("/metrics").text();
        let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    }

    /// Waits until a metric has this value.
    fn wait_for(&self, name: &str, value: u64) {
        while self.metric(name) != value {
            std::thread::yield_now();
        }
    }
}
