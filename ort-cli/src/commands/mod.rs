//! The commands, one a file.

pub(crate) mod bench;
pub(crate) mod run;
pub(crate) mod test;

use std::path::Path;

use ort_session::Session;

use crate::number;
use crate::options::SessionOptions;

/// One line on what runs: `model.ort · 5.3 MiB · level all · avx512 · 2 threads`.
fn headline(path: &Path, session: &Session, options: &SessionOptions) -> String {
    let n_threads = session.n_threads();
    let threads = if n_threads == 1 { "thread" } else { "threads" };
    format!(
        "{} · {} · level {} · {} · {n_threads} {threads}",
        path.display(),
        number::bytes(session.bytes().len()),
        options.level(),
        options.isa(),
    )
}
