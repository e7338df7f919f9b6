//! The retained memory of finished runs.

mod spares;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_tensor::{AlignedBuf, DType, Memory, Tensor, TensorError, n_elements};

use self::spares::Spares;
use crate::plan::{Layout, Plan, PlanError, State};

/// The retention policy for the memory of a finished run, its intermediate values and scratch.
///
/// With any policy, a run needs one block, of a size that is known before it starts
/// ([`Session::activations`](crate::Session::activations)), and any signature of input shapes can
/// use any block: the retained memory is the largest block times the number of concurrent
/// runs, not the sum over signatures. The memory of outputs (from 4 KiB) that their caller
/// has dropped is retained for future outputs in the same way, as is that of loop-carried values and
/// values of dynamic size; at most sixteen such buffers. From 32 KiB on, a block is a separate mapping, and is
/// returned to the system as soon as it is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arena {
    /// It is retained until the session is dropped. Page faults occur only once: the purpose of
    /// ONNX Runtime's `enable_cpu_mem_arena=1`.
    Keep,
    /// It is retained while it is needed: every 16 runs, a block that none of them used completely is
    /// returned to the system. So a large input followed by small ones does not hold its memory, and
    /// neither does a burst of concurrent runs; for a steady load it equals `Keep`.
    #[default]
    Shrink,
    /// Nothing is retained: every run allocates memory and returns it to the system. Its pages are
    /// cleared each time, which costs about 0.3 ms a MiB. Equals
    /// `enable_cpu_mem_arena=0`.
    Off,
}

/// The number of runs after which [`Arena::Shrink`] checks what to retain. A block that is released and
/// allocated at every check costs a sixteenth of [`Arena::Off`].
const RUNS_BETWEEN_LOOKS: usize = 16;

/// The default limit of retained memory: beyond it, a run takes so long that page faults
/// do not matter, and a burst of such runs would hold the memory of others.
pub(crate) const DEFAULT_CAP: usize = 1 << 30;

/// Provides memory for runs, and decides what to retain.
#[derive(Debug)]
pub(crate) struct RunMemory {
    arena: Arena,
    cap: usize,
    /// The size of retained blocks and outputs, in bytes.
    kept: Arc<AtomicUsize>,
    /// Memory of outputs and of loop-carried values; `None` if nothing is retained.
    spares: Option<Arc<Spares>>,
    /// The number of runs of the whole model.
    n_runs: AtomicUsize,
}

impl RunMemory {
    pub(crate) fn new(arena: Arena, cap: usize) -> Self {
        let kept = Arc::new(AtomicUsize::new(0));
        let spares = (arena != Arena::Off).then(|| Spares::new(kept.clone(), cap));
        Self { arena, cap, kept, spares, n_runs: AtomicUsize::new(0) }
    }

    /// If nothing is retained between runs, the memory that one run reuses for its steps: otherwise a loop would map
    /// memory in each iteration. It is returned to the system after that run.
    pub(crate) fn of_run(&self) -> Option<Self> {
        let (kept, cap) = (self.kept.clone(), self.cap);
        let spares = self.spares.is_none().then(|| Spares::new(kept.clone(), cap))?;
        let n_runs = AtomicUsize::new(0);
        Some(Self { arena: self.arena, cap, kept, spares: Some(spares), n_runs })
    }

    /// Releases memory of dropped values if more than `most` bytes are retained.
    pub(crate) fn release_over(&self, most: usize) {
        if let Some(spares) = &self.spares {
            spares.release_over(most);
        }
    }

    /// Memory for an output of a run, with any content.
    pub(crate) fn output(&self, dtype: DType, shape: &[usize]) -> Result<Tensor, TensorError> {
        let n_bytes = n_elements(shape).and_then(|n| dtype.n_bytes(n));
        match (&self.spares, n_bytes) {
            (Some(spares), Some(n_bytes)) => {
                let too_large = || TensorError::TooLarge { shape: shape.to_vec() };
                Tensor::in_buf(dtype, shape, spares.buf(n_bytes).ok_or_else(too_large)?)
            }
            _ => Tensor::zeros(dtype, shape),
        }
    }

    /// Memory for a run of `plan`. Runs do not wait for each other.
    pub(crate) fn take(&self, plan: &Plan, layout: &Layout) -> Result<Box<State>, PlanError> {
        let ready = plan.pool.take();
        let mut state = ready.unwrap_or_else(|| Box::new(State::new(layout.places.len())));
        self.kept.fetch_sub(state.arena.len(), Ordering::Relaxed);
        let n_bytes = layout.arena_bytes;
        // bounded: allocated with a check
        state.reserve(n_bytes).ok_or(PlanError::Arena { n_bytes })?;
        Ok(state)
    }

    /// Takes back the memory of a run, to retain it if all retained memory is at most `most` bytes then.
    pub(crate) fn put(&self, plan: &Plan, state: Box<State>, most: usize) {
        let n_bytes = state.arena.len();
        if self.kept.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes > self.cap.min(most) {
            self.forget(&state);
        } else if let Some(state) = plan.pool.put(state) {
            self.forget(&state);
        }
    }

    /// Releases memory that is not to be retained, after a run of the whole model.
    pub(crate) fn after_run(&self, plan: &Plan) {
        let n_runs = self.n_runs.fetch_add(1, Ordering::Relaxed) + 1;
        let is_kept: fn(&mut State) -> bool = match self.arena {
            Arena::Off => |_| false,
            Arena::Shrink if n_runs.is_multiple_of(RUNS_BETWEEN_LOOKS) => State::was_needed,
            Arena::Shrink | Arena::Keep => return,
        };
        plan.visit(&mut |plan| plan.pool.drain(is_kept, |state| self.forget(&state)));
        let spares = self.spares.iter();
        match self.arena {
            Arena::Off => spares.for_each(|spares| spares.clear()),
            _ => spares.for_each(|spares| spares.look()),
        }
    }

    /// Calls `held` with each retained block, except those of sub-plans of `plan`.
    /// A concurrently starting run may miss the block being visited.
    pub(crate) fn visit_held(&self, plan: &Plan, held: &mut dyn FnMut(&[u8])) {
        let look = |state: &mut State| {
            held(state.arena.as_ref());
            true
        };
        plan.pool.drain(look, |state| self.forget(&state));
    }

    /// Calls `held` with each buffer of a dropped output.
    pub(crate) fn visit_spares(&self, held: &mut dyn FnMut(&[u8])) {
        self.spares.iter().for_each(|spares| spares.visit(held));
    }

    fn forget(&self, state: &State) {
        self.kept.fetch_sub(state.arena.len(), Ordering::Relaxed);
    }
}

impl Memory for RunMemory {
    fn buf(&self, n_bytes: usize) -> Option<AlignedBuf> {
        match &self.spares {
            // Without memory for the extra room, the exact size may fit.
            Some(spares) => spares.roomy_buf(n_bytes).or_else(|| AlignedBuf::try_zeroed(n_bytes)),
            None => AlignedBuf::try_zeroed(n_bytes),
        }
    }
}
