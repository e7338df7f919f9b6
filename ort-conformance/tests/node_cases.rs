//! Every node case of the ONNX standard, in every configuration; `fixtures/failing.txt` lists those that fail.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use ort_conformance::{Way, node_cases, run_data_set};
use ort_tensor_io::Tolerance;

/// The list, and the variable that rewrites it.
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/failing.txt");
const UPDATE: &str = "UPDATE_EXPECT";

/// One case: its files by their path within the case.
type Case = BTreeMap<String, Bytes>;

#[test]
fn exactly_the_listed_cases_fail() {
    let cases = cases();
    let mut found = BTreeMap::new();
    for way in Way::ALL {
        if !way.is_available() {
            eprintln!("skipped: this machine cannot run `{}`", way.name);
            continue;
        }
        for (name, message) in failures(&cases, way) {
            found.entry(name).or_insert_with(Vec::new).push((way.name, message));
        }
    }
    let listed = listed();
    let mut report = String::new();
    for (name, failures) in &found {
        let (way, message) = &failures[0];
        let all_ways = failures.len() == Way::ALL.iter().filter(|way| way.is_available()).count();
        match listed.get(name) {
            None => writeln!(report, "{name} fails ({way}): {message}").unwrap(),
            Some(_) if !all_ways => {
                let ways: Vec<_> = failures.iter().map(|(way, _)| *way).collect();
                writeln!(report, "{name} fails only with {}", ways.join(", ")).unwrap();
            }
            // The runtime's own message must be the listed one.
            Some(reason) if is_unsupported(message) && reason != message => {
                writeln!(report, "{name}: listed as `{reason}`, but fails with `{message}`")
                    .unwrap();
            }
            Some(_) => {}
        }
    }
    for name in listed.keys().filter(|name| !found.contains_key(*name)) {
        writeln!(report, "{name} passes now: it must leave the list").unwrap();
    }
    if std::env::var_os(UPDATE).is_some() {
        let reason = |name: &String, message: &String| match listed.get(name) {
            Some(reason) if !is_unsupported(message) && !is_unsupported(reason) => reason.clone(),
            _ => message.clone(),
        };
        let lines =
            found.iter().map(|(name, all)| format!("{name}: {}\n", reason(name, &all[0].1)));
        std::fs::write(LIST, lines.collect::<String>()).unwrap();
        return;
    }
    assert!(report.is_empty(), "{} of {} cases fail\n{report}", found.len(), cases.len());
}

/// A failure whose message is reason enough.
fn is_unsupported(message: &str) -> bool {
    message.contains(" not supported: ")
}

fn listed() -> BTreeMap<String, String> {
    let list = std::fs::read_to_string(LIST).unwrap_or_default();
    let split = |line: &str| line.split_once(": ").map(|(name, why)| (name.into(), why.into()));
    list.lines().filter_map(split).collect()
}

fn cases() -> BTreeMap<String, Case> {
    let files = node_cases::unpack(include_bytes!("../fixtures/node_cases.bin")).unwrap();
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for (path, bytes) in files {
        let (case, file) = path.split_once('/').unwrap();
        cases.entry(case.to_owned()).or_default().insert(file.to_owned(), bytes);
    }
    cases
}

/// The cases that fail, with the first line of the reason. Two threads share the work.
fn failures(cases: &BTreeMap<String, Case>, way: &Way) -> BTreeMap<String, String> {
    let cases: Vec<_> = cases.iter().collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some((name, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = std::panic::catch_unwind(|| run(case, way));
            let result = result.unwrap_or_else(|_| Err("panicked".to_owned()));
            if let Err(message) = result {
                let line = message.lines().next().unwrap_or_default().to_owned();
                failed.lock().unwrap().insert((*name).clone(), line);
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    failed.into_inner().unwrap()
}

fn run(case: &Case, way: &Way) -> Result<(), String> {
    let tolerance = case.get("tol.txt").map_or(Ok(Tolerance::default()), |text| {
        std::str::from_utf8(text).unwrap_or_default().trim().parse()
    });
    let tolerance = tolerance.map_err(|error| error.to_string())?;
    let session = way.session(case["model.ort"].clone())?;
    for set in 0.. {
        let prefix = format!("test_data_set_{set}/");
        let files: Vec<(PathBuf, Bytes)> = case
            .iter()
            .filter_map(|(path, bytes)| Some((path.strip_prefix(&prefix)?.into(), bytes.clone())))
            .collect();
        if files.is_empty() {
            return Ok(());
        }
        run_data_set(&session, files, tolerance)?;
    }
    Ok(())
}
