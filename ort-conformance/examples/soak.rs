//! `soak HOURS [SEED [FAMILY]]`: the differential test for a given time. `cargo xtask soak` starts it.
//!
//! Prints the seed, progress once a minute, and each new failure, reduced. A failure is new if no case of this family
//! failed in the same way.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program talks to its user")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ort_conformance::differential::{Coverage, Outcome, families, run_one};

/// Multiply-adds of a case: a quarter of a second of plain evaluation.
const BUDGET: usize = 100_000_000;

/// The step between the seeds of cases: the multiplier of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let hours: f64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let seed: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or_else(now);
    let only = arguments.next();
    println!("seed {seed}, for {hours} hours");
    let families: Vec<usize> = (0..families().len())
        .filter(|&family| only.as_ref().is_none_or(|only| families()[family] == *only))
        .collect();
    if families.is_empty() {
        println!("there are only {:?}", self::families());
        return ExitCode::FAILURE;
    }
    // Panics are results here.
    std::panic::set_hook(Box::new(|_| {}));
    let (start, coverage) = (Instant::now(), Coverage::default());
    let mut soak = Soak { most: BTreeMap::new(), failures: BTreeMap::new(), n_failed: 0 };
    let (mut n_cases, mut reported) = (0_u64, Instant::now());
    while start.elapsed().as_secs_f64() < hours * 3600.0 {
        let family = families[usize::try_from(n_cases).unwrap_or(0) % families.len()];
        let case_seed = seed.wrapping_add(STEP.wrapping_mul(n_cases));
        soak.note(&run_one(family, case_seed, BUDGET, &coverage));
        n_cases += 1;
        if reported.elapsed() > Duration::from_mins(1) {
            reported = Instant::now();
            let minutes = start.elapsed().as_secs() / 60;
            let kinds = soak.failures.len();
            println!("{minutes} min: {n_cases} cases, {} failed in {kinds} ways", soak.n_failed);
            if minutes % 30 == 0 {
                soak.report(n_cases, &coverage);
            }
        }
    }
    soak.report(n_cases, &coverage);
    if soak.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Soak {
    /// The largest ratio of error to bound in a family.
    most: BTreeMap<&'static str, f64>,
    /// How often each kind of failure occurred.
    failures: BTreeMap<(&'static str, String), u64>,
    n_failed: u64,
}

impl Soak {
    fn note(&mut self, outcome: &Outcome) {
        let family = outcome.case.family;
        match &outcome.result {
            Ok(part) => {
                let most = self.most.entry(family).or_default();
                *most = most.max(*part);
            }
            Err(failure) => {
                self.n_failed += 1;
                // The message without its numbers.
                let kind = failure.what.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
                let n = self.failures.entry((family, kind)).or_default();
                *n += 1;
                if *n == 1 {
                    println!("FAILED {family}: {failure}\n{}", outcome.case);
                    if let Some((case, failure)) = outcome.shrunk() {
                        println!("SHRUNK {family}: {failure}\n{case}");
                    }
                }
            }
        }
    }

    fn report(&self, n_cases: u64, coverage: &Coverage) {
        println!("{n_cases} cases");
        for (family, most) in &self.most {
            println!("  {family}: at most {most:.3} of the bound");
        }
        for (kernel, variant, n) in coverage.counts() {
            println!("  {kernel} {variant}: {n} runs");
        }
        println!("  never ran: {:?}", coverage.missing());
        for ((family, kind), n) in &self.failures {
            println!("  failed {n} times: {family}: {kind}");
        }
    }
}
