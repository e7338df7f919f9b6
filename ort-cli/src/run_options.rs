//! The options of runs that several commands share.

use std::time::Duration;

use clap::Args;
use ort_session::{RunLimits, RunOptions};

/// What is asked of a run.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunChoices {
    /// An output to compute, with as much of the model as it needs [default: all outputs]
    #[arg(long, value_name = "OUTPUT", help_heading = "Runs")]
    only: Vec<String>,
    /// How many seconds a run may take: one that takes longer is an error
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = "Runs")]
    timeout: Option<Duration>,
}

impl RunChoices {
    /// Whether it is all outputs.
    pub(crate) fn are_whole(&self) -> bool {
        self.only.is_empty()
    }

    /// The same for a session.
    pub(crate) fn options(&self) -> RunOptions {
        let limits = RunLimits { max_time: self.timeout, ..RunLimits::default() };
        let options = RunOptions::new().limits(limits);
        if self.are_whole() { options } else { options.outputs(&self.only) }
    }
}

/// Reads a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number of seconds, at most 86400".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if seconds <= 86_400.0 {
        Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
    } else {
        Err(wrong())
    }
}
