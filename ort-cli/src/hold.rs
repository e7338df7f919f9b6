//! Keeping a session alive for others to look at.

use std::io::{self, Read, Write};

use crate::failure::Failure;
use crate::print::line;

/// The line that says that the session is loaded and has run once. It is the same with `--json`.
pub(crate) const READY: &str = "SESSION_READY";

/// Says so, and waits until standard input ends.
pub(crate) fn until_input_ends() -> Result<(), Failure> {
    line(READY)?;
    io::stdout().flush().map_err(Failure::Print)?;
    let mut input = io::stdin().lock();
    let mut ignored = [0; 64];
    loop {
        match input.read(&mut ignored) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Wait(error)),
        }
    }
}
