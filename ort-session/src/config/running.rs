//! Keys for the memory of runs, and for events and traces.

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
        "while needed",
        Flag(|b, is_on| keep(b, 0, is_on)),
        "0 releases the memory of every run at its end (`Arena::Off`), 1 retains it until the \
         session is dropped (`Arena::Keep`). By default it is retained while runs need it \
         (`Arena::Shrink`); ONNX Runtime's default is 1.",
    )
    .method("arena")
    .flag("--arena"),
    acts(
        "session.enable_mem_pattern",
        "1",
        Flag(|b, is_on| keep(b, 1, is_on)),
        "0 means that shapes vary, and is equivalent to `Arena::Shrink`. A run's memory is one \
         planned arena in any case, and signatures of input shapes do not add up.",
    )
    .method("arena")
    .flag("--arena shrink"),
    idle(
        "session.dynamic_block_base",
        "0",
        ANY_NUMBER,
        "Work is split into parts by a cost estimate, and threads take parts dynamically.",
    ),
    idle(
        "session.use_device_allocator_for_initializers",
        "0",
        ANY_FLAG,
        "Constants are never allocated in the memory of runs.",
    ),
    idle(
        "session.use_env_allocators",
        "0",
        ANY_FLAG,
        "There is no environment through which sessions share allocators.",
    ),
    acts(
        "session.enable_profiling",
        "nothing",
        Text("the start of a file's path", |b, prefix| {
            let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
            b.profiling = prefix.map_or(Profiling::Off, |prefix| Profiling::Write(prefix.into()));
        }),
        "Enables profiling; the value is the prefix of the trace file, which the time follows. \
         `Session::end_profiling`, or dropping the session, writes it. An empty value disables \
         profiling.",
    )
    .method("enable_profiling"),
    acts(
        "session.log_severity_level",
        "-1",
        Choices(SEVERITIES),
        "The minimum severity of events that the session emits through `tracing`: 0 verbose, 1 \
         info, 2 warning, 3 error, 4 fatal. −1 emits all, since subscribers filter as well; in \
         ONNX Runtime it is the environment's, by default warning.",
    )
    .method("log_severity"),
    acts(
        "session.log_verbosity_level",
        "1",
        Number(0, i32::MAX as u64, |b, n| b.log.choice.verbosity = u32::try_from(n).ok()),
        "The maximum verbosity of verbose events: from 1 on, each optimizer pass emits one. ONNX \
         Runtime's default is 0.",
    )
    .method("log_verbosity"),
    acts(
        "session.log_id",
        "nothing",
        Text("any text", |b, id| b.log.id = Some(id.into()).filter(|_| !id.is_empty())),
        "The name of the session in events, as the field `session`.",
    )
    .method("log_id"),
];

/// The meaning of ONNX Runtime's two switches: without its arena it retains nothing; disabling memory patterns
/// means that shapes vary; and explicitly enabling the arena means to retain it.
fn keep(builder: &mut SessionBuilder, switch: usize, is_on: bool) {
    builder.arena_keys[switch] = Some(is_on);
    builder.arena = match builder.arena_keys {
        [Some(false), _] => Arena::Off,
        [_, Some(false)] => Arena::Shrink,
        [Some(true), _] => Arena::Keep,
        [None, _] => Arena::default(),
    };
}
