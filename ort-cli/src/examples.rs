//! How the help of each subcommand ends: with two examples, which the tests run.

/// The end of a subcommand's help, from the words behind the program's name.
macro_rules! examples {
    ($first:literal, $second:literal $(,)?) => {
        concat!("Examples:\n  ort-cli ", $first, "\n  ort-cli ", $second)
    };
}

pub(crate) use examples;
