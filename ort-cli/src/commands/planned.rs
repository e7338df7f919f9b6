//! What a run will take for its values, told before it runs.

use ort_session::Activations;
use serde_json::{Value as Json, json};

use crate::number;

/// `activations 5.3 MiB in one block (5.2 MiB live at once) · outputs 3.9 KiB`.
pub(crate) fn text(planned: &Activations) -> String {
    let more = match planned.n_dynamic() {
        0 => String::new(),
        n => format!(" · {} of a size that only the run tells", number::plural(n, "step")),
    };
    format!(
        "activations {} in one block ({} live at once) · outputs {}{more}",
        number::bytes(planned.arena),
        number::bytes(planned.live),
        number::bytes(planned.outputs),
    )
}

/// The same for a machine to read, in bytes.
pub(crate) fn json(planned: &Activations) -> Json {
    json!({
        "arena": planned.arena,
        "live": planned.live,
        "outputs": planned.outputs,
        "dynamic_steps": planned.n_dynamic(),
    })
}
