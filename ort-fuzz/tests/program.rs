//! The program: what it reports, and that it repeats itself.

use std::process::{Command, Output};

fn fuzz(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ort-fuzz")).args(arguments).output().expect("the program runs")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("a report is text")
}

/// The report up to the time.
fn counts(output: &Output) -> Vec<String> {
    let text = text(output);
    text.lines().map(|line| line.split(" in ").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_target_runs_and_accepts_some_mutants() {
    let output = fuzz(&["--seed=7", "--count=60", "--seconds=1000"]);
    assert!(output.status.success(), "{}", text(&output));
    for line in text(&output).lines() {
        assert!(line.contains(": 60 executions in "), "{line}");
        assert!(line.ends_with(", 0 findings") && !line.contains("; 0 accepted"), "{line}");
    }
    assert!(counts(&output).len() > 6);
}

#[test]
fn panics_deaths_and_memory_are_found_with_the_seed_that_repeats_them() {
    let output = fuzz(&["--target=itself", "--seed=1", "--count=64", "--seconds=1000"]);
    let report = text(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.starts_with("itself: 64 executions in "), "{report}");
    for kind in ["a panic at ort-fuzz", "the process died", " MiB; of planted", "wrong; of planted"]
    {
        let line = report.lines().find(|line| line.contains(kind));
        let line = line.unwrap_or_else(|| panic!("no {kind} in {report}"));
        let seed = line.split_whitespace().nth(5).unwrap();
        let again = fuzz(&["--target=itself", "--seed", seed, "--count=1"]);
        assert!(text(&again).contains(kind), "{kind}: {}", text(&again));
    }
}
