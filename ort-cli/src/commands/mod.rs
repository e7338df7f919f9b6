//! The commands, one per file.

pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod generate;
pub(crate) mod inspect;
pub(crate) mod man;
pub(crate) mod mem;
pub(crate) mod optimize;
mod planned;
pub(crate) mod profile;
pub(crate) mod run;
pub(crate) mod test;

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use ort_session::Session;

use crate::number;
use crate::options::SessionOptions;
use crate::terminal::bold;

/// On standard error, and only if that is a terminal.
fn progress_bar(n_steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}");
    let bar = ProgressBar::new(n_steps.try_into().unwrap_or(u64::MAX));
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// One line on what runs: `model.ort · 5.3 MiB · level all · avx512 · 2 threads`.
fn headline(path: &Path, session: &Session, options: &SessionOptions) -> String {
    format!("{} · {}", bold(path.display()), circumstances(session, options))
}

/// The headline without the model's name.
fn circumstances(session: &Session, options: &SessionOptions) -> String {
    format!(
        "{} · level {} · {} · {}",
        number::bytes(session.bytes().len()),
        options.level(),
        options.isa(),
        number::plural(session.n_threads(), "thread"),
    )
}
