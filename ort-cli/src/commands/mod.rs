//! The commands, one a file.

pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod inspect;
pub(crate) mod mem;
pub(crate) mod optimize;
mod planned;
pub(crate) mod profile;
pub(crate) mod run;
pub(crate) mod test;

use std::path::Path;

use ort_session::Session;

use crate::number;
use crate::options::SessionOptions;
use crate::print::bold;

/// One line on what runs: `model.ort · 5.3 MiB · level all · avx512 · 2 threads`.
fn headline(path: &Path, session: &Session, options: &SessionOptions) -> String {
    format!("{} · {}", bold(path.display()), circumstances(session, options))
}

/// What follows the model's name in it.
fn circumstances(session: &Session, options: &SessionOptions) -> String {
    format!(
        "{} · level {} · {} · {}",
        number::bytes(session.bytes().len()),
        options.level(),
        options.isa(),
        number::plural(session.n_threads(), "thread"),
    )
}
