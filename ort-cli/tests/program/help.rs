//! Help, manual pages and completions: of every subcommand, and true.

use std::fs;
use std::path::Path;

use crate::{folder, model, ort_cli};

/// The words that call each subcommand, with those of its subcommands: `cache`, `cache list`.
fn subcommands() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let names = names_below(&path).into_iter().rev();
        open.extend(names.map(|name| [&path[..], &[name]].concat()));
        if !path.is_empty() {
            found.push(path);
        }
    }
    assert!(found.len() >= 13, "{found:?}");
    found
}

/// The subcommands that the help of one lists.
fn names_below(path: &[String]) -> Vec<String> {
    let help = help(path);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split(' ').nth(2));
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

fn help(path: &[String]) -> String {
    let called = ort_cli(path.iter().map(String::as_str).chain(["--help"]));
    assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""), "{path:?}");
    called.stdout
}

/// What follows `Examples:` in a subcommand's help.
fn examples(path: &[String]) -> Vec<String> {
    let help = help(path);
    let (_, examples) = help.split_once("\nExamples:\n").expect("examples");
    examples.lines().map(|line| line.trim_start().to_owned()).collect()
}

#[test]
fn the_help_of_each_subcommand_ends_with_two_examples_of_it() {
    for path in subcommands() {
        let examples = examples(&path);
        assert_eq!(examples.len(), 2, "{path:?}: {examples:?}");
        let call = format!("ort-cli {}", path.join(" "));
        assert!(examples[1].starts_with(&call), "{call}: {examples:?}");
        assert!(examples.iter().all(|example| example.starts_with("ort-cli ")), "{examples:?}");
    }
}

#[cfg(unix)]
#[test]
fn every_example_of_every_help_works() {
    use std::process::Command;

    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(folder(""), root.path().join("models")).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_ort-cli")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path)));
    let path = path.unwrap();
    for example in subcommands().iter().flat_map(|path| examples(path)) {
        // As a reader would: by a shell, where the models are.
        let mut shell = Command::new("sh");
        shell.args(["-ec", &example]).current_dir(&root).env("PATH", &path);
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{example}: {output:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.lines().all(|line| line.starts_with("note: ")), "{example}: {errors}");
    }
}

#[test]
fn each_subcommand_has_a_manual_page() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("share/man1");
    let called = ort_cli(["man", "--output", folder.to_str().unwrap()]);
    assert_eq!((called.code, called.stdout.as_str(), called.stderr.as_str()), (Some(0), "", ""));
    let subcommands = subcommands();
    for path in subcommands.iter().map(Vec::as_slice).chain([&[][..]]) {
        let name = [&["ort-cli".to_owned()], path].concat().join("-");
        let page = fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
        for section in [".TH", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"] {
            assert!(page.contains(section), "{name} has no {section}");
        }
        let printed = ort_cli(["man"].into_iter().chain(path.iter().map(String::as_str)));
        assert_eq!(printed.stdout, page, "{name}");
        let is_complete = path.is_empty() || page.contains("Examples:");
        assert!(is_complete && !page.contains("\\-held"), "{name}: {page}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), subcommands.len() + 1);
}

#[test]
fn a_missing_page_is_named() {
    for (path, message) in [
        (&["bnech"][..], "no subcommand `bnech`; did you mean `bench`?"),
        (&["cache", "weather"], "no subcommand `weather`; the subcommands are list, prune"),
        (&["run", "model"], "no subcommand `model`"),
    ] {
        let called = ort_cli(["man"].iter().chain(path));
        assert_eq!(
            (called.code, called.stderr.trim_end()),
            (Some(1), &*format!("error: {message}"))
        );
    }
}

#[test]
fn each_shell_has_completions_of_all_subcommands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let called = ort_cli(["completions", shell]);
        assert_eq!((called.code, called.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in subcommands().iter().flatten() {
            assert!(called.stdout.contains(word.as_str()), "{shell}: {word}");
        }
        assert!(called.stdout.contains("execution-mode"), "{shell}");
    }
    let called = ort_cli(["completions", "tcsh"]);
    assert_eq!(called.code, Some(2));
    assert!(called.stderr.contains("possible values: bash,"), "{}", called.stderr);
}

#[test]
fn the_help_and_the_readme_list_the_same_exit_codes() {
    let help = help(&[]);
    let (_, codes) = help.split_once("\nExit codes:\n").expect("exit codes");
    let codes: Vec<(&str, &str)> =
        codes.lines().map(|line| line.trim().split_once("  ").unwrap()).collect();
    let numbers: Vec<&str> = codes.iter().map(|(code, _)| *code).collect();
    assert_eq!(numbers, ["0", "1", "2", "3"]);
    let readme = fs::read_to_string(folder("../README.md")).unwrap();
    for (code, meaning) in codes {
        assert!(readme.contains(&format!("| {code} | {meaning} |")), "{code} {meaning}");
    }
}

#[test]
fn exit_codes_are_as_they_are_listed() {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let case = root.path().join("case");
    fs::create_dir(&case).unwrap();
    for name in ["model.ort", "tol.txt"] {
        fs::copy(format!("{}/{name}", folder("magika")), case.join(name)).unwrap();
    }
    let input = fs::read(format!("{}/test_data_set_0/input_0.pb", folder("magika"))).unwrap();
    file("case/test_data_set_0/input_0.pb", &input);
    let wrong = fs::read(format!("{}/test_data_set_0/output_0.pb", folder("silero_vad"))).unwrap();
    file("case/test_data_set_0/output_0.pb", &wrong);
    let (text, several) = (file("text.onnx", b"text"), file("several/text.onnx", b"text"));
    let several = Path::new(&several).parent().unwrap().to_str().unwrap();
    let out = root.path().join("out").to_str().unwrap().to_owned();
    let (magika, case) = (model("magika"), case.to_str().unwrap());
    for (arguments, code) in [
        (&["run", &magika][..], 0),
        (&["test", &folder("magika")], 0),
        (&["--help"], 0),
        (&["run", &text], 1),
        (&["test", case], 1),
        (&["convert", several, "-o", &out], 1),
        (&["run", &magika, "--weather"], 2),
        (&["compare", &magika, "--set-b", "weather"], 2),
        (&["compare", &magika, "--set-b", "provider=reference", "--rtol=0", "--atol=0"], 3),
    ] {
        let called = ort_cli(arguments.iter().copied());
        assert_eq!(called.code, Some(code), "{arguments:?}: {called:?}");
    }
}
