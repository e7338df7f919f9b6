//! The CPU quotas of this process' control groups.
//!
//! Source: Linux, `Documentation/admin-guide/cgroup-v2.rst` (cpu.max) and
//! `Documentation/scheduler/sched-bwc.rst` (cpu.cfs_quota_us), `cgroups(7)` (`/proc/self/cgroup`).

// collects are bounded: by the groups that the system lists

use std::cmp::Ordering;
use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The CPU quota of a control group, and the file that defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuQuota {
    /// Microseconds of processor time in each period, at least 1.
    pub quota: u64,
    /// Microseconds of a period, at least 1.
    pub period: u64,
    /// The file of the quota.
    pub file: PathBuf,
}

impl CpuQuota {
    /// ⌈quota ∕ period⌉: one and a half processors are useful for two threads.
    pub fn n_threads(&self) -> usize {
        usize::try_from(self.quota.div_ceil(self.period)).unwrap_or(usize::MAX)
    }

    fn cmp_share(&self, other: &Self) -> Ordering {
        let product = |a, b| u128::from(a) * u128::from(b);
        product(self.quota, other.period).cmp(&product(other.quota, self.period))
    }
}

impl fmt::Display for CpuQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.quota as f64 / self.period as f64;
        write!(f, "{} in {}", (share * 100.0).round() / 100.0, self.file.display())
    }
}

/// The smallest quota of this process' groups and all their parents; `root` is `/` outside tests.
/// `None` if no visible group has one.
pub(super) fn cpu_quota(root: &Path) -> Option<CpuQuota> {
    of_groups(root, "cpu", [v2, v1]).into_iter().min_by(CpuQuota::cmp_share)
}

/// Functions that read a group's limit in a hierarchy of version 2, and of version 1.
type Readers<T> = [fn(&Path) -> Option<T>; 2];

/// All limits of this process' groups and their parents that `readers` find.
pub(super) fn of_groups<T>(root: &Path, controller: &str, readers: Readers<T>) -> Vec<T> {
    let groups = text(&root.join("proc/self/cgroup")).unwrap_or_default();
    let places = groups.lines().filter_map(|line| Place::of_line(line, controller, readers));
    places.flat_map(|place| place.limits(root)).collect()
}

/// The position of a process in a hierarchy of groups.
struct Place<T> {
    /// Possible mount points of the hierarchy.
    mounts: Vec<String>,
    /// The group in it.
    group: PathBuf,
    read: fn(&Path) -> Option<T>,
}

impl<T> Place<T> {
    /// Parses `number:controllers:path`; version 2 names no controllers.
    fn of_line(line: &str, controller: &str, [v2, v1]: Readers<T>) -> Option<Self> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (mounts, read) = match controllers {
            "" => (["sys/fs/cgroup", "sys/fs/cgroup/unified"].map(str::to_owned), v2),
            list if list.split(',').any(|name| name == controller) => {
                ([list, controller].map(|name| format!("sys/fs/cgroup/{name}")), v1)
            }
            _ => return None,
        };
        let path = Path::new(path.trim_start_matches('/'));
        // A group above the root that this process sees is visible as the root.
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        let group = if is_below { path.to_owned() } else { PathBuf::new() };
        Some(Self { mounts: mounts.into(), group, read })
    }

    /// The limits of the group and its parents. In a container the path may be that of the
    /// host, of which only the last part is visible: the root.
    fn limits(self, root: &Path) -> Vec<T> {
        let folders = self.mounts.iter().flat_map(|mount| {
            let mount = root.join(mount);
            self.group.ancestors().map(move |group| mount.join(group))
        });
        folders.filter_map(|folder| (self.read)(&folder)).collect()
    }
}

/// `cpu.max`: the quota or `max`, and the period, by default 100 ms.
fn v2(folder: &Path) -> Option<CpuQuota> {
    let file = folder.join("cpu.max");
    let text = text(&file)?;
    let mut words = text.split_whitespace();
    let quota = words.next()?;
    quota_of(quota, words.next().unwrap_or("100000"), file)
}

/// `cpu.cfs_quota_us`, -1 for none, and `cpu.cfs_period_us`.
fn v1(folder: &Path) -> Option<CpuQuota> {
    let file = folder.join("cpu.cfs_quota_us");
    quota_of(&text(&file)?, &text(&folder.join("cpu.cfs_period_us"))?, file)
}

fn quota_of(quota: &str, period: &str, file: PathBuf) -> Option<CpuQuota> {
    let number = |text: &str| text.trim().parse().ok().filter(|&n: &u64| n > 0);
    Some(CpuQuota { quota: number(quota)?, period: number(period)?, file })
}

pub(super) fn text(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quota defined by these files, and its file; each is `path=text`.
    fn read(files: &[&str]) -> Option<(u64, u64, usize, String)> {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let (path, text) = file.split_once('=').unwrap();
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let quota = cpu_quota(root.path())?;
        let file = quota.file.strip_prefix(root.path().join("sys/fs/cgroup")).unwrap();
        let file = file.to_str().unwrap().to_owned();
        Some((quota.quota, quota.period, quota.n_threads(), file))
    }

    #[test]
    fn the_smallest_quota_of_the_group_and_those_above_counts() {
        let some = |quota, period, n, file: &str| Some((quota, period, n, file.to_owned()));
        let v2 = "proc/self/cgroup=0::/a/b\n";
        let v1 = "proc/self/cgroup=3:cpuset:/\n2:cpu,cpuacct:/docker/x\n0::/\n";
        let period = "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us=100000\n";
        let cases: &[(&[&str], _)] = &[
            (&[], None),
            (&[v2], None),
            (&[v2, "sys/fs/cgroup/a/b/cpu.max=max 100000\n"], None),
            (
                &[v2, "sys/fs/cgroup/a/b/cpu.max=150000 100000\n"],
                some(150_000, 100_000, 2, "a/b/cpu.max"),
            ),
            (&[v2, "sys/fs/cgroup/a/b/cpu.max=1000"], some(1000, 100_000, 1, "a/b/cpu.max")),
            // A parent's share is smaller, though its numbers are larger.
            (
                &[
                    v2,
                    "sys/fs/cgroup/a/b/cpu.max=40000 10000\n",
                    "sys/fs/cgroup/a/cpu.max=200000 100000\n",
                ],
                some(200_000, 100_000, 2, "a/cpu.max"),
            ),
            (
                &[v2, "sys/fs/cgroup/unified/a/cpu.max=300000 100000"],
                some(300_000, 100_000, 3, "unified/a/cpu.max"),
            ),
            // A container only sees its own group, under the host's path.
            (
                &[v1, period, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us=200000\n"],
                some(200_000, 100_000, 2, "cpu,cpuacct/cpu.cfs_quota_us"),
            ),
            (&[v1, period, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us=-1\n"], None),
            (
                &[
                    "proc/self/cgroup=0::/../..\n",
                    "sys/fs/cgroup/cpu.max=100000 100000\n",
                    "sys/cpu.max=1 100000\n",
                ],
                some(100_000, 100_000, 1, "cpu.max"),
            ),
        ];
        for (files, expected) in cases {
            assert_eq!(read(files), *expected, "{files:?}");
        }
    }

    #[test]
    fn any_text_is_parsed_without_panic() {
        let group = "proc/self/cgroup=0::/a\n1:cpu:\n:::\n\n9\n";
        for text in
            ["", " ", "0 0", "1 0", "0 1", "-5 10", "max max", "9e9 1", "99999999999999999999 1"]
        {
            let files = ["a/cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"];
            let files = files.map(|file| format!("sys/fs/cgroup/{file}={text}"));
            assert_eq!(read(&[group, &files[0], &files[1], &files[2]]), None, "{text}");
        }
        let largest = format!("sys/fs/cgroup/a/cpu.max={} 1", u64::MAX);
        assert_eq!(read(&[group, &largest]).map(|(quota, ..)| quota), Some(u64::MAX));
    }
}
