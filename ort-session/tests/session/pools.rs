//! The threads of a run, as seen by the kernel of a test's provider.

use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_session::{Denormals, Level, ModelBytes, Session, SessionBuilder, Tensor, Threads};
use ort_tensor::DType;

use crate::model::{ModelWriter, forked};
use crate::taking::Taking;

/// What a part observes of its thread.
#[derive(Clone, Debug)]
struct Seen {
    name: String,
    /// The processors it may run on.
    processors: String,
    /// Whether denormal numbers count as zero.
    is_flushing: bool,
}

/// Runs two parts that wait for each other, so that two threads are needed.
#[derive(Clone, Debug, Default)]
struct Probe {
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Kernel for Probe {
    fn run(&self, _: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        io.outputs[0].tensor(DType::F32, &[1])?.into_slice::<f32>()?.fill(0.0);
        let both = Barrier::new(2);
        io.threads.for_each(2, &|_| {
            both.wait();
            self.seen.lock().unwrap().push(Seen::now());
        });
        Ok(())
    }
}

impl Seen {
    fn now() -> Self {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        Self { name, processors: allowed_processors(), is_flushing: is_flushing() }
    }
}

fn is_flushing() -> bool {
    std::hint::black_box(1e-40_f32) * std::hint::black_box(1.0) == 0.0
}

/// The processors that the calling thread may run on, as listed by Linux; empty on other systems.
fn allowed_processors() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_owned()
}

/// The two threads of a run, as seen by the kernel.
fn threads_of(builder: SessionBuilder) -> Vec<Seen> {
    let model = ModelWriter::default().input("x", &[1]).node("Relu", 14, &["x"], "y").output("y");
    let probe = Probe::default();
    let builder = builder.level(Level::Disable).provider(Taking::new("Relu", probe.clone()));
    let session = builder.commit(ModelBytes::from_vec(model.bytes())).unwrap();
    assert_eq!(session.n_threads(), 2);
    let x = Tensor::from_slice(&[1], &[1.0_f32]).unwrap();
    session.run([("x", &x)]).unwrap();
    let seen = probe.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 2);
    seen
}

fn has_thread(seen: &[Seen], start: &str) -> bool {
    seen.iter().any(|thread| thread.name.starts_with(start))
}

/// Runs half of the parts on the caller and half on a new thread.
#[derive(Debug)]
struct NewThreads;

impl Threads for NewThreads {
    fn count(&self) -> usize {
        2
    }

    fn for_each(&self, n: usize, part: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("new".to_owned());
            builder.spawn_scoped(scope, move || (n / 2..n).for_each(part)).unwrap();
            (0..n / 2).for_each(part);
        });
    }
}

/// Workers with this name.
fn workers(name: &'static str, n_threads: usize) -> Arc<rayon::ThreadPool> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
    Arc::new(builder.thread_name(move |i| format!("{name}-{i}")).build().unwrap())
}

#[test]
fn user_provided_threads_run_the_parts() {
    let pooled = Session::builder().thread_pool(workers("given", 2));
    assert!(has_thread(&threads_of(pooled.clone()), "given-"));
    // They take precedence over a thread count and our other settings.
    assert!(has_thread(&threads_of(pooled.threads(5).own_pool(true)), "given-"));
    let sourced = Session::builder().thread_source(Arc::new(NewThreads));
    assert!(has_thread(&threads_of(sourced), "new"));
    let ours = Session::builder().threads(2).spinning(Duration::ZERO);
    assert!(has_thread(&threads_of(ours), "ort-worker-"));
}

#[test]
fn user_provided_threads_flush_denormals_only_in_the_run() {
    let workers = workers("given", 2);
    let pooled = Session::builder().thread_pool(workers.clone());
    let sourced = Session::builder().thread_source(Arc::new(NewThreads));
    for builder in [pooled, sourced] {
        let preserving = builder.clone().denormals(Denormals::Preserve);
        assert!(threads_of(builder).iter().all(|thread| thread.is_flushing));
        assert!(threads_of(preserving).iter().all(|thread| !thread.is_flushing));
    }
    assert!(!is_flushing() && workers.broadcast(|_| is_flushing()) == [false, false]);
}

#[test]
fn the_number_of_user_provided_threads_is_reported() {
    let requested = |builder: &SessionBuilder| builder.thread_count().requested;
    assert_eq!(requested(&Session::builder()), None);
    assert_eq!(requested(&Session::builder().thread_pool(workers("given", 3))), Some(3));
    assert_eq!(
        requested(&Session::builder().thread_source(Arc::new(NewThreads)).threads(7)),
        Some(2)
    );
}

#[test]
fn the_default_is_bounded_and_a_number_is_not() {
    let n_threads = |builder: SessionBuilder| {
        let n = builder.thread_count().n_threads();
        let model = ModelWriter::default().input("x", &[1]).node("Relu", 14, &["x"], "y");
        let session = builder.commit(ModelBytes::from_vec(model.output("y").bytes())).unwrap();
        assert_eq!(session.n_threads(), n);
        n
    };
    assert_eq!(n_threads(Session::builder().max_threads(1)), 1);
    assert_eq!(n_threads(Session::builder().max_threads(1).threads(2)), 2);
}

#[test]
fn branches_run_in_parallel_only_on_request() {
    let mode = "session.execution_mode";
    let n_branches = |entries: &[(&str, &str)]| {
        let set = |builder: SessionBuilder, (key, value): &(&str, &str)| builder.config(key, value);
        let builder = entries.iter().try_fold(Session::builder().threads(2), set).unwrap();
        builder.commit(ModelBytes::from_vec(forked())).unwrap().n_branches()
    };
    assert_eq!(n_branches(&[]), 1);
    assert_eq!(n_branches(&[(mode, "sequential")]), 1);
    assert_eq!(n_branches(&[("session.inter_op_num_threads", "3")]), 1);
    assert_eq!(n_branches(&[(mode, "parallel")]), 2);
    assert_eq!(n_branches(&[(mode, "parallel"), ("session.inter_op_num_threads", "3")]), 3);
    assert_eq!(n_branches(&[(mode, "parallel"), ("session.inter_op_num_threads", "1")]), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn workers_are_pinned_and_the_caller_is_not() {
    let before = allowed_processors();
    let last = before.rsplit([',', '-']).next().unwrap();
    let from_one = last.parse::<usize>().unwrap() + 1;
    let (text, key) = (from_one.to_string(), "session.intra_op_thread_affinities");
    let builder = Session::builder().threads(2).spinning(Duration::ZERO);
    let by_method = builder.clone().thread_affinities(text.parse().unwrap());
    for builder in [by_method, builder.config(key, &text).unwrap()] {
        let seen = threads_of(builder);
        for thread in &seen {
            let is_ours = thread.name.starts_with("ort-worker-");
            assert_eq!(&thread.processors, if is_ours { last } else { &before }, "{seen:?}");
        }
        assert!(has_thread(&seen, "ort-worker-"), "{seen:?}");
    }
}
