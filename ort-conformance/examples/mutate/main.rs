//! `mutate SECONDS [SEED [COUNT]]`: mutated models of the standard's node cases and of `models/`, run through
//! everything that a session does. `cargo xtask mutate` starts it.
//!
//! ```text
//! for each mutant:  load at one of the levels → run on small inputs → save → load what was saved
//! for some, before: some bytes of its file, `.onnx` or `.ort`, are changed
//! ```
//! A finding is a panic, even one that a run caught; more memory than the limits and 64 MiB; more time than the
//! limits and 2 s; and a saved model that does not load. Findings of one kind are reported once, with the seed that
//! reproduces the mutant: `mutate 0 SEED`. With a count it stops after so many mutants. Time in which the process is
//! stopped does not count.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program talks to its user")]

mod model;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ort_conformance::node_cases;
use ort_onnx::schema::ModelProto;
use ort_session::{
    DType, Level, Load, LoadLimits, ModelBytes, RunError, RunLimits, RunOptions, Session,
    SessionBuilder, Tensor, Type,
};
use ort_testing::Rng;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The memory limit of loading and of a run.
const LIMIT: usize = 64 << 20;
/// Memory allowed beyond the limits; twice the limit of the run is allowed, since some allocations are counted
/// afterwards.
const SLACK: usize = 64 << 20;
const MAX_TIME: Duration = Duration::from_millis(500);
const SLACK_TIME: Duration = Duration::from_secs(2);
/// After this time the program reports the mutant that hangs, and exits.
const HANG: Duration = Duration::from_secs(60);
/// Elements of a generated input.
const MAX_ELEMENTS: usize = 1 << 16;
/// The step between the seeds of mutants: the multiplier of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const LEVELS: [Level; 5] =
    [Level::Disable, Level::Basic, Level::Extended, Level::Layout, Level::All];

/// One in this many mutants is of a model of `models/`, which takes much longer than a node case.
const OF_MODELS: u64 = 64;
/// One in this many mutants has changed bytes as well.
const OF_BYTES: u64 = 8;
/// How often the clock ticks.
const TICK: Duration = Duration::from_millis(50);

/// The seed of the current mutant, and the tick at which it began.
static NOW: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// The ticks of the clock, which does not tick while the process is stopped.
static TICKS: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(60.0);
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let first: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or_else(clock);
    let most: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    let models = Models::all();
    let (n_cases, n_large) = (models.cases.len(), models.large.len());
    println!("{n_cases} node cases, {n_large} models, seed {first}, for {seconds} seconds");
    // Panics are results here; that of a single mutant is shown.
    if seconds > 0.0 {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let start = Instant::now();
    std::thread::spawn(watch);
    let (mut tally, mut n_mutants) = (Tally::default(), 0_u64);
    let continues = |n| n == 0 || n < most && start.elapsed().as_secs_f64() < seconds;
    while continues(n_mutants) {
        let seed = first.wrapping_add(STEP.wrapping_mul(n_mutants));
        NOW[0].store(seed, Ordering::Relaxed);
        NOW[1].store(TICKS.load(Ordering::Relaxed), Ordering::Relaxed);
        tally.note(seed, &one(&models, seed));
        n_mutants += 1;
    }
    println!("{n_mutants} mutants: {} ran, {} were rejected", tally.n_ran, tally.n_refused);
    for (kind, (n, seed)) in &tally.findings {
        println!("{n} times, seed {seed}: {kind}");
    }
    if tally.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// How long this mutant takes so far.
fn elapsed() -> Duration {
    let n_ticks = TICKS.load(Ordering::Relaxed).saturating_sub(NOW[1].load(Ordering::Relaxed));
    TICK.saturating_mul(u32::try_from(n_ticks).unwrap_or(u32::MAX))
}

/// The CPU time of this thread, where the system reports it, so that a busy machine causes no finding.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(stat.split_whitespace().next()?.parse().ok()?))
}

/// Advances the clock, and exits if a mutant hangs.
fn watch() {
    loop {
        std::thread::sleep(TICK);
        TICKS.fetch_add(1, Ordering::Relaxed);
        if elapsed() > HANG {
            let seed = NOW[0].load(Ordering::Relaxed);
            println!("seed {seed}: no end after {} s", HANG.as_secs());
            std::process::exit(2);
        }
    }
}

/// The models that mutants are made of.
struct Models {
    cases: Vec<ModelProto>,
    large: Vec<ModelProto>,
}

impl Models {
    fn all() -> Self {
        let files = node_cases::unpack(include_bytes!("../../fixtures/node_cases.bin"));
        let files = files.unwrap_or_default().into_iter();
        let files = files.filter(|(path, _)| path.ends_with(".ort"));
        let cases = files.filter_map(|(_, bytes)| parsed(ModelBytes::from_owner(bytes))).collect();
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../models"));
        let of = |name| ModelBytes::from_path(folder.join(name).join("model.ort"), Load::Read);
        let large = ["ppocr_cls", "silero_vad", "magika"].map(|name| parsed(of(name).ok()?));
        Self { cases, large: large.into_iter().flatten().collect() }
    }
}

fn parsed(bytes: ModelBytes) -> Option<ModelProto> {
    let builder = Session::builder().level(Level::Disable).threads(1);
    let onnx = builder.optimize(bytes).ok()?.to_onnx_bytes().ok()?;
    ort_onnx::open(&onnx.into(), &ort_onnx::Limits::default()).ok()
}

/// What became of a mutant.
#[derive(Debug)]
enum Outcome {
    Ran,
    Refused,
    Found(String),
}

#[derive(Default)]
struct Tally {
    n_ran: u64,
    n_refused: u64,
    /// How often each kind was met, and the first seed.
    findings: BTreeMap<String, (u64, u64)>,
}

impl Tally {
    fn note(&mut self, seed: u64, outcome: &Outcome) {
        match outcome {
            Outcome::Ran => self.n_ran += 1,
            Outcome::Refused => self.n_refused += 1,
            Outcome::Found(what) => {
                // The message without its numbers.
                let kind = what.chars().filter(|c| !c.is_ascii_digit()).take(100).collect();
                self.findings.entry(kind).or_insert((0, seed)).0 += 1;
            }
        }
    }
}

fn one(models: &Models, seed: u64) -> Outcome {
    let (mut rng, mut dice) = (Rng::new(seed), Rng::new(!seed));
    let models = if dice.below(OF_MODELS) == 0 { &models.large } else { &models.cases };
    let model = model::mutant(models, &mut rng);
    let Some(mut bytes) = ort_onnx::encode(&model) else { return Outcome::Refused };
    let level = LEVELS[rng.index(LEVELS.len())];
    let op_types = model.graph.iter().flat_map(|graph| &graph.node).map(|node| &*node.op_type);
    let what: String = op_types.take(3).collect::<Vec<_>>().join(" ");
    if dice.below(OF_BYTES) == 0 {
        bytes = damaged(bytes, &mut dice);
    }
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let start = processor_time();
    let outcome = catch_unwind(AssertUnwindSafe(|| stages(bytes, level, &mut rng)));
    let spent = processor_time().zip(start).map_or_else(elapsed, |(end, start)| end - start);
    let held = MEMORY.peak_usage().saturating_sub(before);
    match outcome {
        Err(_) => Outcome::Found(format!("{what}: a panic at level {level}")),
        Ok(Outcome::Found(found)) => Outcome::Found(format!("{what}: {found} at level {level}")),
        Ok(_) if held > LIMIT + SLACK => {
            Outcome::Found(format!("{what}: {} MiB at level {level}", held >> 20))
        }
        Ok(_) if spent > 2 * MAX_TIME + SLACK_TIME => {
            let seconds = spent.as_secs_f64();
            Outcome::Found(format!("{what}: {seconds:.1} s at level {level}"))
        }
        Ok(outcome) => outcome,
    }
}

/// The file, or its `.ort` form, with some bytes changed.
fn damaged(onnx: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    let to_ort = |bytes: &Vec<u8>| {
        let optimized = builder(Level::Disable).optimize(ModelBytes::from_vec(bytes.clone()));
        optimized.ok()?.to_bytes().ok()
    };
    let ort = if rng.below(2) == 0 { catch_unwind(|| to_ort(&onnx)).ok().flatten() } else { None };
    let mut bytes = ort.unwrap_or(onnx);
    for _ in 0..=rng.below(4) {
        let at = rng.index(bytes.len().max(1));
        let Some(byte) = bytes.get_mut(at) else { continue };
        *byte = [0, 1, 0x7f, 0x80, 0xff, *byte ^ 1, byte.wrapping_add(1)][rng.index(7)];
    }
    bytes
}

fn builder(level: Level) -> SessionBuilder {
    let limits =
        LoadLimits { max_bytes: Some(LIMIT), max_time: Some(MAX_TIME), ..LoadLimits::default() };
    Session::builder().level(level).threads(1).load_limits(limits)
}

/// Loads, runs, saves and loads again.
fn stages(bytes: Vec<u8>, level: Level, rng: &mut Rng) -> Outcome {
    let bytes = bytes::Bytes::from(bytes);
    let load = |level| builder(level).optimize(ModelBytes::from_owner(bytes.clone()));
    let Ok(optimized) = load(level) else { return Outcome::Refused };
    // A saved model loads again, unless it was only just within the limits.
    let saved = if level < Level::All { optimized.to_bytes().ok() } else { None };
    let Ok(session) = optimized.commit() else { return Outcome::Refused };
    if let Some(saved) = saved
        && let Err(error) = builder(Level::Disable).commit(ModelBytes::from_vec(saved))
        && !matches!(error, ort_session::SessionError::Limit(_))
    {
        return Outcome::Found(format!("the saved model does not load: {error}"));
    }
    match run(&session, rng) {
        Some(Err(RunError::Panicked { message, .. })) => {
            Outcome::Found(format!("a run panicked: {message}"))
        }
        Some(Ok(())) => Outcome::Ran,
        _ => Outcome::Refused,
    }
}

/// A run on small inputs; `None` if they cannot be generated.
fn run(session: &Session, rng: &mut Rng) -> Option<Result<(), RunError>> {
    let descriptions = session.inputs();
    let mut inputs = Vec::new();
    for input in &descriptions {
        let Type::Tensor(tensor) = &input.ty else { return None };
        inputs.push((input.name.as_str(), generated(tensor.dtype, tensor.dims.as_deref(), rng)?));
    }
    let limits =
        RunLimits { max_bytes: Some(LIMIT), max_time: Some(MAX_TIME), max_iterations: Some(1000) };
    let options = RunOptions::new().limits(limits);
    let inputs: Vec<_> = inputs.iter().map(|(name, tensor)| (*name, tensor)).collect();
    Some(session.run_with(inputs, &options).map(drop))
}

/// A tensor of this type: free dimensions are small, elements are numbers of any size.
fn generated(dtype: DType, dims: Option<&[ort_session::Dim]>, rng: &mut Rng) -> Option<Tensor> {
    let free = [0, 1, 2, 3];
    let dims = dims.unwrap_or_default().iter();
    let shape: Vec<usize> =
        dims.map(|dim| dim.known().unwrap_or_else(|| free[rng.index(4)])).collect();
    let n = shape.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
    let n = n.filter(|&n| n <= MAX_ELEMENTS)?;
    if dtype == DType::String {
        let texts = ["", "a", "1.5", "\u{e4}", "NaN"];
        let texts = (0..n).map(|_| texts[rng.index(texts.len())].to_owned());
        return Tensor::from_strings(&shape, texts.collect()).ok();
    }
    if dtype == DType::I64 {
        let numbers: Vec<i64> = (0..n).map(|_| model::extreme(rng)).collect();
        return Tensor::from_slice(&shape, &numbers).ok();
    }
    let mut tensor = Tensor::zeros(dtype, &shape).ok()?;
    if let Some(bytes) = tensor.view_mut().into_bytes() {
        bytes.iter_mut().for_each(|byte| *byte = rng.next_u64().to_le_bytes()[0]);
    }
    Some(tensor)
}
