//! Keys about threads: how many, whose, where, and how long they wait awake.

use std::time::Duration;

use super::key::Values::{Choices, Flag, Form, Number};
use super::key::{Choice, ConfigKey, acts, idle};
use crate::threads::ExecutionMode;

/// More threads than this are a slip of the finger.
const MAX_THREADS: u64 = 1024;

/// As many as ONNX Runtime's number has.
const MAX_MICROSECONDS: u64 = i32::MAX as u64;

const MODES: &[Choice] = &[
    ("sequential", |b| b.branches.mode = ExecutionMode::Sequential),
    ("parallel", |b| b.branches.mode = ExecutionMode::Parallel),
    ("ort_sequential", |b| b.branches.mode = ExecutionMode::Sequential),
    ("ort_parallel", |b| b.branches.mode = ExecutionMode::Parallel),
    ("ORT_SEQUENTIAL", |b| b.branches.mode = ExecutionMode::Sequential),
    ("ORT_PARALLEL", |b| b.branches.mode = ExecutionMode::Parallel),
];

pub(super) const KEYS: &[ConfigKey] = &[
    acts(
        "session.intra_op_num_threads",
        "0",
        Number(0, MAX_THREADS, |b, n| b.n_threads = told(n)),
        "How many threads compute, the caller included; 0 for as many physical cores as the process \
         may use, cgroups and affinity considered. Threads are bound to no core.",
    )
    .method("threads")
    .flag("--threads"),
    acts(
        "session.intra_op.allow_spinning",
        "1",
        Flag(|b, is_on| b.pool.spinning.is_off = !is_on),
        "0 lets threads sleep at once when they have no work, whatever their time is. By default they \
         wait awake for 1 ms in a run and for 50 µs after it; ONNX Runtime's wait after a run as long \
         as in it.",
    )
    .method("spinning")
    .flag("--no-spinning"),
    acts(
        "session.intra_op.spin_duration_us",
        "1000",
        Number(0, MAX_MICROSECONDS, |b, n| b.pool.spinning.limit = Some(Duration::from_micros(n))),
        "How long threads wait awake for work in a run. ONNX Runtime's count about a million turns \
         unless they are told a time.",
    )
    .method("spinning")
    .flag("--spinning"),
    idle(
        "session.intra_op.spin_backoff_max",
        "1",
        Number(1, 64, |_, _| {}),
        "Who waits looks at a line of memory of its own after eight pauses each; how long it waits \
         is told by the clock.",
    ),
    acts(
        "session.force_spinning_stop",
        "0",
        Flag(|b, is_on| b.pool.between_runs = Some(Duration::ZERO).filter(|_| is_on)),
        "1 lets threads sleep as soon as the last of the runs under way is over; by default 50 µs \
         later.",
    )
    .method("spinning_between_runs"),
    acts(
        "session.intra_op_thread_affinities",
        "nothing",
        Form("processors of each helper, from 1, as in `1;2,3;5-8`", |b, text| {
            text.parse().map(|affinities| b.pool.affinities = affinities).is_ok()
        }),
        "Which processors each thread but the caller may run on. What the system refuses is an \
         error; ONNX Runtime logs it.",
    )
    .method("thread_affinities")
    .flag("--affinities"),
    acts(
        "session.use_per_session_threads",
        "0",
        Flag(|b, is_on| b.pool.is_own = is_on),
        "Whether the session has threads of its own. By default those of the process serve it; ONNX \
         Runtime's default is 1.",
    )
    .method("own_pool"),
    acts(
        "session.execution_mode",
        "sequential",
        Choices(MODES),
        "Whether steps that do not need each other run side by side. Results are the same bits, and \
         memory is planned all the same; ONNX Runtime does without its memory pattern then.",
    )
    .method("execution_mode")
    .flag("--execution-mode"),
    acts(
        "session.inter_op_num_threads",
        "0",
        Number(0, MAX_THREADS, |b, n| b.branches.n_threads = told(n)),
        "How many branches run side by side if execution is parallel; 0 for as many as steps have \
         threads. These are the threads of the steps unless their number or time differs; ONNX \
         Runtime's are always others.",
    )
    .method("inter_op_threads")
    .flag("--inter-op-threads"),
    acts(
        "session.inter_op.allow_spinning",
        "as within steps",
        Flag(|b, is_on| b.branches.spinning.is_off = !is_on),
        "0 lets threads that run branches sleep at once when there is none. ONNX Runtime's default \
         is 1.",
    )
    .method("inter_op_spinning"),
    acts(
        "session.inter_op.spin_duration_us",
        "as within steps",
        Number(0, MAX_MICROSECONDS, |b, n| {
            b.branches.spinning.limit = Some(Duration::from_micros(n));
        }),
        "How long threads that run branches wait awake for the next.",
    )
    .method("inter_op_spinning"),
    idle(
        "session.inter_op.spin_backoff_max",
        "1",
        Number(1, 64, |_, _| {}),
        "As session.intra_op.spin_backoff_max.",
    ),
];

/// A number of threads; 0 tells none.
fn told(n: u64) -> Option<usize> {
    usize::try_from(n).ok().filter(|&n| n > 0)
}
