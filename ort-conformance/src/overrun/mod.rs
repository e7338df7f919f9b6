//! How much a run still computes after it was cancelled, for nodes that take much longer than that.
//!
//! ```text
//! for each case: a session of its graph → a run that is cancelled after a while → the processor time from then on
//! ```
//! CPU time is measured, so that other load on the machine does not count.
//!
//! A case is a line: a name and a graph as text ([`ort_graph::Text`]), whose inputs are filled with numbers that
//! repeat. Its node takes some tenths of a second or more; one that is done before the deadline shows nothing.

mod cases;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ort_ep::Reference;
use ort_session::{
    Cancel, ModelBytes, RunError, RunOptions, Session, SessionBuilder, SessionError, cpu_time,
};
use ort_tensor::Tensor;

pub use self::cases::{CASES, Case};
use crate::differential::{self, Filling, Model, is_constant, repeated};

/// How a case is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// By the CPU provider, on so many threads.
    Cpu(usize),
    /// By the operators' own `eval`.
    Reference,
    /// All inputs are constants, which loading folds.
    Folded,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was cancelled, this much time after the request.
    Ended(Duration),
    /// It finished before the request, or nevertheless this much time after it.
    Done(Option<Duration>),
    /// Something else went wrong.
    Failed(String),
}

impl Outcome {
    /// How long it ran after cancellation.
    pub fn overrun(&self) -> Duration {
        match self {
            Self::Ended(late) | Self::Done(Some(late)) => *late,
            _ => Duration::ZERO,
        }
    }
}

/// Runs a case that is cancelled after `time`.
pub fn run(case: &Case, place: Place, time: Duration) -> Outcome {
    let outcome = match place {
        Place::Folded => folded(case, time),
        Place::Cpu(n_threads) => ran(case, Session::builder().threads(n_threads), time),
        Place::Reference => {
            let builder = Session::builder().provider(Arc::new(Reference)).threads(1);
            ran(case, builder, time)
        }
    };
    outcome.unwrap_or_else(Outcome::Failed)
}

fn ran(case: &Case, builder: SessionBuilder, time: Duration) -> Result<Outcome, String> {
    let model = model(case, is_constant)?;
    let session = builder.commit(ModelBytes::from_owner(model.bytes));
    let session = session.map_err(|error| error.to_string())?;
    let inputs: Vec<(&str, &Tensor)> =
        model.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let cancel = Cancel::new();
    let options = RunOptions::new().cancel(&cancel);
    let (result, late) = cancelled(&cancel, time, || session.run_with(inputs, &options));
    match result {
        Ok(_) => Ok(Outcome::Done(late)),
        Err(RunError::Cancelled { .. }) => Ok(Outcome::Ended(late.unwrap_or_default())),
        Err(error) => Err(error.to_string()),
    }
}

fn folded(case: &Case, time: Duration) -> Result<Outcome, String> {
    let model = model(case, |_| true)?;
    let cancel = Cancel::new();
    let builder = Session::builder().threads(1).cancel(&cancel);
    let commit = || builder.commit(ModelBytes::from_owner(model.bytes));
    let (result, late) = cancelled(&cancel, time, commit);
    match result {
        Ok(_) => Ok(Outcome::Done(late)),
        Err(SessionError::Cancelled) => Ok(Outcome::Ended(late.unwrap_or_default())),
        Err(error) => Err(error.to_string()),
    }
}

/// The result of `body`, and how much time it took after it was cancelled; `None` if it finished before. It is
/// processor time, in which nothing else counts that the machine does, but no more than passed: threads work side
/// by side.
fn cancelled<R>(
    cancel: &Cancel,
    time: Duration,
    body: impl FnOnce() -> R,
) -> (R, Option<Duration>) {
    let then = Mutex::new(None);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(time);
            *then.lock().unwrap_or_else(PoisonError::into_inner) =
                cpu_time().map(|cpu| (Instant::now(), cpu));
            cancel.cancel();
        });
        let result = body();
        let (end, end_cpu) = (Instant::now(), cpu_time());
        let then = *then.lock().unwrap_or_else(PoisonError::into_inner);
        let late = then.zip(end_cpu).map(|((then, then_cpu), end_cpu)| {
            end_cpu.saturating_sub(then_cpu).min(end.saturating_duration_since(then))
        });
        (result, late)
    })
}

fn model(case: &Case, is_constant: fn(&str) -> bool) -> Result<Model, String> {
    differential::Case::new(case.text, &[]).filled(&Filling { tensor: repeated, is_constant })
}
