//! Keys about memory of runs, and about what is told of a session.

use super::key::Values::{Choices, Flag, Number, Text};
use super::key::{ANY_FLAG, ANY_NUMBER, Choice, ConfigKey, acts, idle};
use crate::builder::SessionBuilder;
use crate::log::Severity;
use crate::profile::Profiling;
use crate::run_memory::Arena;

const SEVERITIES: &[Choice] = &[
    ("-1", |b| b.log.choice.severity = None),
    ("0", |b| b.log.choice.severity = Some(Severity::Verbose)),
    ("1", |b| b.log.choice.severity = Some(Severity::Info)),
    ("2", |b| b.log.choice.severity = Some(Severity::Warning)),
    ("3", |b| b.log.choice.severity = Some(Severity::Error)),
    ("4", |b| b.log.choice.severity = Some(Severity::Fatal)),
];

pub(super) const KEYS: &[ConfigKey] = &[
    acts(
        "session.enable_cpu_mem_arena",
        "as it pays",
        Flag(|b, is_on| keep(b, 0, is_on)),
        "0 gives the memory of every run back when it is over (`Arena::Off`), 1 keeps it until the \
         session is dropped (`Arena::Keep`). By default it is kept while runs need it \
         (`Arena::Shrink`); ONNX Runtime's is 1.",
    )
    .method("arena")
    .flag("--arena"),
    acts(
        "session.enable_mem_pattern",
        "1",
        Flag(|b, is_on| keep(b, 1, is_on)),
        "0 says that shapes vary, and is as good as `Arena::Shrink`. A run's memory is one planned \
         block anyway, and the plan of one signature of shapes costs another nothing.",
    )
    .method("arena")
    .flag("--arena shrink"),
    idle(
        "session.dynamic_block_base",
        "0",
        ANY_NUMBER,
        "Work is cut into parts by what it costs, and threads take the next part when they are done.",
    ),
    idle(
        "session.use_device_allocator_for_initializers",
        "0",
        ANY_FLAG,
        "Constants never stand in the memory of runs.",
    ),
    idle(
        "session.use_env_allocators",
        "0",
        ANY_FLAG,
        "There is no environment that sessions share allocators by.",
    ),
    acts(
        "session.enable_profiling",
        "nothing",
        Text("the start of a file's path", |b, prefix| {
            let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
            b.profiling = prefix.map_or(Profiling::Off, |prefix| Profiling::Write(prefix.into()));
        }),
        "Where the session's time goes, into a file that is named so and by the time. It is written \
         by `Session::end_profiling`, or when the session is dropped. Nothing profiles nothing.",
    )
    .method("enable_profiling"),
    acts(
        "session.log_severity_level",
        "-1",
        Choices(SEVERITIES),
        "The least severity of events that the session emits through `tracing`: 0 verbose, 1 info, 2 \
         warning, 3 error, 4 fatal. −1 emits all, since whoever subscribes chooses as well; in ONNX \
         Runtime it is the environment's, warning unless that says otherwise.",
    )
    .method("log_severity"),
    acts(
        "session.log_verbosity_level",
        "1",
        Number(0, i32::MAX as u64, |b, n| b.log.choice.verbosity = u32::try_from(n).ok()),
        "How detailed verbose events are at most: from 1 on, each pass of the optimizer is told of. \
         ONNX Runtime's default is 0.",
    )
    .method("log_verbosity"),
    acts(
        "session.log_id",
        "nothing",
        Text("any text", |b, id| b.log.id = Some(id.into()).filter(|_| !id.is_empty())),
        "What events call the session, in their field `session`.",
    )
    .method("log_id"),
];

/// What ONNX Runtime's two switches mean: without its arena it keeps nothing; without patterns it is
/// told that shapes vary; and whoever writes down that there is an arena wants it kept.
fn keep(builder: &mut SessionBuilder, switch: usize, is_on: bool) {
    builder.arena_keys[switch] = Some(is_on);
    builder.arena = match builder.arena_keys {
        [Some(false), _] => Arena::Off,
        [_, Some(false)] => Arena::Shrink,
        [Some(true), _] => Arena::Keep,
        [None, _] => Arena::default(),
    };
}
