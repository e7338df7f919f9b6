//! What both protocols share: the models, the limits, and the state of the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::budget::Budget;
use crate::failure::Failure;
use crate::repository::Repository;
use crate::trace::Tracer;

/// The state of a server.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) repository: Repository,
    pub(crate) limits: Limits,
    pub(crate) budget: Arc<Budget>,
    /// Writes traces, if requested.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// Whether clients may load and unload models.
    pub(crate) has_control: bool,
    phase: watch::Sender<Phase>,
    /// The number of inference requests in progress.
    n_active: watch::Sender<usize>,
}

/// What the server does with new requests; only later phases follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Models are being loaded. Those that are can be used.
    Loading,
    Ready,
    /// Requests are still accepted, but clients should go elsewhere.
    NotReady,
    /// Inference requests fail.
    Rejecting,
}

/// The limits of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The bytes of its message.
    pub(crate) max_body: usize,
    /// The time from its headers to its answer.
    pub(crate) max_time: Duration,
}

/// An inference request in progress.
#[derive(Debug)]
pub(crate) struct Active<'a>(&'a watch::Sender<usize>);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

impl App {
    pub(crate) fn new(
        repository: Repository,
        limits: Limits,
        budget: Arc<Budget>,
        tracer: Option<Arc<Tracer>>,
        has_control: bool,
    ) -> Self {
        Self {
            repository,
            limits,
            budget,
            tracer,
            has_control,
            phase: watch::Sender::new(Phase::Loading),
            n_active: watch::Sender::new(0),
        }
    }

    /// Whether new requests are welcome: models are loaded, and the server is not shutting down.
    pub(crate) fn is_ready(&self) -> bool {
        *self.phase.borrow() == Phase::Ready
    }

    /// Enters a phase, unless a later one has begun.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_modify(|now| *now = phase.max(*now));
    }

    /// Begins an inference request.
    ///
    /// # Errors
    /// If the server is shutting down.
    pub(crate) fn begin(&self) -> Result<Active<'_>, Failure> {
        self.n_active.send_modify(|n| *n += 1);
        let active = Active(&self.n_active);
        // Counted first: after the phase has begun, no request is accepted that `idle` does not wait for.
        match *self.phase.borrow() {
            Phase::Rejecting => Err(Failure::Draining),
            _ => Ok(active),
        }
    }

    /// Waits until the server rejects requests.
    pub(crate) async fn rejecting(&self) {
        // The sender is in `self`, so that the channel is open.
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Rejecting).await;
    }

    /// The number of inference requests in progress.
    pub(crate) fn n_active(&self) -> usize {
        *self.n_active.borrow()
    }

    /// Waits until there is no inference request.
    pub(crate) async fn idle(&self) {
        // The sender is in `self`, so that the channel is open.
        let _ = self.n_active.subscribe().wait_for(|n| *n == 0).await;
    }

    /// When a request that arrives now, with this timeout of its client, is late.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Instant {
        let time = timeout.map_or(self.limits.max_time, |it| it.min(self.limits.max_time));
        Instant::now() + time
    }

    /// # Errors
    /// If clients may not load and unload models.
    pub(crate) fn check_control(&self) -> Result<(), Failure> {
        if self.has_control { Ok(()) } else { Err(Failure::NoControl) }
    }
}
