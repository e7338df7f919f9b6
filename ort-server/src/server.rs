//! A server: its ports and models, from start to shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ort_session::ConfigError;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::app::{App, Phase};
use crate::budget::Budget;
use crate::listener::Listener;
use crate::options::{Initial, Options};
use crate::repository::Repository;
use crate::tls::{self, TlsError};
use crate::trace::Tracer;
use crate::{grpc, http};

/// How long clients have to receive the last answers.
const CLOSE_TIME: Duration = Duration::from_secs(10);

/// A running server.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    options: Options,
    http: Listener,
    grpc: Listener,
}

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A session key or its value is unknown.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The certificate or its key is not usable.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system does not allow listening at an address.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The folder of the models cannot be read.
    #[error("{}: {source}", folder.display())]
    Repository {
        /// The folder.
        folder: std::path::PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file of traces cannot be written.
    #[error("{}: {source}", path.display())]
    Traces {
        /// The file.
        path: std::path::PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A model cannot be loaded.
    #[error("{reason}")]
    Model {
        /// The model.
        name: String,
        /// The error, which names it.
        reason: String,
    },
}

impl Server {
    /// Listens at both ports. The server is live, but not ready until [`Server::load`] has returned.
    ///
    /// # Errors
    /// If an option is not usable, or the system does not allow the addresses.
    pub async fn start(options: Options) -> Result<Self, ServerError> {
        let repository = Repository::new(options.settings()?);
        let budget = Budget::new(options.max_requests());
        let tracer = tracer(&options)?;
        let (limits, has_control) = (options.limits(), options.has_control());
        let app = Arc::new(App::new(repository, limits, budget, tracer, has_control));
        let tls = |protocols: &[&[u8]]| {
            options.tls().map(|files| tls::acceptor(&files, protocols)).transpose()
        };
        let connections = Arc::new(Semaphore::new(options.max_connections()));
        let [http, grpc] = options.addresses();
        let failed =
            |address: (_, _)| move |source| ServerError::Listen { address: address.into(), source };
        let acceptor = tls(&[b"h2", b"http/1.1"])?;
        let routes = http::routes(&app);
        let http = Listener::start(http, acceptor, connections.clone(), routes)
            .await
            .map_err(failed(http))?;
        let acceptor = tls(&[b"h2"])?;
        let routes = grpc::routes(&app);
        let grpc =
            Listener::start(grpc, acceptor, connections, routes).await.map_err(failed(grpc))?;
        tracing::info!("HTTP at {}, gRPC at {}", http.address, grpc.address);
        Ok(Self { app, options, http, grpc })
    }

    /// The address of HTTP.
    pub const fn http_address(&self) -> SocketAddr {
        self.http.address
    }

    /// The address of gRPC.
    pub const fn grpc_address(&self) -> SocketAddr {
        self.grpc.address
    }

    /// Loads the models; then the server is ready.
    ///
    /// # Errors
    /// If the folder of the models cannot be read, or, with `--exit-on-error`, a model cannot be loaded.
    pub async fn load(&self) -> Result<(), ServerError> {
        let names = match self.options.initial() {
            Initial::Named(names) => names,
            Initial::All => {
                let app = self.app.clone();
                let names = spawn_blocking(move || app.repository.names()).await;
                let names = names.unwrap_or_else(|error| Err(io::Error::other(error)));
                names.map_err(|source| self.unreadable(source))?
            }
        };
        for name in names {
            let (app, of_model) = (self.app.clone(), name.clone());
            let loaded = spawn_blocking(move || app.repository.load(&of_model)).await;
            let reason = match loaded {
                Ok(Ok(())) => continue,
                Ok(Err(failure)) => failure.to_string(),
                Err(error) => format!("loading model `{name}` panicked: {error}"),
            };
            if self.options.exits_on_error() {
                return Err(ServerError::Model { name, reason });
            }
        }
        self.app.enter(Phase::Ready);
        tracing::info!("ready");
        Ok(())
    }

    fn unreadable(&self, source: io::Error) -> ServerError {
        ServerError::Repository { folder: self.app.repository.folder().to_owned(), source }
    }

    /// Shuts down. At once the server is not ready; after `--drain-delay` it rejects inference requests, answers
    /// those that it has, and closes its connections. Requests that take longer than `--drain-timeout` are cancelled.
    pub async fn drain(self) {
        let (delay, time) = self.options.drain_times();
        tracing::info!("draining");
        self.app.repository.cancel_loading();
        if !delay.is_zero() {
            self.app.enter(Phase::NotReady);
            sleep(delay).await;
        }
        self.app.enter(Phase::Rejecting);
        self.app.repository.drain();
        if timeout(time, self.app.idle()).await.is_err() {
            tracing::warn!("{} requests are cancelled", self.app.n_active());
            self.app.repository.cancel_requests();
        }
        // Cancelled requests are answered, too.
        tokio::join!(self.http.close(CLOSE_TIME), self.grpc.close(CLOSE_TIME));
        let app = self.app;
        let close = move || {
            app.repository.close();
            app.tracer.iter().for_each(|tracer| tracer.close());
        };
        let _ = spawn_blocking(close).await;
        tracing::info!("stopped");
    }
}

fn tracer(options: &Options) -> Result<Option<Arc<Tracer>>, ServerError> {
    let Some(settings) = options.traces() else { return Ok(None) };
    let failed = |source| ServerError::Traces { path: settings.path.clone(), source };
    Tracer::start(&settings).map(Some).map_err(failed)
}
