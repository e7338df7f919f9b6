//! A version of a model: one session, a bounded queue, and the threads that run its requests.

mod batch;
mod description;
mod queue;
mod worker;

use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use ort_session::{Cancel, Session};
use tokio::sync::oneshot;

pub(crate) use self::batch::Batching;
pub(crate) use self::description::{Description, Port};
use self::queue::{Job, Queue};
use crate::failure::{Class, Failure};
use crate::request::{Outputs, Request};
use crate::statistics::Statistics;

/// How requests of one model are queued and run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scheduling {
    /// The number of runs at once.
    pub(crate) n_instances: usize,
    /// The number of waiting requests.
    pub(crate) max_queue: usize,
    pub(crate) batching: Option<Batching>,
}

/// A version of a model, shared by all connections. When the last owner drops it, the requests in its queue are answered,
/// and its threads end.
#[derive(Debug)]
pub(crate) struct Model {
    runner: Arc<Runner>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads of a model share.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) session: Session,
    pub(crate) description: Description,
    pub(crate) statistics: Statistics,
    /// Without batching, if the model cannot be batched.
    pub(crate) scheduling: Scheduling,
    queue: Queue,
}

impl Deref for Model {
    type Target = Runner;

    fn deref(&self) -> &Runner {
        &self.runner
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.close();
    }
}

impl Model {
    /// Starts the threads of a model.
    ///
    /// # Errors
    /// If the system cannot start them.
    pub(crate) fn start(
        name: &str,
        version: u64,
        session: Session,
        mut scheduling: Scheduling,
    ) -> io::Result<Arc<Self>> {
        let description = Description::of(&session);
        scheduling.batching = scheduling.batching.filter(|_| description.has_batch_dimension);
        let queue = Queue::new(scheduling.max_queue, scheduling.batching);
        let (name, statistics) = (name.to_owned(), Statistics::default());
        let runner = Runner { name, version, session, description, statistics, scheduling, queue };
        let model = Self { runner: Arc::new(runner), workers: Mutex::default() };
        for _ in 0..scheduling.n_instances {
            let runner = model.runner.clone();
            let thread = thread::Builder::new().name(format!("run {}", runner.name));
            model.workers().push(thread.spawn(move || worker::run(&runner))?);
        }
        Ok(Arc::new(model))
    }

    /// Runs a request. A caller that stops waiting cancels it.
    ///
    /// # Errors
    /// If the queue is full, the request does not fit the model, or its run fails or is late.
    pub(crate) async fn infer(&self, request: Request) -> Result<Outputs, Failure> {
        if let Some(span) = &request.span {
            span.set("ort.model.name", self.name.as_str());
            span.set("ort.model.version", self.version);
        }
        let start = Instant::now();
        let outputs = self.answered(request).await;
        if let Err(failure) = &outputs
            && failure.class() == Class::Internal
        {
            tracing::error!(model = self.name, "{failure}");
        }
        self.statistics.answered(start.elapsed(), outputs.as_ref().map(|_| ()));
        outputs
    }

    async fn answered(&self, request: Request) -> Result<Outputs, Failure> {
        self.description.check(&request)?;
        let (reply, answer) = oneshot::channel();
        let cancel = CancelOnDrop(Cancel::new());
        let (deadline, reservation) = (request.deadline, request.reservation.clone());
        let job = Job { request, reply, cancel: cancel.0.clone(), queued: Instant::now() };
        self.queue.push(job).map_err(|reason| reason.failure(&self.name))?;
        let Ok(answer) = tokio::time::timeout_at(deadline.into(), answer).await else {
            return Err(Failure::Late);
        };
        let outputs =
            answer.map_err(|_| Failure::Internal("the run ended without an answer"))??;
        reservation.add(outputs.iter().map(|(_, tensor)| tensor.n_bytes()).sum())?;
        Ok(outputs)
    }

    /// The number of waiting requests.
    pub(crate) fn n_queued(&self) -> usize {
        self.queue.len()
    }

    /// Batches no longer wait for more requests.
    pub(crate) fn drain(&self) {
        self.queue.drain();
    }

    /// Accepts no more requests; those in the queue are answered, then the threads end.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Cancels all requests that wait or run.
    pub(crate) fn cancel(&self) {
        self.queue.cancel();
    }

    /// Waits for the threads of a closed model.
    pub(crate) fn join(&self) {
        let workers = std::mem::take(&mut *self.workers());
        for worker in workers {
            // A panic has been logged by the thread itself.
            let _ = worker.join();
        }
    }

    fn workers(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cancels the run if the future that waits for it is dropped: after its deadline, or when the client disconnects.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
