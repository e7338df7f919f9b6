//! The memory that a run will use for its values, reported before it runs.

use ort_session::Activations;
use serde_json::{Value as Json, json};

use crate::number;

/// `activations 5.3 MiB in one arena (5.2 MiB live at once) · outputs 3.9 KiB`.
pub(crate) fn text(planned: &Activations) -> String {
    let more = match planned.n_dynamic() {
        0 => String::new(),
        n => format!(" · {} of data-dependent size", number::plural(n, "step")),
    };
    format!(
        "activations {} in one arena ({} live at once) · outputs {}{more}",
        number::bytes(planned.arena),
        number::bytes(planned.live),
        number::bytes(planned.outputs),
    )
}

/// The same as JSON, in bytes.
pub(crate) fn json(planned: &Activations) -> Json {
    json!({
        "arena": planned.arena,
        "live": planned.live,
        "outputs": planned.outputs,
        "dynamic_steps": planned.n_dynamic(),
    })
}
