//! `OPTION=VALUE` arguments: session options that one of two sessions has in place of those of both.

use std::str::FromStr;

use clap::{Args, Command};

use crate::failure::Failure;
use crate::options::SessionOptions;
use crate::print::one_line;

/// A session option with its value, as one would write it behind `--`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Override(String);

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let this = Self(format!("--{text}"));
        match matches(std::slice::from_ref(&this)) {
            Ok(_) => Ok(this),
            Err(error) => {
                // Of a whole message what is wrong, and what was probably meant.
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
    /// These options with others in their place. A flag that is on stays on.
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
    fn overrides_stand_in_place_of_what_was_said() {
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
    fn what_is_no_session_option_is_an_error_that_says_what_is() {
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
