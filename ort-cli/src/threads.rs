//! The number of threads in the environment.

use std::ffi::OsString;

use ort_session::{SessionBuilder, ThreadCount};

use crate::print;

/// The variable that programs with OpenMP read.
const NAME: &str = "OMP_NUM_THREADS";

/// The upper bound that the environment sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Omp(Option<usize>);

impl Omp {
    /// Reads the variable; a value that is not a number of threads is ignored with a warning.
    pub(crate) fn of_environment() -> Self {
        let value = std::env::var_os(NAME);
        Self::of_value(value.as_ref()).unwrap_or_else(|text| {
            let text = text.to_string_lossy();
            print::warning(&format!("{NAME}: `{text}` is not a number of threads, ignored"));
            Self(None)
        })
    }

    /// The first number of the list: that of the outermost level. Unset and empty are no bound.
    ///
    /// Source: OpenMP API 5.2, section 21.1.2.
    fn of_value(value: Option<&OsString>) -> Result<Self, &OsString> {
        let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(Self(None)) };
        let first = value.to_str().and_then(|text| text.split(',').next());
        let n_threads = first.and_then(|text| text.trim().parse().ok()).filter(|&n| n > 0);
        n_threads.map(|n| Self(Some(n))).ok_or(value)
    }

    /// The builder with this bound.
    pub(crate) fn bound(self, builder: SessionBuilder) -> SessionBuilder {
        match self.0 {
            Some(n_threads) => builder.max_threads(n_threads),
            None => builder,
        }
    }

    /// How many threads compute, and why: `threads: 2 (affinity 2, …, OMP_NUM_THREADS unset)`.
    pub(crate) fn decision(self, count: &ThreadCount) -> String {
        let requested = count.requested.map(|n| format!("requested {n}, ")).unwrap_or_default();
        let bound = self.0.map_or_else(|| "unset".to_owned(), |n| n.to_string());
        format!("threads: {} ({requested}{}, {NAME} {bound})", count.n_threads(), count.machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_the_variable_counts() {
        for (value, expected) in [
            ("", Some(None)),
            ("2", Some(Some(2))),
            (" 4 ", Some(Some(4))),
            ("3,2,1", Some(Some(3))),
            ("0", None),
            ("-1", None),
            ("two", None),
            (",2", None),
        ] {
            let value = OsString::from(value);
            let read = Omp::of_value(Some(&value)).ok();
            assert_eq!(read, expected.map(Omp), "{value:?}");
        }
        assert_eq!(Omp::of_value(None), Ok(Omp(None)));
    }
}
