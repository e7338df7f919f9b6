//! What a session keeps of the memory of runs that are over.

mod spares;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_tensor::{AlignedBuf, DType, Memory, Tensor, TensorError, n_elements};

use self::spares::Spares;
use crate::plan::{Layout, Plan, PlanError, State};

/// What becomes of the memory of a run, its intermediate values and scratch, when it is over.
///
/// Whatever is chosen, a run needs one block, of a size that is known before it starts
/// ([`Session::activations`](crate::Session::activations)), and any signature of input shapes can
/// use any block: what is kept is as large as the largest, times the runs that were under way at
/// once, not the sum over signatures. The memory of large outputs (from 128 KiB) that their caller
/// has dropped is kept for outputs to come in the same way, and so is, from 4 KiB on, that of what loops carry and of
/// values whose size only the run knows; at most sixteen such buffers. From 32 KiB on, a block is a mapping of its own, and goes
/// back to the system at once when it is not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arena {
    /// It stays for runs to come, until the session is dropped. Every page is paid for once: what
    /// ONNX Runtime's `enable_cpu_mem_arena=1` is there for.
    Keep,
    /// It stays as long as it is needed: every 16 runs, a block that none of them used whole goes
    /// back to the system. So a large input followed by small ones does not hold its memory, and
    /// neither does a burst of concurrent runs; a steady load is served as with `Keep`.
    #[default]
    Shrink,
    /// Nothing stays: every run takes memory from the system and returns it. Its pages are
    /// cleared anew each time, which costs about 0.3 ms a MiB. The same as
    /// `enable_cpu_mem_arena=0`.
    Off,
}

/// After so many runs, [`Arena::Shrink`] looks at what is kept. A block that comes and goes with
/// every look costs a sixteenth of what [`Arena::Off`] does.
const RUNS_BETWEEN_LOOKS: usize = 16;

/// At most so much is kept, unless told otherwise: beyond it, a run takes so long that the pages it
/// touches anew do not count, and a burst of such runs would hold the memory of others.
pub(crate) const DEFAULT_CAP: usize = 1 << 30;

/// Lends memory to runs, and decides what is kept of it.
#[derive(Debug)]
pub(crate) struct RunMemory {
    arena: Arena,
    cap: usize,
    /// The blocks and outputs that are kept for runs to come, in bytes.
    kept: Arc<AtomicUsize>,
    /// Memory of outputs and of what loops carry; `None` where each run has its own.
    spares: Option<Arc<Spares>>,
    /// How many runs there were, of the whole model.
    n_runs: AtomicUsize,
}

impl RunMemory {
    pub(crate) fn new(arena: Arena, cap: usize) -> Self {
        let kept = Arc::new(AtomicUsize::new(0));
        let spares = (arena != Arena::Off).then(|| Spares::new(kept.clone(), cap));
        Self { arena, cap, kept, spares, n_runs: AtomicUsize::new(0) }
    }

    /// Where nothing is kept from run to run, what one run lends to its steps again and again: a loop would map
    /// memory in each iteration otherwise. What is dropped after that run goes back to the system.
    pub(crate) fn of_run(&self) -> Option<Self> {
        let (kept, cap) = (self.kept.clone(), self.cap);
        let spares = self.spares.is_none().then(|| Spares::new(kept.clone(), cap))?;
        let n_runs = AtomicUsize::new(0);
        Some(Self { arena: self.arena, cap, kept, spares: Some(spares), n_runs })
    }

    /// Memory for an output of a run, whatever it holds. One that is no mapping comes from the heap, which
    /// keeps such memory itself.
    pub(crate) fn output(&self, dtype: DType, shape: &[usize]) -> Result<Tensor, TensorError> {
        let n_bytes = n_elements(shape).and_then(|n| dtype.n_bytes(n));
        match (&self.spares, n_bytes.filter(|&n| AlignedBuf::is_mapping(n))) {
            (Some(spares), Some(n_bytes)) => {
                let too_large = || TensorError::TooLarge { shape: shape.to_vec() };
                Tensor::in_buf(dtype, shape, spares.buf(n_bytes).ok_or_else(too_large)?)
            }
            _ => Tensor::zeros(dtype, shape),
        }
    }

    /// Memory for a run of `plan`. No run waits for another.
    pub(crate) fn take(&self, plan: &Plan, layout: &Layout) -> Result<Box<State>, PlanError> {
        let ready = plan.pool.take();
        let mut state = ready.unwrap_or_else(|| Box::new(State::new(layout.places.len())));
        self.kept.fetch_sub(state.arena.len(), Ordering::Relaxed);
        let n_bytes = layout.arena_bytes;
        // bounded: asks for it
        state.reserve(n_bytes).ok_or(PlanError::Arena { n_bytes })?;
        Ok(state)
    }

    /// Takes the memory of a run back.
    pub(crate) fn put(&self, plan: &Plan, state: Box<State>) {
        let n_bytes = state.arena.len();
        if self.kept.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes > self.cap {
            self.forget(&state);
        } else if let Some(state) = plan.pool.put(state) {
            self.forget(&state);
        }
    }

    /// Gives back what is not to be kept now that a run of the whole model is over.
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

    /// Calls `held` with each block that is kept for runs to come, those of plans below `plan` left
    /// out. A run that starts at this moment may not find the block that is looked at.
    pub(crate) fn visit_held(&self, plan: &Plan, held: &mut dyn FnMut(&[u8])) {
        let look = |state: &mut State| {
            held(state.arena.as_ref());
            true
        };
        plan.pool.drain(look, |state| self.forget(&state));
    }

    /// Calls `held` with each buffer of an output that was dropped.
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
            // Room to grow is no reason to refuse what fits.
            Some(spares) => spares.roomy_buf(n_bytes).or_else(|| AlignedBuf::try_zeroed(n_bytes)),
            None => AlignedBuf::try_zeroed(n_bytes),
        }
    }
}
