//! Runs a target in a process of its own, and another one after a death.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::attack::{FINDINGS, PROGRESS, Plan};
use crate::targets::Target;
use crate::watch::HUNG;

/// After so many deaths a target ends.
const MAX_DEATHS: u64 = 20;

/// What the mutants of a target showed.
#[derive(Debug)]
pub(crate) struct Report {
    name: &'static str,
    n_mutants: u64,
    n_accepted: u64,
    seconds: f64,
    /// By kind: how often, the first seed, and the whole message.
    findings: BTreeMap<String, (u64, u64, String)>,
}

/// Runs all mutants of a plan.
pub(crate) fn run(target: &'static Target, plan: Plan) -> io::Result<Report> {
    let start = Instant::now();
    let mut report = Report {
        name: target.name,
        n_mutants: 0,
        n_accepted: 0,
        seconds: 0.0,
        findings: BTreeMap::new(),
    };
    for _ in 0..MAX_DEATHS {
        let rest = Plan {
            seed: plan.seed_of(report.n_mutants),
            count: plan.count - report.n_mutants,
            seconds: plan.seconds - start.elapsed().as_secs_f64(),
        };
        let is_over = rest.count == 0 || rest.seconds < 0.0 && report.n_mutants > 0;
        if is_over || !report.died(rest)? {
            break;
        }
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

impl Report {
    /// The number of kinds of findings.
    pub(crate) fn n_found(&self) -> usize {
        self.findings.len()
    }

    /// Runs a process, and returns whether it ended before its plan.
    fn died(&mut self, plan: Plan) -> io::Result<bool> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--target", self.name]).arg("--report").arg(folder.path());
        command.arg(format!("--seed={}", plan.seed)).arg(format!("--count={}", plan.count));
        command.arg(format!("--seconds={}", plan.seconds)).stdin(Stdio::null());
        // Files that a mutant writes disappear with the folder.
        command.current_dir(folder.path());
        if plan.count > 1 {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let status = command.status()?;
        let [n_mutants, n_accepted] = progress(folder.path());
        self.n_mutants += n_mutants;
        self.n_accepted += n_accepted;
        for line in fs::read_to_string(folder.path().join(FINDINGS))?.lines() {
            let mut parts = line.split('\t');
            let mut part = || parts.next().unwrap_or_default();
            self.note(part().parse().unwrap_or(0), part(), part());
        }
        if status.success() {
            return Ok(false);
        }
        // The mutant that ended the process counts as well.
        self.n_mutants += 1;
        if status.code() != Some(HUNG) {
            self.note(plan.seed_of(n_mutants), &format!("the process died: {status}"), "");
        }
        Ok(true)
    }

    fn note(&mut self, seed: u64, what: &str, label: &str) {
        let kind = what.chars().filter(|c| !c.is_ascii_digit()).take(100).collect();
        let found = self.findings.entry(kind);
        let of = if label.is_empty() { "" } else { "; of " };
        found.or_insert_with(|| (0, seed, format!("{what}{of}{label}"))).0 += 1;
    }
}

/// The numbers of mutants and of accepted ones.
fn progress(folder: &Path) -> [u64; 2] {
    let bytes = fs::read(folder.join(PROGRESS)).unwrap_or_default();
    let mut numbers = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    [(); 2].map(|()| numbers.next().unwrap_or(0))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, n_mutants, n_accepted, seconds, findings } = self;
        let n_whole = seconds.max(1e-3);
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let rate = *n_mutants as f64 / n_whole;
        let n_found = findings.len();
        write!(
            f,
            "{name}: {n_mutants} executions in {seconds:.0} s, {rate:.0}/s; {n_accepted} accepted, {n_found} findings"
        )?;
        for (n, seed, what) in findings.values() {
            write!(f, "\n  {n} times, --target {name} --seed {seed} --count 1: {what}")?;
        }
        Ok(())
    }
}
