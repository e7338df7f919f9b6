//! Output on a terminal has colours and fits its width; other output does neither.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::{folder, model, ort_cli};

/// What the program prints on a terminal with this many columns.
fn on_terminal(columns: u16, variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let output = File::options().read(true).write(true).open(name).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ort-cli"));
    command.args(arguments).stdin(Stdio::null()).stdout(output).stderr(Stdio::null());
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
    let mut child = command.spawn().unwrap();
    // This closes the terminal's other end, so that reading ends with the program.
    drop(command);
    let (mut printed, mut terminal) = (Vec::new(), File::from(terminal));
    let mut bytes = [0; 4096];
    // The system reports the end as an error.
    while let Ok(n @ 1..) = terminal.read(&mut bytes) {
        printed.extend(&bytes[..n]);
    }
    assert!(child.wait().unwrap().success(), "{printed:?}");
    String::from_utf8(printed).unwrap().replace("\r\n", "\n")
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let model = model("magika");
    let arguments = ["inspect", model.as_str()];
    let plain = ort_cli(arguments).stdout;
    assert!(!plain.contains('\x1b'), "{plain}");
    let coloured = on_terminal(500, &[], &arguments);
    assert!(coloured.contains("\x1b[1m") && coloured.contains("\x1b[2m"), "{coloured}");
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert_eq!(on_terminal(500, &[variable], &arguments), plain, "{variable:?}");
    }
    assert_eq!(on_terminal(500, &[("NO_COLOR", "")], &arguments), coloured);
}

#[test]
fn tables_are_as_wide_as_the_terminal_and_cut_names_only() {
    let (model, data) = (model("ppocr_cls"), format!("{}/test_data_set_0", folder("ppocr_cls")));
    let arguments = ["bench", &model, "--inputs", &data, "--seconds", "0", "--nodes=1000"];
    let nodes = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.starts_with("  node"));
        lines.map(str::to_owned).collect()
    };
    let wide = nodes(&ort_cli(arguments).stdout);
    let longest = wide.iter().map(|line| line.chars().count()).max().unwrap();
    assert!(!wide.iter().any(|line| line.contains('…')), "{wide:?}");
    // More than the variation of times and rates from run to run.
    let columns = longest - 30;
    let narrow = nodes(&on_terminal(columns.try_into().unwrap(), &[("NO_COLOR", "1")], &arguments));
    assert_eq!(narrow.len(), wide.len());
    assert!(narrow.iter().all(|line| line.chars().count() <= columns), "{narrow:?}");
    assert!(narrow.iter().any(|line| line.contains('…')), "{narrow:?}");
}

#[test]
fn help_and_pictures_are_as_wide_as_the_terminal() {
    let help = on_terminal(60, &[("NO_COLOR", "1")], &["run", "--help"]);
    let is_example = |line: &&str| line.starts_with("  ort-cli ");
    let long: Vec<_> = help.lines().filter(|line| line.chars().count() > 60).collect();
    assert!(long.iter().all(is_example), "{long:?}");
    if !cfg!(target_os = "linux") {
        return println!("skipped: this system does not report the memory of processes");
    }
    let (model, data) = (model("silero_vad"), format!("{}/test_data_set_0", folder("silero_vad")));
    let mem = ["mem", &model, "--inputs", &data, "--processes", "2", "--picture", "-"];
    for columns in [50, 70] {
        let drawn = on_terminal(columns, &[], &mem);
        let together = drawn.lines().find(|line| line.starts_with("  together")).unwrap();
        assert!(together.contains("\x1b[38;5;247m▒"), "{together}");
        let plain = on_terminal(columns, &[("NO_COLOR", "1")], &mem);
        let (_, plain) = plain.split_once("\nResident memory: ").unwrap();
        let longest = plain.lines().skip(1).map(|line| line.chars().count()).max();
        assert!(longest.is_some_and(|n| n <= columns.into() && n + 4 >= columns.into()), "{plain}");
    }
}
