//! Keys about what computes: threads, memory, and what is told of it.

use super::key::Values::{Choices, Number, Text};
use super::key::{ANY_FLAG, ANY_NUMBER, Choice, ConfigKey, acts, idle};
use crate::log::Severity;

/// More threads than this are a slip of the finger.
const MAX_THREADS: u64 = 1024;

const SEVERITIES: &[Choice] = &[
    ("-1", |b| b.log.severity = None),
    ("0", |b| b.log.severity = Some(Severity::Verbose)),
    ("1", |b| b.log.severity = Some(Severity::Info)),
    ("2", |b| b.log.severity = Some(Severity::Warning)),
    ("3", |b| b.log.severity = Some(Severity::Error)),
    ("4", |b| b.log.severity = Some(Severity::Fatal)),
];

pub(super) const KEYS: &[ConfigKey] = &[
    acts(
        "session.intra_op_num_threads",
        "0",
        Number(0, MAX_THREADS, |b, n| b.n_threads = usize::try_from(n).ok().filter(|&n| n > 0)),
        "How many threads compute, the caller included; 0 for as many physical cores as the process \
         may use, cgroups and affinity considered. Threads are bound to no core.",
    )
    .method("threads")
    .flag("--threads"),
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
        Number(0, i32::MAX as u64, |b, n| b.log.verbosity = u32::try_from(n).ok()),
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
