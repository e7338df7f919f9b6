//! `cache`: lists and removes the packed files in a `--cache-dir` folder.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use ort_session::{Cache, CacheEntry, Retention};
use serde_json::{Value as Json, json};

use crate::examples::examples;
use crate::failure::Failure;
use crate::number::{self, plural};
use crate::print::line;
use crate::table::{Flush, Table};

/// List or remove the packed files in a --cache-dir folder
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "run models/magika/model.ort --cache-dir cache",
    "cache list cache",
))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the packed files, most recently used first
    #[command(after_help = examples!("cache list cache", "cache list cache --json"))]
    List {
        /// The folder
        folder: PathBuf,
        /// Print one JSON object per file
        #[arg(long)]
        json: bool,
    },
    /// Remove files that no session can use, and those beyond the limits below
    #[command(after_help = examples!(
        "cache prune cache --max-mib 100 --used-within 30",
        "cache prune cache --all",
    ))]
    Prune {
        /// The folder
        folder: PathBuf,
        /// Keep at most this many MiB in total, the most recently used files
        #[arg(long, value_name = "MIB")]
        max_mib: Option<u64>,
        /// Keep only files used within this many days
        #[arg(long, value_name = "DAYS")]
        used_within: Option<u64>,
        /// Remove all files
        #[arg(long, conflicts_with_all = ["max_mib", "used_within"])]
        all: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.action {
        Action::List { folder, json } => list(folder, *json),
        Action::Prune { folder, max_mib, used_within, all, json } => {
            let max_mib = if *all { Some(0) } else { *max_mib };
            let keep = Retention {
                max_bytes: max_mib.map(|n| n.saturating_mul(1 << 20)),
                used_within: used_within.map(days),
            };
            prune(folder, keep, *json)
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

/// A number of days, of any size.
fn days(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(24 * 60 * 60))
}

fn list(folder: &PathBuf, json: bool) -> Result<(), Failure> {
    let entries = Cache::new(folder).entries();
    let entries = entries.map_err(|source| Failure::Cache { path: folder.clone(), source })?;
    if json {
        return entries.iter().try_for_each(|entry| line(to_json(entry)));
    }
    let mut table = Table::new([
        ("file", Flush::Left),
        ("size", Flush::Right),
        ("used", Flush::Right),
        ("packed for", Flush::Left),
    ]);
    for entry in &entries {
        let name = entry.path.file_name().unwrap_or_default().to_string_lossy();
        let packed_for = entry.packed_for.as_deref().unwrap_or("damaged");
        let days = age(entry).as_secs() / (24 * 60 * 60);
        table.row([
            name.into_owned(),
            number::bytes(usize::try_from(entry.n_bytes).unwrap_or(usize::MAX)),
            if days == 0 { "today".to_owned() } else { plural_days(days) },
            packed_for.to_owned(),
        ]);
    }
    let n_bytes: u64 = entries.iter().map(|entry| entry.n_bytes).sum();
    let n_bytes = number::bytes(usize::try_from(n_bytes).unwrap_or(usize::MAX));
    line(format!("{table}\n  {} · {n_bytes}", plural(entries.len(), "file")))
}

fn prune(folder: &PathBuf, keep: Retention, json: bool) -> Result<(), Failure> {
    let pruned = Cache::new(folder).prune(keep);
    let pruned = pruned.map_err(|source| Failure::Cache { path: folder.clone(), source })?;
    if json {
        return line(json!({
            "removed": pruned.removed.iter().map(to_json).collect::<Json>(),
            "bytes": pruned.n_bytes,
            "leftovers": pruned.n_leftovers,
        }));
    }
    line(format!(
        "removed {} of {} and {}",
        plural(pruned.removed.len(), "file"),
        number::bytes(usize::try_from(pruned.n_bytes).unwrap_or(usize::MAX)),
        plural(pruned.n_leftovers, "leftover"),
    ))
}

fn to_json(entry: &CacheEntry) -> Json {
    json!({
        "file": entry.path.to_string_lossy(),
        "bytes": entry.n_bytes,
        "model_sha256": entry.of,
        "packed_for": entry.packed_for,
        "current": entry.is_current,
        "unused_seconds": age(entry).as_secs(),
    })
}

fn age(entry: &CacheEntry) -> Duration {
    SystemTime::now().duration_since(entry.last_used).unwrap_or_default()
}

fn plural_days(days: u64) -> String {
    plural(usize::try_from(days).unwrap_or(usize::MAX), "day")
}
