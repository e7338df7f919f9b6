//! `ort-fuzz [--target NAME] [--seconds N] [--seed S]`: mutants of everything that strangers pass in.
//! `cargo xtask fuzz` starts it.
//!
//! ```text
//! for each target, in a process of its own:  prepare its corpus
//!     for each seed:  make a mutant → what a program would do with it → Accepted, Rejected or Found
//! ```
//! A finding is a panic, even one that was caught; more memory or processor time than the target allows; a mutant without
//! end; a death of the process; and whatever a target finds itself, such as a wrong result. Findings of one kind are
//! reported once, with a seed that reproduces the mutant: `ort-fuzz --target NAME --seed SEED --count 1`.
//!
//! A target is a file below `targets/` and a line in [`targets::TARGETS`].

#![expect(clippy::print_stdout, reason = "a program talks to its user")]

mod attack;
mod supervisor;
mod watch;

mod corpus;
mod damage;
mod grammar;
mod model;
mod stages;
mod targets;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use clap::builder::PossibleValuesParser;
use peak_alloc::PeakAlloc;

use crate::attack::Plan;
use crate::targets::{ITSELF, TARGETS, Target};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The seed of `--quick`, which all machines use.
const QUICK_SEED: u64 = 1;

/// Mutants of everything that strangers pass in
#[derive(Parser)]
struct Arguments {
    /// A target [default: all]
    #[arg(long, value_parser = names())]
    target: Vec<String>,
    /// How long each target runs
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// The seed of the first mutant [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// The maximum number of mutants of each target
    #[arg(long)]
    count: Option<u64>,
    /// Run each target's own number of mutants from a fixed seed, however long it takes
    #[arg(long, conflicts_with_all = ["seconds", "seed", "count"])]
    quick: bool,
    /// Run the one target in this process, and report to files in this folder
    #[arg(long, hide = true)]
    report: Option<PathBuf>,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(TARGETS.iter().chain([&ITSELF]).map(|target| target.name))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_named = |target: &&Target| arguments.target.iter().any(|name| name == target.name);
    let is_chosen = |target: &&Target| arguments.target.is_empty() || is_named(target);
    let mut chosen =
        { TARGETS.iter().filter(is_chosen) }.chain([&ITSELF].into_iter().filter(is_named));
    if let (Some(folder), Some(target)) = (&arguments.report, chosen.clone().next()) {
        return attack::run(target, plan(&arguments, target), folder);
    }
    let n_found = chosen.try_fold(0, |n_found, target| {
        let report = supervisor::run(target, plan(&arguments, target))?;
        println!("{report}");
        Ok::<_, std::io::Error>(n_found + report.n_found())
    });
    match n_found {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn plan(arguments: &Arguments, target: &Target) -> Plan {
    if arguments.quick {
        return Plan { seed: QUICK_SEED, count: target.quick, seconds: f64::INFINITY };
    }
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Plan {
        seed: arguments.seed.unwrap_or_else(clock),
        count: arguments.count.unwrap_or(u64::MAX),
        seconds: arguments.seconds,
    }
}
