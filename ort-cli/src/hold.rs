//! Keeps a session alive so that other tools can inspect the process.

use std::io::{self, Read, Write};

use crate::failure::Failure;
use crate::print::line;

/// Printed when the session is loaded and has run once, also with `--json`.
pub(crate) const READY: &str = "SESSION_READY";

/// Prints it, and waits until standard input ends.
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
