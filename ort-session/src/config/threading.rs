//! Keys about threads: count, pool, affinity and spinning.

use std::time::Duration;

use super::key::Values::{Choices, Flag, Form, Number};
use super::key::{Choice, ConfigKey, acts, idle};
use crate::threads::ExecutionMode;

/// More threads than this are surely a mistake.
const MAX_THREADS: u64 = 1024;

/// The maximum of ONNX Runtime's type.
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
        Number(0, MAX_THREADS, |b, n| b.n_threads = explicit(n)),
        "The number of threads, the caller included; 0 for as many physical cores as the process \
         may use, given cgroups and affinity. Threads are not bound to cores.",
    )
    .method("threads")
    .flag("--threads"),
    acts(
        "session.intra_op.allow_spinning",
        "1",
        Flag(|b, is_on| b.pool.spinning.is_off = !is_on),
        "0 disables spinning, whatever the spin duration is. By default workers spin for 1 ms \
         during a run and for 50 µs after it; ONNX Runtime's spin after a run as long as during \
         it.",
    )
    .method("spinning")
    .flag("--no-spinning"),
    acts(
        "session.intra_op.spin_duration_us",
        "1000",
        Number(0, MAX_MICROSECONDS, |b, n| b.pool.spinning.limit = Some(Duration::from_micros(n))),
        "The spin duration during a run. Without an explicit setting, ONNX Runtime's workers spin \
         for about a million iterations.",
    )
    .method("spinning")
    .flag("--spinning"),
    idle(
        "session.intra_op.spin_backoff_max",
        "1",
        Number(1, 64, |_, _| {}),
        "A spinning worker polls its own cache line after every eight pause instructions; the \
         clock bounds the spin duration.",
    ),
    acts(
        "session.force_spinning_stop",
        "0",
        Flag(|b, is_on| b.pool.between_runs = Some(Duration::ZERO).filter(|_| is_on)),
        "1 lets workers sleep as soon as the last active run ends; by default 50 µs later.",
    )
    .method("spinning_between_runs"),
    acts(
        "session.intra_op_thread_affinities",
        "nothing",
        Form("processors of each worker, from 1, as in `1;2,3;5-8`", |b, text| {
            text.parse().map(|affinities| b.pool.affinities = affinities).is_ok()
        }),
        "The processors that each worker may run on. Processors that the system rejects are an \
         error; ONNX Runtime logs them.",
    )
    .method("thread_affinities")
    .flag("--affinities"),
    acts(
        "session.use_per_session_threads",
        "0",
        Flag(|b, is_on| b.pool.is_own = is_on),
        "Whether the session has its own thread pool. By default it uses a pool shared within the \
         process; ONNX Runtime's default is 1.",
    )
    .method("own_pool"),
    acts(
        "session.execution_mode",
        "sequential",
        Choices(MODES),
        "Whether independent steps run in parallel. Results are bitwise equal, and memory is \
         planned in both modes; ONNX Runtime disables its memory pattern in parallel mode.",
    )
    .method("execution_mode")
    .flag("--execution-mode"),
    acts(
        "session.inter_op_num_threads",
        "0",
        Number(0, MAX_THREADS, |b, n| b.branches.n_threads = explicit(n)),
        "The number of branches that run in parallel if execution is parallel; 0 for the number \
         of threads of a step. Branches use the pool of the steps unless their number or spin \
         duration differs; ONNX Runtime always has a second pool.",
    )
    .method("inter_op_threads")
    .flag("--inter-op-threads"),
    acts(
        "session.inter_op.allow_spinning",
        "that of steps",
        Flag(|b, is_on| b.branches.spinning.is_off = !is_on),
        "0 disables spinning of workers that run branches. ONNX Runtime's default is 1.",
    )
    .method("inter_op_spinning"),
    acts(
        "session.inter_op.spin_duration_us",
        "that of steps",
        Number(0, MAX_MICROSECONDS, |b, n| {
            b.branches.spinning.limit = Some(Duration::from_micros(n));
        }),
        "The spin duration of workers that run branches.",
    )
    .method("inter_op_spinning"),
    idle(
        "session.inter_op.spin_backoff_max",
        "1",
        Number(1, 64, |_, _| {}),
        "As session.intra_op.spin_backoff_max.",
    ),
];

/// A number of threads; 0 means the default.
fn explicit(n: u64) -> Option<usize> {
    usize::try_from(n).ok().filter(|&n| n > 0)
}
