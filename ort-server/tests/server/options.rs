//! The options, and their documentation.

use std::fs;

use clap::CommandFactory;
use ort_server::{Options, Parser};

#[test]
fn the_documentation_lists_every_option() {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/server.md")).unwrap();
    let (_, page) = page.split_once("\n## Options\n").unwrap();
    let command = Options::command();
    let options = command.get_arguments().filter_map(|argument| argument.get_long());
    let missing: Vec<_> =
        options.filter(|option| !page.contains(&format!("`--{option}"))).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn wrong_values_are_rejected() {
    for (arguments, expected) in [
        (&["--instances", "0"][..], "expected a number from 1 to 1024"),
        (&["--max-time", "1e300"], "expected seconds, at most a year"),
        (&["--max-time", "-1"], "expected seconds, at most a year"),
        (&["--config", "x"], "expected KEY=VALUE"),
        (&["--tls-cert", "cert.pem"], "--tls-key <FILE>"),
        (&["--max-batch", "0"], "expected a number from 1 on"),
    ] {
        let always = ["ort-server", "--model-repository", "models"];
        let error = Options::try_parse_from(always.iter().chain(arguments)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
