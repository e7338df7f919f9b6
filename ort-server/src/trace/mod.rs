//! OpenTelemetry traces, in a file: a span of each sampled request, and below it one of its time in the queue and one of its
//! run.
//!
//! ```text
//! request ──► begin ── sampled? ──► Span ── dropped ──► bounded channel ──► thread: JSON lines
//! ```
//!
//! Nothing waits for the file: spans that find the channel full are dropped, and counted.

mod context;
mod file;
mod otlp;

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime};

use axum::http::HeaderMap;

use self::context::{Context, Ids};
use self::file::TraceFile;
use self::otlp::{Kind, Record};

/// The spans that wait for the thread that writes them.
const MAX_WAITING: usize = 4096;

/// Where traces go, and which.
#[derive(Clone, Debug)]
pub(crate) struct TraceSettings {
    pub(crate) path: PathBuf,
    /// The part of traces that is sampled, if the client does not decide.
    pub(crate) ratio: f64,
    /// At this size, the file is renamed, and a new one begins.
    pub(crate) max_bytes: u64,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
}

/// Writes the spans of requests to a file.
#[derive(Debug)]
pub(crate) struct Tracer {
    ids: Ids,
    ratio: f64,
    pub(crate) scheme: &'static str,
    /// `None` is the last message.
    sender: SyncSender<Option<Record>>,
    n_lost: Arc<AtomicU64>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Tracer {
    /// Opens the file, to append to it, and starts the thread that writes it.
    ///
    /// # Errors
    /// If the path is no regular file, or the system does not allow it.
    pub(crate) fn start(settings: &TraceSettings) -> io::Result<Arc<Self>> {
        let mut file = TraceFile::open(&settings.path, settings.max_bytes)?;
        let (sender, records) = sync_channel(MAX_WAITING);
        let n_lost = Arc::new(AtomicU64::new(0));
        let lost = n_lost.clone();
        let thread = thread::Builder::new().name("traces".to_owned());
        let writer = thread.spawn(move || file.write_all(&records, &lost))?;
        Ok(Arc::new(Self {
            ids: Ids::default(),
            ratio: settings.ratio,
            scheme: settings.scheme,
            sender,
            n_lost,
            writer: Mutex::new(Some(writer)),
        }))
    }

    /// The span of a request that arrives now; `None` if it is not sampled. The trace is that of the header
    /// `traceparent`, which also decides whether it is sampled, or a new one.
    pub(crate) fn begin(
        self: &Arc<Self>,
        headers: &HeaderMap,
        name: impl Into<Cow<'static, str>>,
    ) -> Option<Arc<Span>> {
        let context = Context::of_request(headers, &self.ids, self.ratio)?;
        Some(Arc::new(Span {
            tracer: self.clone(),
            context,
            name: name.into(),
            start: Instant::now(),
            clock: SystemTime::now(),
            state: Mutex::default(),
        }))
    }

    /// The number of spans that are not in the file.
    pub(crate) fn n_lost(&self) -> u64 {
        self.n_lost.load(Ordering::Relaxed)
    }

    /// Writes the spans so far, and no others. Blocks.
    pub(crate) fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // The thread is gone only after a panic, which it has reported.
            let _ = self.sender.send(None);
            let _ = writer.join();
        }
    }

    fn send(&self, record: Record) {
        match self.sender.try_send(Some(record)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.n_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// What is known of a span in addition to its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attribute {
    Text(String),
    Number(i64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Attribute::Text(text.to_owned())
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Attribute::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Attribute {
    fn from(number: usize) -> Self {
        Attribute::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// The attributes of a span, by name.
pub(crate) type Attributes = Vec<(&'static str, Attribute)>;

/// The span of a sampled request. It ends when its last owner drops it: the response has been sent, and the run has ended.
#[derive(Debug)]
pub(crate) struct Span {
    tracer: Arc<Tracer>,
    context: Context,
    name: Cow<'static, str>,
    start: Instant,
    /// The time at `start`.
    clock: SystemTime,
    state: Mutex<SpanState>,
}

#[derive(Debug, Default)]
struct SpanState {
    attributes: Attributes,
    has_failed: bool,
}

impl Span {
    /// Sets an attribute, once.
    pub(crate) fn set(&self, name: &'static str, value: impl Into<Attribute>) {
        let value = value.into();
        self.with_state(|state| {
            state.attributes.retain(|(known, _)| *known != name);
            state.attributes.push((name, value));
        });
    }

    /// The request failed by no fault of the client.
    pub(crate) fn fail(&self, kind: &str) {
        self.set("error.type", kind);
        self.with_state(|state| state.has_failed = true);
    }

    /// A part of the request that has ended.
    pub(crate) fn child(&self, part: Part) {
        self.tracer.send(Record {
            trace: self.context.trace,
            span: self.tracer.ids.next(),
            parent: Some(self.context.span),
            has_remote_parent: false,
            name: Cow::Borrowed(part.name),
            kind: Kind::Internal,
            start: self.time(part.start),
            end: self.time(part.end),
            attributes: part.attributes,
            has_failed: part.has_failed,
        });
    }

    fn time(&self, instant: Instant) -> SystemTime {
        self.clock + instant.saturating_duration_since(self.start)
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut SpanState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A part of a request.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) attributes: Attributes,
    pub(crate) has_failed: bool,
}

impl Drop for Span {
    fn drop(&mut self) {
        let SpanState { attributes, has_failed } = self.with_state(std::mem::take);
        self.tracer.send(Record {
            trace: self.context.trace,
            span: self.context.span,
            parent: self.context.parent,
            has_remote_parent: self.context.parent.is_some(),
            name: std::mem::take(&mut self.name),
            kind: Kind::Server,
            start: self.clock,
            end: self.time(Instant::now()),
            attributes,
            has_failed,
        });
    }
}

#[cfg(test)]
mod tests;
