//! The options of runs that several commands share.

use std::time::Duration;

use clap::Args;
use ort_session::{RunLimits, RunOptions};

/// The options of a run.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunChoices {
    /// An output to compute; only the nodes that it needs run [default: all outputs]
    #[arg(long, value_name = "OUTPUT", help_heading = "Runs")]
    only: Vec<String>,
    /// The maximum time of a run in seconds; exceeding it is an error
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = "Runs")]
    timeout: Option<Duration>,
}

impl RunChoices {
    /// Whether all outputs are computed.
    pub(crate) fn are_whole(&self) -> bool {
        self.only.is_empty()
    }

    /// The same as a session takes it.
    pub(crate) fn options(&self) -> RunOptions {
        let limits = RunLimits { max_time: self.timeout, ..RunLimits::default() };
        let options = RunOptions::new().limits(limits);
        if self.are_whole() { options } else { options.outputs(&self.only) }
    }
}

/// Parses a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number of seconds, at most 86400".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if seconds <= 86_400.0 {
        Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
    } else {
        Err(wrong())
    }
}
