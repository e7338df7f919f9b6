//! `cache`, and `--cache-dir` of other commands.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use ort_session::{CacheUse, Session, SessionBuilder, Tensor};

use crate::{folder, keys, model, ort_cli};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_cache_is_filled_used_listed_and_pruned() {
    let root = tempfile::tempdir().unwrap();
    let cache = text(root.path());
    let case = folder("magika");
    for _ in 0..2 {
        let called = ort_cli(["test", &case, "--cache-dir", cache]);
        assert_eq!(called.code, Some(0), "{called:?}");
        assert!(called.stderr.is_empty(), "{called:?}");
    }
    let called = ort_cli(["cache", "list", cache]);
    assert!(called.stdout.contains("model-") && called.stdout.contains("today"), "{called:?}");
    assert!(called.stdout.contains("1 file ·"), "{called:?}");
    let json = ort_cli(["cache", "list", cache, "--json"]).json();
    let expected = ["bytes", "current", "file", "model_sha256", "packed_for", "unused_seconds"];
    assert_eq!(keys(&json), expected);
    assert_eq!(json["model_sha256"].as_str().unwrap().len(), 64);

    for days in ["1", "18446744073709551615"] {
        let json = ort_cli(["cache", "prune", cache, "--json", "--used-within", days]).json();
        assert_eq!(keys(&json), ["bytes", "leftovers", "removed"]);
        assert_eq!(json["removed"].as_array().unwrap().len(), 0);
    }
    let called = ort_cli(["cache", "prune", cache, "--all"]);
    assert!(called.stdout.starts_with("removed 1 file of "), "{called:?}");
    let called = ort_cli(["cache", "list", text(&root.path().join("none"))]);
    assert_eq!(called.code, Some(1));
    assert!(called.stderr.contains("none: "), "{called:?}");
}

#[test]
fn a_packed_file_reports_a_mismatch() {
    let root = tempfile::tempdir().unwrap();
    let set = folder("magika") + "/test_data_set_0";
    for (pack, code) in [("--pack", Some(0)), ("--pack=replace", Some(1))] {
        let output = root.path().join("packed.ort");
        let arguments = ["--isa", "generic", "--json", pack, "-o", text(&output)];
        let model = model("magika");
        let json = ort_cli(["optimize", &model].into_iter().chain(arguments)).json();
        assert!(json["packed_bytes"].as_u64().unwrap() > 100_000, "{json}");
        assert_eq!(json["left_out_bytes"].as_u64().unwrap() > 100_000, code == Some(1), "{json}");
        // Saved again, it stays packed. Only the first knows how ONNX Runtime groups inputs by parameter; then the
        // file is the same.
        let [copy, again] = ["copy.ort", "again.ort"].map(|name| root.path().join(name));
        for (from, to) in [(&output, &copy), (&copy, &again)] {
            let arguments = ["optimize", text(from), "-o", text(to), "--isa", "generic", "--json"];
            let saved = ort_cli(arguments).json();
            assert_eq!(saved["packed_bytes"], json["packed_bytes"]);
        }
        assert!(fs::read(&copy).unwrap() == fs::read(&again).unwrap());
        let called = ort_cli(["run", text(&output), "--inputs", &set, "--isa", "generic"]);
        assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""));
        let other = ["--isa", "generic", "--level", "basic"];
        let called = ort_cli(["run", text(&output), "--inputs", &set].into_iter().chain(other));
        assert_eq!(called.code, code, "{called:?}");
        assert!(called.stderr.contains("packed for") || called.stderr.contains("are for `ort"));
        assert_eq!(called.stderr.lines().count(), 1, "{called:?}");
        let mut bytes = fs::read(&output).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&output, bytes).unwrap();
        let called = ort_cli(["run", text(&output), "--inputs", &set, "--isa", "generic"]);
        assert_eq!(called.code, Some(1));
        assert!(called.stderr.contains("the file is damaged"), "{called:?}");
    }
}

/// What a model computes, bit for bit.
fn results(session: &Session) -> Vec<u32> {
    let x: Vec<f32> = (0..3 * 48 * 192).map(|i| (i % 255) as f32 / 127.0 - 1.0).collect();
    let x = Tensor::from_slice(&[1, 3, 48, 192], &x).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    let y = outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
    y.iter().map(|y| y.to_bits()).collect()
}

#[test]
fn a_start_after_one_that_was_killed_works() {
    let root = tempfile::tempdir().unwrap();
    let (path, cache) = (model("ppocr_cls"), root.path().join("cache"));
    let session = |builder: SessionBuilder| builder.commit_from_file(&path).unwrap();
    let expected = results(&session(Session::builder().threads(1)));
    let set = folder("ppocr_cls") + "/test_data_set_0";
    let start = || {
        let arguments = ["run", &path, "--inputs", &set, "--threads", "1", "--cache-dir"];
        let program = env!("CARGO_BIN_EXE_ort-cli");
        let quiet = |command: &mut Command| command.stdout(Stdio::null()).spawn().unwrap();
        quiet(Command::new(program).args(arguments).arg(&cache))
    };
    let whole = Instant::now();
    assert!(start().wait().unwrap().success());
    let whole = whole.elapsed();
    let (mut n_unfinished, mut seed) = (0, 3_u32);
    for round in 0..200 {
        let _ = fs::remove_dir_all(&cache);
        let mut killed = start();
        // Somewhere between the start and a little after the end.
        seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
        std::thread::sleep(whole.mul_f64(f64::from(seed >> 16) / 60_000.0));
        killed.kill().unwrap();
        killed.wait().unwrap();
        let next = session(Session::builder().threads(1).cache_dir(&cache));
        assert_eq!(results(&next), expected, "round {round}");
        assert!(next.metadata().packing_warnings.is_empty(), "round {round}");
        n_unfinished += usize::from(next.metadata().cache == CacheUse::Made);
        let names = fs::read_dir(&cache).unwrap().flatten().map(|file| file.file_name());
        let leftovers = names.filter(|name| name.to_string_lossy().starts_with('.')).count();
        assert!(leftovers == 0 || next.metadata().cache == CacheUse::Found, "round {round}");
    }
    assert!((1..200).contains(&n_unfinished), "{n_unfinished} were killed before they finished");
}

/// A limit on file sizes fails a write as a full disk does.
#[cfg(unix)]
#[test]
fn a_full_disk_causes_a_warning() {
    let root = tempfile::tempdir().unwrap();
    let case = folder("magika");
    let program = env!("CARGO_BIN_EXE_ort-cli");
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" test \"$1\" --cache-dir \"$2\"";
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", script, program, &case]).arg(root.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.starts_with("warning: ") && stderr.lines().count() == 1, "{stderr}");
    assert!(stderr.contains("cannot be written: "), "{stderr}");
    let is_packed = |name: &str| name.ends_with(".packed.ort") || name.starts_with('.');
    let files = fs::read_dir(root.path()).unwrap().flatten();
    let left: Vec<_> = files.map(|file| file.file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| is_packed(name)), "{left:?}");
}

#[test]
fn a_session_that_waits_has_its_weights_in_the_cache() {
    let root = tempfile::tempdir().unwrap();
    let session = || {
        let builder = Session::builder().threads(1).cache_dir(root.path());
        builder.commit_from_file(model("magika")).unwrap()
    };
    drop(session());
    let memory = session().memory();
    assert_eq!((memory.packed_heap.n_bytes(), memory.copied_bytes()), (0, 0), "{memory:?}");
    assert!(
        memory.packed_mapped.n_bytes() + memory.weights_mapped.n_bytes() > 1 << 20,
        "{memory:?}"
    );
}
