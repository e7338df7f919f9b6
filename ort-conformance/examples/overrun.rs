//! `overrun [WORD…]`: how much a run still computes after it was cancelled, for nodes that take long: those whose
//! names begin with one of the words, or all.
//!
//! ```sh
//! cargo run --profile release -p ort-conformance --example overrun -- Resize
//! ```
//! Every node runs by the CPU provider on one and on two threads, by its operator's `eval`, and as a constant that
//! loading folds. Overruns of more than 100 ms are reported, and make the program fail. Needs about 4 GiB.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program talks to its user")]

use std::process::ExitCode;
use std::time::Duration;

use ort_conformance::overrun::{CASES, Outcome, Place, run};

/// When a run is cancelled.
const TIME: Duration = Duration::from_millis(20);
/// How much later it may return.
const ALLOWED: Duration = Duration::from_millis(100);
const PLACES: [Place; 4] = [Place::Cpu(1), Place::Cpu(2), Place::Reference, Place::Folded];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|w| name.starts_with(&**w));
    let (mut n_late, mut n_ended, mut n_short) = (0_usize, 0_usize, 0_usize);
    for case in CASES.iter().filter(|case| is_wanted(case.name)) {
        for place in PLACES {
            let outcome = run(case, place, TIME);
            match &outcome {
                Outcome::Ended(_) => n_ended += 1,
                Outcome::Done(_) => n_short += 1,
                Outcome::Failed(message) => println!("{} {place:?}: {message}", case.name),
            }
            let late = outcome.overrun();
            if late > ALLOWED {
                n_late += 1;
                println!(
                    "{} {place:?}: {:.0} ms of work after cancellation",
                    case.name,
                    late.as_secs_f64() * 1e3
                );
            }
        }
    }
    println!(
        "{n_ended} were cancelled, {n_short} finished, {n_late} took more than 100 ms after cancellation"
    );
    if n_late == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
