//! Serves one model to many tokio tasks: runs off the async threads, bounded, with a deadline, and cancelled when their
//! caller goes away.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ort_session::{Cancel, DType, Outputs, RunOptions, Session, Tensor};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(model), Some(n)) = (args.next(), args.next()) else {
        return Err("usage: serve MODEL N_REQUESTS [MILLISECONDS]".into());
    };
    let milliseconds = args.next().map_or(Ok(5000), |text| text.parse())?;
    // One thread per run: parallelism comes from concurrent runs.
    let session = Session::builder().threads(1).commit_from_file(model)?;
    let server = Arc::new(Server { session, permits: Arc::new(Semaphore::new(2)) });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let (n_done, n_failed) = runtime.block_on(requests(server, n.parse()?, milliseconds));
    println!("{n_done} answered, {n_failed} too late");
    Ok(())
}

struct Server {
    session: Session,
    /// Limits concurrent runs to the available memory and processors.
    permits: Arc<Semaphore>,
}

impl Server {
    /// The outputs for an input of zeros, in place of a request's.
    async fn infer(self: Arc<Self>, deadline: Instant) -> Result<Outputs, Failure> {
        let permit = self.permits.clone().acquire_owned();
        let permit = tokio::time::timeout_at(deadline.into(), permit).await??;
        let cancel = CancelOnDrop(Cancel::new());
        let options = RunOptions::new().cancel(&cancel.0).deadline(deadline);
        let run = spawn_blocking(move || {
            let _permit = permit; // held until the run ends, not until its caller goes away
            let x = Tensor::zeros(DType::F32, &[1, 3, 48, 192])?;
            let inputs = self.session.inputs();
            Ok::<_, Failure>(self.session.run_with([(inputs[0].name.as_str(), &x)], &options)?)
        });
        run.await?
    }
}

/// Cancels the run if the future that waits for it is dropped: after a timeout, or when a client disconnects.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// How many requests were answered, and how many were not.
async fn requests(server: Arc<Server>, n: usize, milliseconds: u64) -> (usize, usize) {
    let deadline = Instant::now() + Duration::from_millis(milliseconds);
    let mut tasks = JoinSet::new();
    for _ in 0..n {
        tasks.spawn(server.clone().infer(deadline));
    }
    let results = tasks.join_all().await;
    let n_done = results.iter().filter(|result| result.is_ok()).count();
    (n_done, n - n_done)
}
