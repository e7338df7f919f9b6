//! Panics of kernels become errors of the session.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of `body`, or the message of its panic. What it wrote to must be valid after a panic:
/// nothing, or memory whose contents are not read.
pub(crate) fn caught<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        text.unwrap_or("without a message").to_owned()
    })
}
