//! Exit codes. 0 and 1 are the system's success and failure, 2 is clap's.

/// `compare`: the outputs differ.
pub(crate) const DIFFERENT: u8 = 3;

/// Their section in the help of the program.
pub(crate) const HELP: &str = "Exit codes:
  0  success
  1  an error, or a case of `test` or a model of `convert` that failed
  2  wrong arguments
  3  `compare`: the outputs differ";
