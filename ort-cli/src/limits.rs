//! The limits of loading and runs, as options.

use std::time::Duration;

use clap::Args;
use ort_session::{LoadLimits, RunLimits, SessionBuilder};

use crate::run_options::seconds;

/// Limits of loading and of every run; by default, only memory is limited, to a share of the machine's.
#[derive(Args, Clone, Debug)]
pub(crate) struct LimitOptions {
    /// The maximum number of nodes
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_nodes: Option<usize>,
    /// The maximum nesting depth of subgraphs
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_depth: Option<usize>,
    /// The maximum number of elements of a constant or another value of known shape
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_elements: Option<usize>,
    /// The maximum MiB that loading takes, besides a mapped file [default: three quarters of the machine's memory]
    #[arg(long, value_name = "MIB", help_heading = "Limits")]
    max_load_mib: Option<usize>,
    /// The maximum loading time in seconds
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = "Limits")]
    max_load_time: Option<Duration>,
    /// The maximum MiB of a run [default: three quarters of the machine's memory]
    #[arg(long, value_name = "MIB", help_heading = "Limits")]
    max_run_mib: Option<usize>,
    /// The maximum time of a run in seconds
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = "Limits")]
    max_run_time: Option<Duration>,
    /// The maximum number of loop iterations in a run
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_iterations: Option<u64>,
}

impl LimitOptions {
    /// Sets them for a session.
    pub(crate) fn apply(&self, builder: SessionBuilder) -> SessionBuilder {
        let bytes = |mib: Option<usize>| mib.map(|mib| mib.saturating_mul(1 << 20));
        let loading = LoadLimits {
            max_nodes: self.max_nodes,
            max_depth: self.max_depth,
            max_elements: self.max_elements,
            max_bytes: bytes(self.max_load_mib),
            max_time: self.max_load_time,
        };
        let runs = RunLimits {
            max_bytes: bytes(self.max_run_mib),
            max_time: self.max_run_time,
            max_iterations: self.max_iterations,
        };
        builder.load_limits(loading).run_limits(runs)
    }
}
