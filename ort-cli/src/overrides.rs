//! `OPTION=VALUE` arguments: session options that override the common ones in one of two sessions.

use std::str::FromStr;

use clap::{Args, Command};

use crate::failure::Failure;
use crate::options::SessionOptions;
use crate::print::one_line;

/// A session option with its value, as written after `--`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Override(String);

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let this = Self(format!("--{text}"));
        match matches(std::slice::from_ref(&this)) {
            Ok(_) => Ok(this),
            Err(error) => {
                // Only the error and the suggestion of clap's message.
                let message = error.to_string();
                let (message, _) = message.split_once("\n\nUsage:").unwrap_or((&message, ""));
                Err(one_line(message.trim_start_matches("error: "), usize::MAX))
            }
        }
    }
}

fn matches(overrides: &[Override]) -> Result<clap::ArgMatches, clap::Error> {
    let command = SessionOptions::augment_args_for_update(Command::new("--set-b"));
    let command = command.no_binary_name(true).disable_help_flag(true);
    command.try_get_matches_from(overrides.iter().map(|it| &it.0))
}

impl SessionOptions {
    /// These options with overrides. A flag that is set stays set.
    pub(crate) fn with(&self, overrides: &[Override]) -> Result<Self, Failure> {
        let matches = matches(overrides).map_err(Failure::Usage)?;
        self.updated(&matches).map_err(Failure::Usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::session_options as options;

    #[test]
    fn overrides_replace_options() {
        for (arguments, overrides, expected) in [
            (&[][..], &["level=basic"][..], &["--level", "basic"][..]),
            (
                &["--level", "all", "--threads", "2"],
                &["level=basic"],
                &["--level", "basic", "--threads", "2"],
            ),
            (&["--populate"], &["threads=1"], &["--populate", "--threads", "1"]),
            (&["--spinning", "9"], &["no-spinning"], &["--no-spinning"]),
            (&["--no-spinning"], &["spinning=9"], &["--spinning", "9"]),
            (
                &["--disable", "A"],
                &["disable=B", "disable=C"],
                &["--disable", "B", "--disable", "C"],
            ),
            (&["--max-nodes", "1"], &["max-nodes=2"], &["--max-nodes", "2"]),
        ] {
            let overrides: Vec<Override> = overrides.iter().map(|it| it.parse().unwrap()).collect();
            let found = options(arguments).with(&overrides).unwrap();
            assert_eq!(format!("{found:?}"), format!("{:?}", options(expected)), "{arguments:?}");
        }
    }

    #[test]
    fn an_invalid_override_is_an_error_that_says_what_is_valid() {
        for (text, expected) in [
            ("level=most", "[possible values: disable, basic, extended, layout, all]"),
            ("levle=all", "a similar argument exists: '--level'"),
            ("threads=0", "expected a number from 1 to"),
            ("level", "a value is required for '--level <LEVEL>'"),
        ] {
            let error = text.parse::<Override>().unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        let both: Vec<Override> = ["level=all", "level=basic"].map(|it| it.parse().unwrap()).into();
        assert!(matches!(options(&[]).with(&both), Err(Failure::Usage(_))));
    }
}
