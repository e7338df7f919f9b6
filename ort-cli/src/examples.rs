//! The two examples at the end of each subcommand's help. The tests run them.

/// The end of a subcommand's help; the arguments are what follows the program's name.
macro_rules! examples {
    ($first:literal, $second:literal $(,)?) => {
        concat!("Examples:\n  ort-cli ", $first, "\n  ort-cli ", $second)
    };
}

pub(crate) use examples;
