//! The program: its tasks and its exit codes. `.ci/run` uses the program that this test builds.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("the program runs")
}

#[test]
fn every_task_has_help() {
    let help = xtask(&["--help"]);
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).expect("help is text");
    for task in ["fmt", "tidy", "docs", "package", "soak", "fuzz"] {
        assert!(help.contains(&format!("\n  {task} ")), "{task} is not in {help}");
        assert!(xtask(&[task, "--help"]).status.success(), "{task}");
    }
}

#[test]
fn unknown_tasks_are_wrong_arguments() {
    let unknown = xtask(&["tidyy"]);
    assert_eq!(unknown.status.code(), Some(2));
    let error = String::from_utf8(unknown.stderr).expect("an error is text");
    assert!(error.contains("tidyy") && error.contains("'tidy'"), "{error}");
}
