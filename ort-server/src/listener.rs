//! A port: accepts connections, and serves HTTP/1 and HTTP/2 on each, with or without TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// How long a client may take for a TLS handshake, or for the headers of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait after a connection could not be accepted: the process has too many files, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The requests that one connection of HTTP/2 may have open.
const MAX_STREAMS: u32 = 128;

/// The bytes that a connection of HTTP/2 may send before they are read: enough for a large tensor at full speed.
const WINDOW: u32 = 4 << 20;

/// A port that accepts connections until it is closed.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    closing: watch::Sender<bool>,
    accepting: JoinHandle<GracefulShutdown>,
}

impl Listener {
    /// Listens, and serves `routes`. All ports share the permits of `connections`.
    ///
    /// # Errors
    /// If the system does not allow the address.
    pub(crate) async fn start(
        (host, port): (IpAddr, u16),
        tls: Option<TlsAcceptor>,
        connections: Arc<Semaphore>,
        routes: Router,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((host, port)).await?;
        let address = listener.local_addr()?;
        let (closing, closed) = watch::channel(false);
        let port = Port { tls, connections, routes, builder: Arc::new(builder()) };
        let accepting = tokio::spawn(port.accept(listener, closed));
        Ok(Self { address, closing, accepting })
    }

    /// Accepts no more connections, and waits until the open ones have answered their requests, at most for `time`.
    pub(crate) async fn close(self, time: Duration) {
        let _ = self.closing.send(true);
        let Ok(connections) = self.accepting.await else { return };
        if tokio::time::timeout(time, connections.shutdown()).await.is_err() {
            tracing::warn!("connections of {} were still open", self.address);
        }
    }
}

struct Port {
    tls: Option<TlsAcceptor>,
    connections: Arc<Semaphore>,
    routes: Router,
    builder: Arc<Builder<TokioExecutor>>,
}

impl Port {
    async fn accept(
        self,
        listener: TcpListener,
        mut closed: watch::Receiver<bool>,
    ) -> GracefulShutdown {
        let graceful = GracefulShutdown::new();
        loop {
            // Beyond the maximum, connections wait in the system's queue.
            let permit = tokio::select! {
                permit = self.connections.clone().acquire_owned() => permit,
                _ = closed.wait_for(|is_closed| *is_closed) => return graceful,
            };
            let Ok(permit) = permit else { return graceful };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = closed.wait_for(|is_closed| *is_closed) => return graceful,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = self.serve(stream, graceful.watcher());
                    tokio::spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection until either side closes it.
    fn serve(
        &self,
        stream: TcpStream,
        watcher: hyper_util::server::graceful::Watcher,
    ) -> impl Future<Output = ()> + Send + use<> {
        let service = TowerToHyperService::new(self.routes.clone());
        let (builder, tls) = (self.builder.clone(), self.tls.clone());
        // Answers are small or written at once: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        async move {
            let served = match tls {
                None => {
                    let connection = builder.serve_connection(TokioIo::new(stream), service);
                    watcher.watch(connection.into_owned()).await
                }
                Some(tls) => {
                    let handshake = tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await;
                    let Ok(Ok(stream)) = handshake else { return };
                    let connection = builder.serve_connection(TokioIo::new(stream), service);
                    watcher.watch(connection.into_owned()).await
                }
            };
            if let Err(error) = served {
                tracing::debug!("a connection ended: {error}");
            }
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    builder
}
