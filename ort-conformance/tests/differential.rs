//! The differential test for two minutes, with a fixed seed, and what it has found.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_conformance::differential::{Case, Coverage, Ways, check, families, run_one};

/// Multiply-adds of a case: plain evaluation is slow where it is not optimized.
const BUDGET: usize = 20_000_000;

/// Cases of each family.
const N_CASES: usize = 60;

/// The distance between the seeds of families, more than each has cases.
const SEEDS: usize = 1000;

/// Strategies of one kernel, which its variants name.
const STRATEGIES: [&str; 5] =
    ["conv_nchwc/", "winograd_4x3/", "winograd_4x5/", "nchwc_pool/", "nchwc_global_pool/"];

/// Cases that failed once: the graph, and the tolerance of each output.
const FOUND: &[(&str, &[f64])] = &[
    // Strips of a last, smaller NCHWc block were longer than the scratch.
    (
        "graph(x1: float[1,8,64,64], w2_s1: float[8,64,2,2]) -> (y) {
           y = ConvTranspose-11 [strides: [2, 2]] (x1, w2_s1)
         }",
        &[1e-5],
    ),
];

#[test]
fn every_configuration_agrees_with_plain_evaluation() {
    let (coverage, next, failed) =
        (Coverage::default(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let names = families();
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= N_CASES * names.len() {
                return;
            }
            // Each family has its own seeds, which do not change when a family is appended.
            let (family, round) = (i % names.len(), i / names.len());
            let seed = (family * SEEDS + round) as u64;
            let outcome = run_one(family, seed, BUDGET, &coverage);
            if let Err(failure) = &outcome.result {
                let mut report = format!("{}: {failure}\n{}", outcome.case.family, outcome.case);
                if let Some((case, failure)) = outcome.shrunk() {
                    report += &format!("\nreduced: {failure}\n{case}");
                }
                failed.lock().unwrap().push(report);
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    for (kernel, variant, n) in coverage.counts() {
        println!("{kernel} {variant}: {n} runs");
    }
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    assert_eq!(coverage.missing(), Vec::<&str>::new(), "kernels that never ran");
    let has_run =
        |strategy: &&&str| coverage.counts().iter().any(|(_, it, _)| it.starts_with(**strategy));
    let idle: Vec<_> = STRATEGIES.iter().filter(|it| !has_run(it)).collect();
    assert!(idle.is_empty(), "strategies that never ran: {idle:?}");
}

#[test]
fn past_failures_pass() {
    for (text, bounds) in FOUND {
        let result = check(&Case::new(text, bounds), Ways::All, &Coverage::default());
        result.unwrap_or_else(|failure| panic!("{failure}\n{text}"));
    }
}
