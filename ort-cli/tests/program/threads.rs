//! How many threads compute, and why.

use std::process::Command;

use crate::{folder, model, ort_cli};

const OMP: &str = "OMP_NUM_THREADS";

/// The line on threads that a run with these arguments and this variable prints.
fn decision(start: &[&str], more: &[&str], omp: Option<&str>) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_ort-cli");
    let (model, data) = (model("silero_vad"), format!("{}/test_data_set_0", folder("silero_vad")));
    let call = [program, "run", &model, "--inputs", &data, "--verbose"];
    let words = [start, &call, more].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_remove(OMP);
    omp.map(|value| command.env(OMP, value));
    // The system lacks the program that starts it.
    let output = command.output().ok()?;
    let stderr = String::from_utf8(output.stderr).expect("text");
    let line = stderr.lines().find_map(|line| line.strip_prefix("threads: "));
    assert!(output.status.success() && line.is_some(), "{stderr}");
    line.map(str::to_owned)
}

#[test]
fn the_decision_names_every_bound() {
    let line = decision(&[], &[], None).expect("it starts");
    for part in ["(affinity ", ", quota ", ", cores ", ", OMP_NUM_THREADS unset)"] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn the_variable_bounds_the_default_and_an_option_wins() {
    for (more, omp, starts, ends) in [
        (&[][..], "1", "1 (affinity ", "OMP_NUM_THREADS 1)"),
        (&["--threads", "2"], "1", "2 (requested 2, ", "OMP_NUM_THREADS 1)"),
        (&["--threads", "1"], "1,8", "1 (requested 1, ", "OMP_NUM_THREADS 1)"),
        (&["--threads", "1"], "many", "1 (requested 1, ", "OMP_NUM_THREADS unset)"),
    ] {
        let line = decision(&[], more, Some(omp)).expect("it starts");
        assert!(line.starts_with(starts) && line.ends_with(ends), "{line}");
    }
}

/// The first processor that this process may use.
#[cfg(target_os = "linux")]
fn first_processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.expect("a list").trim();
    list.split(|c: char| !c.is_ascii_digit()).next().expect("a number").to_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn one_allowed_processor_is_one_thread() {
    let processor = first_processor();
    if let Some(line) = decision(&["taskset", "-c", &processor], &[], None) {
        assert!(line.starts_with("1 (affinity 1, "), "{line}");
    }
}

/// A control group for this test, with half a processor in each period; removed on drop.
#[cfg(target_os = "linux")]
struct HalfProcessor(std::path::PathBuf);

#[cfg(target_os = "linux")]
impl HalfProcessor {
    /// In the first hierarchy that lets this process create one, which usually requires root.
    fn new() -> Option<Self> {
        let in_hierarchy = |(root, files): &(&str, &[(&str, &str)])| {
            let group = std::path::Path::new(root).join(format!("ort-{}", std::process::id()));
            std::fs::create_dir(&group).ok()?;
            let group = Self(group);
            for (file, text) in *files {
                std::fs::write(group.0.join(file), text).ok()?;
            }
            group.0.join("cgroup.procs").exists().then_some(group)
        };
        let version_1: &[_] = &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "50000")];
        let version_2: &[_] = &[("cpu.max", "50000 100000")];
        let hierarchies = [
            ("/sys/fs/cgroup/cpu,cpuacct", version_1),
            ("/sys/fs/cgroup/cpu", version_1),
            ("/sys/fs/cgroup", version_2),
            ("/sys/fs/cgroup/unified", version_2),
        ];
        // A folder that is not a hierarchy would accept any file.
        let is_one = |root: &str| std::path::Path::new(root).join("cgroup.procs").exists();
        hierarchies.iter().filter(|(root, _)| is_one(root)).find_map(in_hierarchy)
    }
}

#[cfg(target_os = "linux")]
impl Drop for HalfProcessor {
    fn drop(&mut self) {
        // Its processes have exited; a group that remains is harmless.
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The tests of ort-session simulate these files; this one is created by the system. Most users may
/// not create one: the test then does nothing.
#[cfg(target_os = "linux")]
#[test]
fn half_a_processor_is_one_thread() {
    let Some(group) = HalfProcessor::new() else { return };
    let procs = group.0.join("cgroup.procs");
    let enter = format!("echo $$ > {} && exec \"$@\"", procs.display());
    let line = decision(&["sh", "-c", &enter, "sh"], &[], None).expect("there is a shell");
    assert!(line.starts_with("1 (affinity ") && line.contains(", quota 0.5 in "), "{line}");
}

#[test]
fn each_worker_needs_its_processors() {
    let called = |threads, list| {
        let model = model("magika");
        ort_cli(["run", &model, "--json", "--threads", threads, "--affinities", list])
    };
    assert_eq!(called("1", "").code, Some(0));
    let wrong = called("2", "1;1");
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("affinities are for 2 threads besides the caller"), "{wrong:?}");
    let none = called("2", "0");
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("`0` in group 1 is no processor"), "{none:?}");
}

#[test]
fn modes_and_spinning_do_not_change_results() {
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    let outputs = |more: &[&str]| {
        let model = model("silero_vad");
        let call = [&["run", &model, "--inputs", &data, "--json", "--threads", "2"], more].concat();
        ort_cli(call).json()["outputs"].clone()
    };
    let expected = outputs(&[]);
    for more in [
        &["--execution-mode", "parallel"][..],
        &["--execution-mode", "parallel", "--inter-op-threads", "3"],
        &["--no-spinning"],
        &["--spinning", "50"],
    ] {
        assert_eq!(outputs(more), expected, "{more:?}");
    }
    let both = ort_cli(["run", &model("magika"), "--spinning", "5", "--no-spinning"]);
    assert_eq!(both.code, Some(2), "{both:?}");
}
