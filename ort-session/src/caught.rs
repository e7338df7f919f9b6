//! Panics of kernels, which are errors to a session.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `body` returns, or what its panic said. Whatever it wrote to is to be as good after a panic
/// as before: nothing, or memory whose contents nobody relies on.
pub(crate) fn caught<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        text.unwrap_or("without a message").to_owned()
    })
}
