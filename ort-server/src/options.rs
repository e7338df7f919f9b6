//! The options of the server.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use ort_session::{ConfigError, LoadLimits, RunLimits, Session, SessionBuilder};

use crate::app::Limits;
use crate::model::{Batching, Scheduling};
use crate::repository::{MAX_INSTANCES, Settings};
use crate::trace::TraceSettings;

/// Serves ONNX models over HTTP and gRPC, by the Open Inference Protocol (v2).
#[derive(Clone, Debug, Parser)]
#[command(name = "ort-server", version, max_term_width = 100)]
pub struct Options {
    /// The folder of the models: NAME/VERSION/model.onnx or model.ort, or NAME/model.onnx
    #[arg(long, value_name = "DIR")]
    model_repository: PathBuf,
    /// Whether clients may load and unload models: with `explicit` they may, and only models named by
    /// --load-model are loaded at the start
    #[arg(long, value_enum, default_value = "none", value_name = "MODE")]
    model_control_mode: Control,
    /// A model to load at the start in mode `explicit`; `*` for all
    #[arg(long, value_name = "NAME")]
    load_model: Vec<String>,
    /// Exit if a model cannot be loaded at the start
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    exit_on_error: bool,
    /// How much is logged to standard error
    #[arg(long, value_enum, default_value = "info", value_name = "LEVEL")]
    log_level: LogLevel,

    /// A file that OpenTelemetry traces of inference requests are appended to, as lines of JSON (OTLP)
    #[arg(long, value_name = "FILE", help_heading = "Traces")]
    trace_file: Option<PathBuf>,
    /// The part of traces that is sampled, from 0 to 1, unless the header `traceparent` decides
    #[arg(long, default_value = "1", value_name = "RATIO", value_parser = ratio, allow_negative_numbers = true, requires = "trace_file", help_heading = "Traces")]
    trace_ratio: f64,
    /// The maximum MiB of the file; then it is renamed to FILE.1, and a new one begins
    #[arg(
        long,
        default_value_t = 100,
        value_name = "MIB",
        requires = "trace_file",
        help_heading = "Traces"
    )]
    trace_file_mib: usize,

    /// The address to listen at
    #[arg(long, default_value = "0.0.0.0", value_name = "IP", help_heading = "Network")]
    host: IpAddr,
    /// The port of HTTP; 0 for any that is free
    #[arg(long, default_value_t = 8000, value_name = "PORT", help_heading = "Network")]
    http_port: u16,
    /// The port of gRPC; 0 for any that is free
    #[arg(long, default_value_t = 8001, value_name = "PORT", help_heading = "Network")]
    grpc_port: u16,
    /// The server's certificates in PEM; both ports then speak TLS
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Network")]
    tls_cert: Option<PathBuf>,
    /// The private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Network")]
    tls_key: Option<PathBuf>,

    /// The number of runs of a model at once [default: the number of threads]
    #[arg(long, value_name = "N", value_parser = instances, help_heading = "Runs")]
    instances: Option<usize>,
    /// The number of threads that compute, shared by all models [default: the number of cores that this process may use]
    #[arg(long, value_name = "N", value_parser = instances, help_heading = "Runs")]
    threads: Option<usize>,
    /// The maximum batch that requests are joined to; config.pbtxt takes precedence [default: no batching]
    #[arg(long, value_name = "N", value_parser = batch, help_heading = "Runs")]
    max_batch: Option<usize>,
    /// How many µs the first request of a batch waits for others
    #[arg(long, default_value_t = 2000, value_name = "US", help_heading = "Runs")]
    max_batch_delay: u64,
    /// A cache folder for models packed for this machine, which processes share
    #[arg(long, value_name = "DIR", help_heading = "Runs")]
    cache_dir: Option<PathBuf>,
    /// A session key of ONNX Runtime or of this runtime, such as session.set_denormal_as_zero=0
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting, help_heading = "Runs")]
    config: Vec<(String, String)>,

    /// The maximum MiB of a request
    #[arg(long, default_value_t = 64, value_name = "MIB", help_heading = "Limits")]
    max_body_mib: usize,
    /// The maximum MiB of the messages and outputs of all requests in progress
    #[arg(long, default_value_t = 1024, value_name = "MIB", help_heading = "Limits")]
    max_requests_mib: usize,
    /// The maximum number of waiting requests of a model
    #[arg(long, default_value_t = 128, value_name = "N", help_heading = "Limits")]
    max_queue: usize,
    /// The maximum number of connections
    #[arg(long, default_value_t = 1024, value_name = "N", help_heading = "Limits")]
    max_connections: usize,
    /// The maximum seconds of a request, from its headers to its answer
    #[arg(long, default_value = "60", value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = "Limits")]
    max_time: Duration,
    /// The maximum MiB of a run [default: three quarters of the machine's memory]
    #[arg(long, value_name = "MIB", help_heading = "Limits")]
    max_run_mib: Option<usize>,
    /// The maximum MiB of a model's constants outside of its file [default: three quarters of the machine's memory]
    #[arg(long, value_name = "MIB", help_heading = "Limits")]
    max_load_mib: Option<usize>,
    /// The maximum seconds that loading a model takes
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = "Limits")]
    max_load_time: Option<Duration>,

    /// The seconds between the signal to stop and the first rejected request; meanwhile the server is not ready
    #[arg(long, default_value = "0", value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = "Shutdown")]
    drain_delay: Duration,
    /// The seconds that requests in progress have to end, before they are cancelled
    #[arg(long, default_value = "30", value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = "Shutdown")]
    drain_timeout: Duration,
}

/// Whether clients load and unload models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Control {
    /// All models are loaded at the start.
    None,
    /// Clients load and unload models.
    Explicit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) certificates: PathBuf,
    pub(crate) key: PathBuf,
}

/// What is loaded at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Initial {
    All,
    Named(Vec<String>),
}

impl Options {
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let builder = self.builder()?;
        let n_threads = builder.thread_count().n_threads();
        let delay = Duration::from_micros(self.max_batch_delay);
        let max_rows = self.max_batch.filter(|&n| n > 1);
        let batching = max_rows.map(|max_rows| Batching::new(max_rows, delay));
        let scheduling = Scheduling {
            n_instances: self.instances.unwrap_or(n_threads).max(1),
            max_queue: self.max_queue,
            batching,
        };
        Ok(Settings { folder: self.model_repository.clone(), builder, scheduling })
    }

    fn builder(&self) -> Result<SessionBuilder, ConfigError> {
        let load = LoadLimits {
            max_bytes: self.max_load_mib.map(mib),
            max_time: self.max_load_time,
            ..LoadLimits::default()
        };
        let run = RunLimits { max_bytes: self.max_run_mib.map(mib), ..RunLimits::default() };
        let mut builder = Session::builder().load_limits(load).run_limits(run);
        for (key, value) in &self.config {
            builder = builder.config(key, value)?;
        }
        if let Some(n) = self.threads {
            builder = builder.threads(n);
        }
        Ok(match &self.cache_dir {
            Some(folder) => builder.cache_dir(folder),
            None => builder,
        })
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { max_body: mib(self.max_body_mib), max_time: self.max_time }
    }

    /// The bytes of all requests in progress.
    pub(crate) fn max_requests(&self) -> usize {
        mib(self.max_requests_mib)
    }

    pub(crate) fn max_connections(&self) -> usize {
        self.max_connections.clamp(1, tokio::sync::Semaphore::MAX_PERMITS)
    }

    pub(crate) fn has_control(&self) -> bool {
        self.model_control_mode == Control::Explicit
    }

    pub(crate) fn initial(&self) -> Initial {
        match self.has_control() && !self.load_model.iter().any(|name| name == "*") {
            true => Initial::Named(self.load_model.clone()),
            false => Initial::All,
        }
    }

    pub(crate) fn exits_on_error(&self) -> bool {
        self.exit_on_error
    }

    pub(crate) fn addresses(&self) -> [(IpAddr, u16); 2] {
        [(self.host, self.http_port), (self.host, self.grpc_port)]
    }

    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        let (certificates, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(TlsFiles { certificates, key })
    }

    pub(crate) fn traces(&self) -> Option<TraceSettings> {
        Some(TraceSettings {
            path: self.trace_file.clone()?,
            ratio: self.trace_ratio,
            max_bytes: u64::try_from(mib(self.trace_file_mib)).unwrap_or(u64::MAX),
            scheme: if self.tls_cert.is_some() { "https" } else { "http" },
        })
    }

    pub(crate) fn drain_times(&self) -> (Duration, Duration) {
        (self.drain_delay, self.drain_timeout)
    }

    pub(crate) fn log_level(&self) -> tracing_subscriber::filter::LevelFilter {
        use tracing_subscriber::filter::LevelFilter;
        match self.log_level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}

const fn mib(n: usize) -> usize {
    n.saturating_mul(1 << 20)
}

fn instances(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=MAX_INSTANCES).contains(&n) => Ok(n),
        _ => Err(format!("expected a number from 1 to {MAX_INSTANCES}")),
    }
}

fn batch(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "expected a number from 1 on".to_owned())
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

/// At most a year: an instant can be moved by it.
fn seconds(text: &str) -> Result<Duration, String> {
    let most = Duration::from_secs(365 * 24 * 3600);
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| *time <= most).ok_or_else(|| "expected seconds, at most a year".to_owned())
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
