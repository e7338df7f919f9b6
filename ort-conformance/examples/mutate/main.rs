//! `mutate SECONDS [SEED]`: models of the standard's node cases, changed where it hurts, through everything that a
//! session does. `cargo xtask mutate` starts it.
//!
//! ```text
//! for each mutant:  load at one of the levels → run on small inputs → save → load what was saved
//! ```
//! A finding is a panic, also one that a run caught; more memory than the limits and 64 MiB; more time than the limits
//! and 2 s; and a saved model that does not load. Findings of one kind are told once, with the seed that makes
//! the mutant again: `mutate 0 SEED`.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program talks to its user")]

mod model;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ort_conformance::node_cases;
use ort_onnx::schema::ModelProto;
use ort_session::{
    DType, Level, LoadLimits, ModelBytes, RunError, RunLimits, RunOptions, Session, SessionBuilder,
    Tensor, Type,
};
use ort_testing::Rng;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What loading, and a run, may take.
const LIMIT: usize = 64 << 20;
/// What else there may be, twice the limit of the run for what is counted after it is made included.
const SLACK: usize = 64 << 20;
const MAX_TIME: Duration = Duration::from_millis(500);
const SLACK_TIME: Duration = Duration::from_secs(2);
/// After so long without an end the program tells which mutant it is, and gives up.
const HANG: Duration = Duration::from_secs(60);
/// Elements of an input that is made up.
const MAX_ELEMENTS: usize = 1 << 16;
/// Seeds of mutants are this far apart: the multiplier of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const LEVELS: [Level; 5] =
    [Level::Disable, Level::Basic, Level::Extended, Level::Layout, Level::All];

/// The seed of the mutant at work, and when it began, in milliseconds after the start.
static NOW: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(60.0);
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let first: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or_else(clock);
    let models = models();
    println!("{} models, seed {first}, for {seconds} seconds", models.len());
    // Panics are results here.
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    std::thread::spawn(move || watch(start));
    let (mut tally, mut n_mutants) = (Tally::default(), 0_u64);
    while n_mutants == 0 || start.elapsed().as_secs_f64() < seconds {
        let seed = first.wrapping_add(STEP.wrapping_mul(n_mutants));
        NOW[0].store(seed, Ordering::Relaxed);
        NOW[1].store(millis(start), Ordering::Relaxed);
        tally.note(seed, &one(&models, seed));
        n_mutants += 1;
    }
    println!("{n_mutants} mutants: {} ran, {} were refused", tally.n_ran, tally.n_refused);
    for (kind, (n, seed)) in &tally.findings {
        println!("{n} times, seed {seed}: {kind}");
    }
    if tally.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn millis(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Ends the process if a mutant does not end.
fn watch(start: Instant) {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let [seed, began] = [0, 1].map(|i: usize| NOW[i].load(Ordering::Relaxed));
        if u128::from(millis(start).saturating_sub(began)) > HANG.as_millis() {
            println!("seed {seed}: no end after {} s", HANG.as_secs());
            std::process::exit(2);
        }
    }
}

/// The models that mutants are made of.
fn models() -> Vec<ModelProto> {
    let files = node_cases::unpack(include_bytes!("../../fixtures/node_cases.bin"));
    let files = files.unwrap_or_default().into_iter();
    let files = files.filter(|(path, _)| path.ends_with(".ort"));
    let model = |(_, bytes): (String, bytes::Bytes)| {
        let builder = Session::builder().level(Level::Disable).threads(1);
        let onnx = builder.optimize(ModelBytes::from_owner(bytes)).ok()?.to_onnx_bytes().ok()?;
        ort_onnx::open(&onnx.into(), &ort_onnx::Limits::default()).ok()
    };
    files.filter_map(model).collect()
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

fn one(models: &[ModelProto], seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let model = model::mutant(models, &mut rng);
    let Some(bytes) = ort_onnx::encode(&model) else { return Outcome::Refused };
    let level = LEVELS[rng.index(LEVELS.len())];
    let op_types = model.graph.iter().flat_map(|graph| &graph.node).map(|node| &*node.op_type);
    let what: String = op_types.take(3).collect::<Vec<_>>().join(" ");
    let (start, before) = (Instant::now(), MEMORY.current_usage());
    MEMORY.reset_peak_usage();
    let outcome = catch_unwind(AssertUnwindSafe(|| stages(bytes, level, &mut rng)));
    let held = MEMORY.peak_usage().saturating_sub(before);
    match outcome {
        Err(_) => Outcome::Found(format!("{what}: a panic at level {level}")),
        Ok(Outcome::Found(found)) => Outcome::Found(format!("{what}: {found} at level {level}")),
        Ok(_) if held > LIMIT + SLACK => {
            Outcome::Found(format!("{what}: {} MiB at level {level}", held >> 20))
        }
        Ok(_) if start.elapsed() > 2 * MAX_TIME + SLACK_TIME => {
            let seconds = start.elapsed().as_secs_f64();
            Outcome::Found(format!("{what}: {seconds:.1} s at level {level}"))
        }
        Ok(outcome) => outcome,
    }
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
    // What a model that can be planned becomes loads again, unless it was only just within the limits.
    let saved = if level < Level::All { optimized.to_bytes().ok() } else { None };
    let Ok(session) = optimized.commit() else { return Outcome::Refused };
    if let Some(saved) = saved
        && let Err(error) = builder(Level::Disable).commit(ModelBytes::from_vec(saved))
        && !matches!(error, ort_session::SessionError::Limit(_))
    {
        return Outcome::Found(format!("what was saved does not load: {error}"));
    }
    match run(&session, rng) {
        Some(Err(RunError::Panicked { message, .. })) => {
            Outcome::Found(format!("a run panicked: {message}"))
        }
        Some(Ok(())) => Outcome::Ran,
        _ => Outcome::Refused,
    }
}

/// A run on small inputs; `None` if they cannot be made up.
fn run(session: &Session, rng: &mut Rng) -> Option<Result<(), RunError>> {
    let descriptions = session.inputs();
    let mut inputs = Vec::new();
    for input in &descriptions {
        let Type::Tensor(tensor) = &input.ty else { return None };
        inputs.push((input.name.as_str(), made_up(tensor.dtype, tensor.dims.as_deref(), rng)?));
    }
    let limits =
        RunLimits { max_bytes: Some(LIMIT), max_time: Some(MAX_TIME), max_iterations: Some(1000) };
    let options = RunOptions::new().limits(limits);
    let inputs: Vec<_> = inputs.iter().map(|(name, tensor)| (*name, tensor)).collect();
    Some(session.run_with(inputs, &options).map(drop))
}

/// A tensor of this type: dimensions that are free are small, elements numbers of any size.
fn made_up(dtype: DType, dims: Option<&[ort_session::Dim]>, rng: &mut Rng) -> Option<Tensor> {
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
