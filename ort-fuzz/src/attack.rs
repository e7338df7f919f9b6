//! The loop of a target, in a process of its own.
//!
//! The process reports to two files: `findings`, a line each, and `progress`, the number of mutants so far, written
//! before each mutant, so that the seed is known even if the process dies. Its output belongs to the target.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ort_session::cpu_time;
use ort_testing::Rng;

use crate::MEMORY;
use crate::targets::Target;
use crate::watch;

/// The step between the seeds of mutants: the multiplier of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The file of the numbers of mutants and of accepted ones.
pub(crate) const PROGRESS: &str = "progress";
/// The file of findings: lines of seed, what, and the mutant.
pub(crate) const FINDINGS: &str = "findings";

/// Which mutants to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The seed of the first.
    pub(crate) seed: u64,
    /// At most so many.
    pub(crate) count: u64,
    /// At most so long.
    pub(crate) seconds: f64,
}

impl Plan {
    /// The seed of the mutant with this index.
    pub(crate) const fn seed_of(self, index: u64) -> u64 {
        self.seed.wrapping_add(STEP.wrapping_mul(index))
    }
}

/// A mutant while it is made and run.
#[derive(Debug)]
pub(crate) struct Mutant {
    /// All randomness.
    pub(crate) rng: Rng,
    /// What it is, for findings.
    pub(crate) label: String,
}

/// What became of a mutant.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was used, to the end.
    Accepted,
    /// It was an error, as it should be.
    Rejected,
    /// Something is wrong.
    Found(String),
}

/// The first panic of a mutant, on any thread, whether caught or not.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs the mutants of a plan.
pub(crate) fn run(target: &'static Target, plan: Plan, folder: &Path) -> ExitCode {
    match Report::new(folder).and_then(|report| attacked(target, plan, report)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn attacked(target: &Target, plan: Plan, mut report: Report) -> io::Result<()> {
    note_panics(plan.count == 1);
    let mut attack = (target.prepare)();
    let start = Instant::now();
    watch::start(report.findings.try_clone()?);
    let (mut index, mut n_accepted) = (0, 0);
    while index < plan.count && (index == 0 || start.elapsed().as_secs_f64() < plan.seconds) {
        report.progress(index, n_accepted)?;
        let seed = plan.seed_of(index);
        let mut mutant = Mutant { rng: Rng::new(seed), label: String::new() };
        watch::begin(seed);
        match one(target, &mut *attack, &mut mutant) {
            Outcome::Accepted => n_accepted += 1,
            Outcome::Rejected => {}
            Outcome::Found(what) => report.finding(seed, &what, &mutant.label)?,
        }
        index += 1;
    }
    report.progress(index, n_accepted)
}

fn one(
    target: &Target,
    attack: &mut dyn FnMut(&mut Mutant) -> Outcome,
    mutant: &mut Mutant,
) -> Outcome {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let start = cpu_time().unwrap_or_default();
    let outcome = catch_unwind(AssertUnwindSafe(|| attack(mutant)));
    let spent = cpu_time().unwrap_or_default().saturating_sub(start);
    let held = MEMORY.peak_usage().saturating_sub(before);
    let panic = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (panic, outcome) {
        (Some(panic), _) => Outcome::Found(format!("a panic at {panic}")),
        (None, Err(_)) => Outcome::Found("a panic without a message".to_owned()),
        (None, Ok(Outcome::Found(what))) => Outcome::Found(what),
        (None, Ok(_)) if held > target.max_bytes => Outcome::Found(format!("{} MiB", held >> 20)),
        (None, Ok(_)) if spent > target.max_time => {
            Outcome::Found(format!("{:.1} s", spent.as_secs_f64()))
        }
        (None, Ok(outcome)) => outcome,
    }
}

/// Panics are results here; that of a single mutant is shown as well.
fn note_panics(are_shown: bool) {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or_default();
        let mut first = PANIC.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| format!("{place}: {message}"));
        drop(first);
        if are_shown {
            default(info);
        }
    }));
}

/// The files of a process.
struct Report {
    progress: File,
    findings: File,
}

impl Report {
    fn new(folder: &Path) -> io::Result<Self> {
        let findings = OpenOptions::new().create(true).append(true).open(folder.join(FINDINGS))?;
        Ok(Self { progress: File::create(folder.join(PROGRESS))?, findings })
    }

    fn progress(&mut self, n_mutants: u64, n_accepted: u64) -> io::Result<()> {
        let numbers = [n_mutants.to_le_bytes(), n_accepted.to_le_bytes()].concat();
        self.progress.rewind()?;
        self.progress.write_all(&numbers)
    }

    fn finding(&mut self, seed: u64, what: &str, label: &str) -> io::Result<()> {
        self.findings.write_all(line(seed, what, label).as_bytes())
    }
}

/// A line of `findings`.
pub(crate) fn line(seed: u64, what: &str, label: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    };
    format!("{seed}\t{}\t{}\n", plain(what), plain(label))
}
