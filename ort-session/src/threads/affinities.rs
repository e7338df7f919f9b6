//! The processors that each worker may run on.

// collects are bounded: by MAX_PROCESSORS

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

/// The highest number of a processor: the size of the system's mask.
const MAX_PROCESSORS: usize = 1024;

/// The processors that each worker of a run may run on; the calling thread is not affected.
///
/// As text, one group for each worker, separated by `;`. A group is a list of processors and ranges
/// of processors, counted from 1: `1;2` is two workers with one processor each, `1,3;5-8` one with two
/// and one with four. An empty string pins no threads.
///
/// Source: ONNX Runtime 1.31, the key `session.intra_op_thread_affinities`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affinities {
    /// The processors of each worker, from 1, ascending.
    groups: Arc<[Vec<usize>]>,
}

/// A malformed list of affinities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AffinityError {
    /// Something that is neither a processor nor a range.
    #[error(
        "`{text}` in group {group} is no processor and no range of them: expected numbers from 1 \
         to {MAX_PROCESSORS}, as in `1;2,3;5-8`"
    )]
    Form {
        /// The malformed part.
        text: String,
        /// The number of its group, from 1.
        group: usize,
    },
}

impl Affinities {
    /// The number of workers; 0 if no threads are pinned.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether no threads are pinned.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Pins the calling thread, the worker with this index, to its processors.
    pub(super) fn pin(&self, helper: usize) -> io::Result<()> {
        self.groups.get(helper).map_or(Ok(()), |processors| pin(processors))
    }
}

#[cfg(target_os = "linux")]
fn pin(processors: &[usize]) -> io::Result<()> {
    let mut mask = rustix::thread::CpuSet::new();
    processors.iter().for_each(|processor| mask.set(processor - 1));
    Ok(rustix::thread::sched_setaffinity(None, &mask)?)
}

#[cfg(not(target_os = "linux"))]
fn pin(_: &[usize]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl FromStr for Affinities {
    type Err = AffinityError;

    fn from_str(text: &str) -> Result<Self, AffinityError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let groups = text.split(';').zip(1..).map(|(group, index)| {
            let mut processors = Vec::new();
            for item in group.split(',').map(str::trim) {
                let error = || AffinityError::Form { text: item.to_owned(), group: index };
                let (first, last) = item.split_once('-').unwrap_or((item, item));
                let range = processor(first).zip(processor(last)).filter(|(a, b)| a <= b);
                let (first, last) = range.ok_or_else(error)?;
                processors.extend(first..=last);
            }
            processors.sort_unstable();
            processors.dedup();
            Ok(processors)
        });
        Ok(Self { groups: groups.collect::<Result<_, _>>()? })
    }
}

fn processor(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|n| (1..=MAX_PROCESSORS).contains(n))
}

/// The syntax that is parsed, without ranges.
impl fmt::Display for Affinities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = |processors: &Vec<usize>| {
            processors.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
        };
        f.write_str(&self.groups.iter().map(group).collect::<Vec<_>>().join(";"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_lists_of_processors_and_ranges() {
        for (text, expected, n_helpers) in [
            ("", "", 0),
            (" ", "", 0),
            ("1", "1", 1),
            ("1;2", "1;2", 2),
            ("3,1-2,2;5-8", "1,2,3;5,6,7,8", 2),
            (" 2 - 3 , 1 ; 1024 ", "1,2,3;1024", 2),
        ] {
            let affinities: Affinities = text.parse().unwrap();
            assert_eq!(affinities.to_string(), expected, "{text}");
            assert_eq!((affinities.len(), affinities.is_empty()), (n_helpers, n_helpers == 0));
        }
    }

    #[test]
    fn anything_else_is_an_error_that_names_the_part() {
        for (text, part, group) in [
            ("0", "0", 1),
            ("1;", "", 2),
            ("1;;2", "", 2),
            ("1,", "", 1),
            ("1;2,a", "a", 2),
            ("3-1", "3-1", 1),
            ("1-2-3", "1-2-3", 1),
            ("-1", "-1", 1),
            ("1025", "1025", 1),
            ("1-99999999999999999999", "1-99999999999999999999", 1),
            ("1.5", "1.5", 1),
        ] {
            let error = AffinityError::Form { text: part.to_owned(), group };
            assert_eq!(text.parse::<Affinities>(), Err(error), "{text}");
        }
    }
}
