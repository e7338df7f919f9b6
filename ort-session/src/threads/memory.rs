//! The memory that the machine has for this process, from which default limits are derived.
//!
//! Source: Linux, `Documentation/admin-guide/cgroup-v2.rst` (memory.max) and
//! `Documentation/admin-guide/cgroup-v1/memory.rst` (memory.limit_in_bytes), `proc_meminfo(5)`.

use std::path::Path;

use ort_tensor::within;

use super::quota::{of_groups, text};

/// Three quarters of the memory of the machine, or of the smallest control group of this process:
/// the default limit of loading and of each run. `None` where the system does not report it.
pub(crate) fn memory_share() -> Option<usize> {
    machine_bytes(Path::new("/")).map(|n_bytes| n_bytes / 4 * 3)
}

/// Calls `body`, which may allocate `most` bytes, by default this process's share.
pub(crate) fn within_share<R>(most: Option<usize>, body: impl FnOnce() -> R) -> R {
    let most = most.or_else(memory_share).unwrap_or(usize::MAX);
    within(most, most, body)
}

/// `root` is `/` outside tests.
fn machine_bytes(root: &Path) -> Option<usize> {
    let of_groups = of_groups(root, "memory", [v2, v1]);
    of_groups.into_iter().chain(total(root)).min()
}

/// `memory.max`: bytes, or `max`.
fn v2(folder: &Path) -> Option<usize> {
    text(&folder.join("memory.max"))?.trim().parse().ok()
}

/// `memory.limit_in_bytes`: bytes; without a limit, a number larger than any memory.
fn v1(folder: &Path) -> Option<usize> {
    text(&folder.join("memory.limit_in_bytes"))?.trim().parse().ok()
}

/// `MemTotal` of `/proc/meminfo`, in KiB.
fn total(root: &Path) -> Option<usize> {
    let text = text(&root.join("proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_group_or_the_machine_counts() {
        let total = "proc/meminfo=MemFree: 1 kB\nMemTotal:        4000 kB\n";
        let v2 = "proc/self/cgroup=0::/a/b\n";
        let v1 = "proc/self/cgroup=7:memory:/x\n";
        let cases: &[(&[&str], Option<usize>)] = &[
            (&[], None),
            (&[total], Some(4_096_000)),
            (&[total, v2, "sys/fs/cgroup/a/b/memory.max=max\n"], Some(4_096_000)),
            (
                &[total, v2, "sys/fs/cgroup/a/b/memory.max=max", "sys/fs/cgroup/a/memory.max=7\n"],
                Some(7),
            ),
            (&[v1, "sys/fs/cgroup/memory/x/memory.limit_in_bytes=99\n"], Some(99)),
            (
                &[total, v1, "sys/fs/cgroup/memory/memory.limit_in_bytes=9223372036854771712"],
                Some(4_096_000),
            ),
        ];
        for (files, expected) in cases {
            let root = tempfile::tempdir().unwrap();
            for file in *files {
                let (path, text) = file.split_once('=').unwrap();
                let path = root.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            assert_eq!(machine_bytes(root.path()), *expected, "{files:?}");
        }
        assert!(!cfg!(target_os = "linux") || memory_share().is_some_and(|n| n > 1 << 20));
    }
}
