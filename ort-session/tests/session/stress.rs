//! Many callers use one session while others create, cancel, time out, panic and drop.
//!
//! It takes about a second, or `ORT_STRESS_SECONDS`.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ort_session::{
    Cancel, DType, ExecutionMode, Level, ModelBytes, Outputs, RunError, RunOptions, Session,
    SessionError, Tensor,
};
use ort_testing::Rng;

use crate::hooked::Hooked;
use crate::model::{forked, forked_values};

/// The outputs whose memory a session retains.
const N_OUTPUTS: usize = 16;
const N_CALLERS: usize = 8;

/// Rows of the largest input: enough for its two branches to run in parallel.
const MAX_ROWS: usize = 5000;

/// The shared state of all threads.
struct Scene {
    end: Instant,
    /// Lives as long as the scene.
    steady: Session,
    /// Panics on request in the middle of a run.
    panicking: Session,
    must_panic: Arc<AtomicBool>,
    /// Is replaced again and again while it runs.
    changing: Mutex<Arc<Session>>,
}

fn session(n_threads: usize) -> Session {
    let builder = Session::builder().threads(n_threads);
    builder.execution_mode(ExecutionMode::Parallel).commit(ModelBytes::from_vec(forked())).unwrap()
}

impl Scene {
    fn new(length: Duration) -> Self {
        let must_panic = Arc::new(AtomicBool::new(false));
        let flag = must_panic.clone();
        let hook = Hooked::new(move |_| {
            if flag.swap(false, Ordering::Relaxed) {
                resume_unwind(Box::new("on request"));
            }
        });
        let panicking = Session::builder().level(Level::Disable).threads(2).provider(hook);
        Self {
            end: Instant::now() + length,
            steady: session(2),
            panicking: panicking.commit(ModelBytes::from_vec(forked())).unwrap(),
            must_panic,
            changing: Mutex::new(Arc::new(session(2))),
        }
    }

    fn is_running(&self) -> bool {
        Instant::now() < self.end
    }

    /// Runs one of the sessions in a random way.
    fn call(&self, cancels: &Sender<Cancel>, rng: &mut Rng) {
        let n = [1, 7, 300, MAX_ROWS][rng.index(4)];
        let data: Vec<f32> = rng.uniforms(3 * n);
        let x = Tensor::from_slice(&[n, 3], &data).unwrap();
        let [y, z, w] = forked_values(&data);
        let all = [("y", &*y), ("z", &*z), ("w", &*w)];
        match rng.index(8) {
            0 => {
                let cancel = Cancel::new();
                let options = RunOptions::new().cancel(&cancel);
                cancels.send(cancel).unwrap();
                match self.steady.run_with([("x", &x)], &options) {
                    Err(RunError::Cancelled { .. }) => {}
                    result => assert_outputs(&result.unwrap(), &all),
                }
            }
            1 => {
                let timeout = Duration::from_micros(rng.index(200) as u64);
                let options = RunOptions::new().deadline(Instant::now() + timeout);
                match self.steady.run_with([("x", &x)], &options) {
                    Err(RunError::DeadlineExceeded { .. }) => {}
                    result => assert_outputs(&result.unwrap(), &all),
                }
            }
            2 => {
                let session = self.changing.lock().unwrap().clone();
                assert_outputs(&session.run([("x", &x)]).unwrap(), &all);
            }
            3 => {
                self.must_panic.store(rng.index(2) == 0, Ordering::Relaxed);
                match self.panicking.run([("x", &x)]) {
                    Err(RunError::Panicked { message, .. }) => assert_eq!(message, "on request"),
                    result => assert_outputs(&result.unwrap(), &all),
                }
            }
            4 => {
                let options = RunOptions::new().outputs(["w"]);
                let outputs = self.steady.run_with([("x", &x)], &options).unwrap();
                assert_outputs(&outputs, &all[2..]);
            }
            5 => {
                let mut place = Tensor::zeros(DType::F32, &[n, 3]).unwrap();
                let bound = [("y", &mut place)];
                let outputs = self.steady.run_into([("x", &x)], bound, &RunOptions::new());
                assert_outputs(&outputs.unwrap(), &all[1..]);
                assert_eq!(place.as_slice::<f32>().unwrap(), y);
            }
            _ => assert_outputs(&self.steady.run([("x", &x)]).unwrap(), &all),
        }
    }

    /// Replaces the changing session; loading is sometimes cancelled.
    fn change(&self, cancels: &Sender<Cancel>, n_threads: usize) {
        let cancel = Cancel::new();
        let builder = Session::builder().threads(n_threads).cancel(&cancel);
        cancels.send(cancel).unwrap();
        match builder.commit(ModelBytes::from_vec(forked())) {
            Err(SessionError::Cancelled) => {}
            session => *self.changing.lock().unwrap() = Arc::new(session.unwrap()),
        }
    }
}

/// Panics, so that the test fails, if an output is wrong.
fn assert_outputs(outputs: &Outputs, expected: &[(&str, &[f32])]) {
    let found: Vec<_> = outputs.iter().collect();
    assert_eq!(found.len(), expected.len());
    for ((name, value), (expected_name, expected)) in found.into_iter().zip(expected) {
        assert_eq!(name, *expected_name);
        assert!(value.as_tensor().unwrap().as_slice::<f32>().unwrap() == *expected, "{name}");
    }
}

fn cancel_all(cancels: &Receiver<Cancel>) {
    while let Ok(cancel) = cancels.recv() {
        std::thread::yield_now();
        cancel.cancel();
    }
}

#[test]
fn under_stress_outputs_are_correct_and_retained_memory_is_bounded() {
    let seconds = std::env::var("ORT_STRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    let scene = Scene::new(Duration::from_secs(seconds.unwrap_or(1)));
    let (cancels, to_cancel) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || cancel_all(&to_cancel));
        for caller in 0..N_CALLERS {
            let (scene, cancels) = (&scene, cancels.clone());
            scope.spawn(move || {
                let mut rng = Rng::new(caller as u64);
                while scene.is_running() {
                    scene.call(&cancels, &mut rng);
                }
            });
        }
        for n_threads in [1, 3] {
            let (scene, cancels) = (&scene, cancels.clone());
            scope.spawn(move || {
                while scene.is_running() {
                    scene.change(&cancels, n_threads);
                }
            });
        }
        drop(cancels);
    });
    for session in [&scene.steady, &scene.panicking] {
        let planned = session.activations_of_shapes(&[("x", &[MAX_ROWS, 3])]).unwrap();
        let kept = || session.memory().activations_retained.n_bytes();
        let output = planned.outputs.next_multiple_of(64);
        let limit = N_CALLERS * planned.arena + N_OUTPUTS * output;
        assert!(kept() <= limit, "{}, more than {limit}", kept());
        let x = Tensor::from_slice(&[1, 3], &[0.0_f32; 3]).unwrap();
        (0..40).for_each(|_| drop(session.run([("x", &x)])));
        assert!(kept() <= 64, "{} for a run that needs a line", kept());
    }
}
