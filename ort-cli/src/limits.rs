//! What loading and runs may take, as options.

use std::time::Duration;

use clap::Args;
use ort_session::{LoadLimits, RunLimits, SessionBuilder};

use crate::run_options::seconds;

/// Limits of loading and of every run; of memory there is one without being asked, which follows the machine.
#[derive(Args, Clone, Debug)]
pub(crate) struct LimitOptions {
    /// How many nodes a model may have
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_nodes: Option<usize>,
    /// How deep graphs may lie within graphs
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_depth: Option<usize>,
    /// How many elements a constant may have, or another value of known shape
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_elements: Option<usize>,
    /// How many MiB constants may take beside the model's file [default: three quarters of the machine's]
    #[arg(long, value_name = "MIB", help_heading = "Limits")]
    max_load_mib: Option<usize>,
    /// How many seconds loading may take
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = "Limits")]
    max_load_time: Option<Duration>,
    /// How many MiB a run may take [default: three quarters of the machine's]
    #[arg(long, value_name = "MIB", help_heading = "Limits")]
    max_run_mib: Option<usize>,
    /// How many seconds a run may take
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true, help_heading = "Limits")]
    max_run_time: Option<Duration>,
    /// How often the loops of a run may go round together
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_iterations: Option<u64>,
}

impl LimitOptions {
    /// The same for a session.
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
