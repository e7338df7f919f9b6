//! The number of threads, and the reasons for it.

use std::fmt;
use std::path::Path;

use super::quota::{CpuQuota, cpu_quota};

/// The number of threads of a session, with all bounds that determine it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadCount {
    /// The number requested of the builder, or that of user-provided threads, which takes precedence.
    pub requested: Option<usize>,
    /// The resources of the machine for this process.
    pub machine: MachineThreads,
    /// The builder's upper bound if no number was requested.
    pub bound: Option<usize>,
}

impl ThreadCount {
    /// The count on the machine in its current state.
    pub(crate) fn now(requested: Option<usize>, bound: Option<usize>) -> Self {
        Self { requested, machine: MachineThreads::now(), bound }
    }

    /// The requested number, or else the smallest of the bounds; at least 1.
    pub fn n_threads(&self) -> usize {
        let by_default = || self.machine.n_threads().min(self.bound.unwrap_or(usize::MAX));
        self.requested.unwrap_or_else(by_default).max(1)
    }
}

/// `2 (affinity 2, quota none, cores 2, bound none)`.
impl fmt::Display for ThreadCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.n_threads())?;
        if let Some(requested) = self.requested {
            write!(f, "requested {requested}, ")?;
        }
        write!(f, "{}, bound ", self.machine)?;
        match self.bound {
            Some(n) => write!(f, "{n})"),
            None => f.write_str("none)"),
        }
    }
}

/// The number of threads that this process can use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineThreads {
    /// The number of processors in the affinity mask of the calling thread.
    pub affinity: usize,
    /// The smallest CPU quota of the process' control groups and their parents.
    pub quota: Option<CpuQuota>,
    /// The number of physical cores.
    pub cores: usize,
}

impl MachineThreads {
    /// The current state of the machine.
    pub fn now() -> Self {
        Self {
            affinity: affinity(),
            quota: cpu_quota(Path::new("/")),
            cores: num_cpus::get_physical().max(1),
        }
    }

    /// The smallest of the three; at least 1.
    pub fn n_threads(&self) -> usize {
        let quota = self.quota.as_ref().map_or(usize::MAX, CpuQuota::n_threads);
        self.affinity.min(quota).min(self.cores).max(1)
    }
}

/// `affinity 2, quota 1.5 in /sys/fs/cgroup/cpu.max, cores 2`.
impl fmt::Display for MachineThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "affinity {}, quota ", self.affinity)?;
        match &self.quota {
            Some(quota) => write!(f, "{quota}")?,
            None => f.write_str("none")?,
        }
        write!(f, ", cores {}", self.cores)
    }
}

/// The number of processors that the calling thread may run on.
fn affinity() -> usize {
    #[cfg(target_os = "linux")]
    if let Ok(mask) = rustix::thread::sched_getaffinity(None) {
        return usize::try_from(mask.count()).unwrap_or(usize::MAX).max(1);
    }
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(affinity: usize, quota: Option<u64>, cores: usize) -> MachineThreads {
        let file = "/sys/fs/cgroup/cpu.max".into();
        let quota = quota.map(|quota| CpuQuota { quota, period: 10, file });
        MachineThreads { affinity, quota, cores }
    }

    #[test]
    fn the_smallest_bound_counts_unless_a_number_is_requested() {
        for (requested, machine, bound, expected) in [
            (None, machine(4, None, 8), None, 4),
            (None, machine(4, None, 2), None, 2),
            (None, machine(4, Some(15), 8), None, 2),
            (None, machine(4, Some(1), 8), None, 1),
            (None, machine(4, Some(90), 8), Some(3), 3),
            (None, machine(4, None, 8), Some(9), 4),
            (None, machine(4, None, 8), Some(0), 1),
            (Some(6), machine(4, Some(10), 2), Some(1), 6),
            (Some(0), machine(4, None, 8), None, 1),
        ] {
            let count = ThreadCount { requested, machine, bound };
            assert_eq!(count.n_threads(), expected, "{count}");
        }
    }

    #[test]
    fn the_decision_names_every_bound() {
        let count =
            |requested, machine, bound| ThreadCount { requested, machine, bound }.to_string();
        assert_eq!(
            count(None, machine(2, None, 4), None),
            "2 (affinity 2, quota none, cores 4, bound none)"
        );
        assert_eq!(
            count(Some(3), machine(2, Some(15), 4), Some(1)),
            "3 (requested 3, affinity 2, quota 1.5 in /sys/fs/cgroup/cpu.max, cores 4, bound 1)"
        );
    }

    #[test]
    fn the_count_agrees_with_the_standard_library() {
        let now = MachineThreads::now();
        let allowed = std::thread::available_parallelism().map_or(1, usize::from);
        // The library rounds quotas down; this crate rounds up.
        assert!(now.affinity >= allowed && now.cores >= 1, "{now}");
        assert!((1..=now.affinity).contains(&now.n_threads()), "{now}");
    }
}
