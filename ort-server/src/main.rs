//! The program; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ort_server::main()
}
