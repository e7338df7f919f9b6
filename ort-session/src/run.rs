//! The executor: it runs the steps of a plan, and passes each its slices.

// collects are bounded: as long as the graph's lists

mod branch_arena;
mod dynamic;
mod ends;
mod error;
mod frame;
mod observer;
mod planned;
mod repeated;
mod targets;
mod watch;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ort_ep::{KernelError, Threads};
use ort_graph::ValueId;
use ort_tensor::{Value, ValueView, ended_by, within};
use smallvec::SmallVec;

use self::branch_arena::BranchArena;
use self::dynamic::DynamicStep;
pub(crate) use self::ends::EndingThreads;
pub use self::error::{LimitError, RunError};
use self::frame::Frame;
pub use self::observer::IntermediateValue;
pub(crate) use self::observer::Observer;
use self::planned::PlannedStep;
pub(crate) use self::repeated::{Arg, Repeated};
pub(crate) use self::targets::{Memory, Targets};
use self::watch::TooMuch;
pub(crate) use self::watch::{Reservation, Watch};
use crate::caught::caught;
use crate::plan::{
    Action, Args, Branches, Layout, Pieces, Plan, PlanError, Selection, Split, State, Step,
    StepLayout,
};
use crate::profile::{Recorder, describe};
use crate::run_memory::RunMemory;

/// The shared context of a run's steps.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) threads: &'a dyn Threads,
    /// The threads that run branches in parallel, where a plan has some.
    pub(crate) branches: &'a dyn Threads,
    pub(crate) memory: &'a RunMemory,
    /// Records the times of steps.
    pub(crate) recorder: Option<&'a Recorder<'a>>,
    /// The conditions that stop it early; usually none.
    pub(crate) watch: Option<&'a Watch<'a>>,
}

/// The task of a run: a plan, its arguments, and the requested outputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) args: &'a Args<'a>,
    pub(crate) selection: &'a Selection,
    /// The outputs to return, in order. Other outputs of the selection are written to targets.
    pub(crate) outputs: &'a [ValueId],
}

/// The arguments of a plan: its inputs, except those moved in, and its captures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    pub(crate) inputs: &'a [Option<ValueView<'a>>],
    pub(crate) captures: &'a [ValueView<'a>],
}

/// The inputs of a step, by position.
pub(crate) type Views<'a> = SmallVec<[Option<ValueView<'a>>; 8]>;

impl Run<'_> {
    /// Runs the part of a plan that its selection needs; returns outputs, in order. A panic of
    /// a kernel becomes an error of the run.
    pub(crate) fn task(
        &self,
        task: &Task<'_>,
        targets: &mut Targets<'_>,
    ) -> Result<Vec<Value>, RunError> {
        let Task { plan, args, selection, outputs } = *task;
        let mut layout = self.planned(plan, || plan.layout(selection, args))?;
        let mut held = self.watch.map(|watch| watch.start(plan, &layout, 0));
        if let Some(Err(RunError::Limit(LimitError::Bytes { .. }))) = held
            && !layout.is_tight
        {
            layout = self.planned(plan, || plan.tight_layout(selection, args, &layout))?;
            held = self.watch.map(|watch| watch.start(plan, &layout, 0));
        }
        let held = held.transpose()?;
        let inputs: SmallVec<[_; 8]> = args.inputs.iter().copied().map(Some).collect();
        let given = Given { inputs: &inputs, captures: args.captures };
        let frame = Frame { plan, layout: &layout, given, outputs, held: held.as_ref() };
        let mut state = self.memory.take(plan, &layout)?;
        let result = self.frame(&frame, &mut state, targets);
        drop(held);
        self.put(plan, state);
        result
    }

    /// Returns the memory of a plan that has run.
    fn put(&self, plan: &Plan, state: Box<State>) {
        let left = self.watch.and_then(Watch::left);
        self.memory.put(plan, state, left.map_or(usize::MAX, |(_, left)| left));
    }

    /// A layout, for which kernels prepare.
    fn planned(
        &self,
        plan: &Plan,
        layout: impl FnOnce() -> Result<Arc<Layout>, PlanError>,
    ) -> Result<Arc<Layout>, RunError> {
        let layout = self.bounded(|| caught(layout));
        let layout = layout.map_err(|message| panicked_outside_steps(plan, message))?;
        // A kernel that was cancelled while it prepared.
        let ended = || self.watch.and_then(|watch| watch.check(plan, None).err());
        layout.map_err(|error| ended().unwrap_or_else(|| error.into()))
    }

    /// Runs a plan in memory that is ready for it, and leaves no value there.
    fn frame(
        &self,
        frame: &Frame<'_>,
        state: &mut State,
        targets: &mut Targets<'_>,
    ) -> Result<Vec<Value>, RunError> {
        if let Some((_, left)) = self.watch.and_then(Watch::left) {
            self.memory.release_over(left);
        }
        let mut done = frame.check(targets);
        if done.is_ok() {
            let mut arena = BranchArena::whole(state, targets);
            // The content of the block is never read again, and the values are cleared below.
            let walked = caught(|| self.walk(frame, &mut arena));
            done = walked.unwrap_or_else(|message| Err(frame.panicked(arena.at.get(), message)));
        }
        let collect = || {
            frame.fill(&state.made, targets)?;
            frame.collect(&mut state.made)
        };
        let result = done.and_then(|()| {
            let collected = self.bounded(|| caught(collect));
            collected.unwrap_or_else(|message| Err(panicked_outside_steps(frame.plan, message)))
        });
        for &id in &frame.layout.made {
            state.made.take(id);
        }
        result
    }

    /// Runs all steps, branches in parallel.
    fn walk(&self, frame: &Frame<'_>, arena: &mut BranchArena<'_, '_>) -> Result<(), RunError> {
        let mut start = 0;
        for region in &frame.layout.regions {
            self.steps(frame, start..region.steps.start, arena)?;
            self.region(frame, region, arena)?;
            start = region.steps.end;
        }
        self.steps(frame, start..frame.layout.steps.len(), arena)
    }

    /// Runs the branches of a region. If one fails, the others stop after their current step.
    fn region(
        &self,
        frame: &Frame<'_>,
        region: &Branches,
        arena: &mut BranchArena<'_, '_>,
    ) -> Result<(), RunError> {
        let has_failed = AtomicBool::new(false);
        let arenas = arena.divide(region).into_iter().map(|arena| Mutex::new((arena, Ok(()))));
        let arenas: SmallVec<[_; 4]> = arenas.collect();
        self.branches.for_each(arenas.len(), &|i| {
            // Each branch has its own arena: the lock is uncontended.
            let mut own = arenas[i].lock().unwrap_or_else(PoisonError::into_inner);
            let (arena, result) = &mut *own;
            let steps = region.branches[i].clone();
            let done = caught(|| {
                { steps }
                    .take_while(|_| !has_failed.load(Ordering::Relaxed))
                    .try_for_each(|step| self.steps(frame, step..step + 1, arena))
            });
            *result = done.unwrap_or_else(|message| Err(frame.panicked(arena.at.get(), message)));
            has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
        });
        let results = arenas.into_iter().map(Mutex::into_inner);
        { results }.try_for_each(|own| own.unwrap_or_else(PoisonError::into_inner).1)?;
        { region.steps.clone() }.for_each(|step| self.clear(frame, step, arena));
        Ok(())
    }

    fn steps(
        &self,
        frame: &Frame<'_>,
        steps: Range<usize>,
        arena: &mut BranchArena<'_, '_>,
    ) -> Result<(), RunError> {
        for i in steps {
            let layout = &frame.layout.steps[i];
            if matches!(**layout, StepLayout::Skip) {
                continue;
            }
            arena.at.set(i);
            let step = &frame.plan.steps[i];
            if let Some(watch) = self.watch {
                watch.check(frame.plan, Some(step))?;
            }
            match self.recorder {
                None => self.step(frame, i, arena)?,
                Some(recorder) => self.recorded_step(recorder, frame, i, arena)?,
            }
            // Skipped parts have written nothing.
            if let Some(watch) = self.watch.filter(|watch| watch.ending.is_some()) {
                watch.check(frame.plan, Some(step))?;
            }
            if let (Some(held), StepLayout::Dynamic { .. }) = (frame.held, &**layout) {
                held.made(frame, step, arena.made())?;
            }
            self.clear(frame, i, arena);
        }
        Ok(())
    }

    /// Drops values no longer needed after a step.
    fn clear(&self, frame: &Frame<'_>, step: usize, arena: &mut BranchArena<'_, '_>) {
        for &id in frame.layout.steps[step].last_uses() {
            let value = arena.clear(id);
            if let Some(held) = frame.held {
                held.cleared(frame, id, value.as_ref());
            }
        }
    }

    fn step(
        &self,
        frame: &Frame<'_>,
        index: usize,
        arena: &mut BranchArena<'_, '_>,
    ) -> Result<(), RunError> {
        let step = &frame.plan.steps[index];
        let done = match (&*frame.layout.steps[index], &step.action) {
            (StepLayout::Skip, _) => Ok(()),
            (StepLayout::Static { prepared, split, in_place, .. }, Action::Run { kernel, .. }) => {
                let planned = PlannedStep { step, kernel: &**kernel, prepared, split, in_place };
                self.run_planned(frame, &planned, arena)
            }
            (StepLayout::Dynamic { split, taken, .. }, Action::Run { kernel, .. }) => {
                let dynamic = DynamicStep { step, kernel: &**kernel, split, taken };
                self.bounded(|| self.run_dynamic(frame, &dynamic, arena))
            }
            (StepLayout::Static { split, .. } | StepLayout::Dynamic { split, .. }, _) => {
                return self.run_control(frame, (step, split), arena);
            }
        };
        done.map_err(|error| self.ended(frame, step).unwrap_or_else(|| frame.error(step, error)))
    }

    /// Calls `body` within the run's remaining memory, and with cancellation.
    pub(crate) fn bounded<R>(&self, body: impl FnOnce() -> R) -> R {
        let Some(watch) = self.watch else { return body() };
        let body = || match watch.left() {
            Some((limit, left)) => within(limit, left, body),
            None => body(),
        };
        match &watch.ending {
            Some(ending) => ended_by(ending, body),
            None => body(),
        }
    }

    /// The error of a step that was interrupted, if it was.
    fn ended(&self, frame: &Frame<'_>, step: &Step) -> Option<RunError> {
        self.watch?.check(frame.plan, Some(step)).err()
    }

    /// The same, recorded.
    fn recorded_step(
        &self,
        recorder: &Recorder<'_>,
        frame: &Frame<'_>,
        index: usize,
        arena: &mut BranchArena<'_, '_>,
    ) -> Result<(), RunError> {
        let step = &frame.plan.steps[index];
        let watch = recorder.watch(step, self.threads);
        let run = Run { threads: &watch, ..*self };
        let mut done = Ok(());
        let times = watch.step(&mut || done = run.step(frame, index, arena));
        done?;
        let values = arena.values();
        let fact_of = |id| frame.fact(id, values);
        let describe = || describe(frame.plan, step, recorder.provider(step), &fact_of);
        recorder.note(&watch, times, frame.layout.described(index, describe));
        match recorder.observer().filter(|_| !frame.plan.is_body) {
            Some(observer) => {
                observer.show(frame, index, arena).map_err(|error| frame.error(step, error.into()))
            }
            None => Ok(()),
        }
    }

    fn run_control(
        &self,
        frame: &Frame<'_>,
        (step, split): (&Step, &Split),
        arena: &mut BranchArena<'_, '_>,
    ) -> Result<(), RunError> {
        let (slabs, values) = arena.parts();
        let made = {
            let mut pieces = Pieces::new();
            split.split(slabs, &mut pieces);
            let mut inputs = Views::new();
            let found = frame.inputs(step, split, (&pieces, values), &mut inputs);
            found.map_err(|error| frame.error(step, error.into()))?;
            let n_own = frame.plan.graph.node(step.node).inputs.len();
            let made = self.control(&step.action, &inputs, n_own);
            made.map_err(|error| frame.control_error(step, error))?
        };
        for (id, value) in step.outputs.iter().zip(made) {
            if let Some(id) = id {
                values.made.set(*id, value);
            }
        }
        Ok(())
    }
}

/// The error of a run that panicked outside of a step.
fn panicked_outside_steps(plan: &Plan, message: String) -> RunError {
    let first = plan.steps.first().map(|step| plan.graph.node(step.node).label());
    let node = first.unwrap_or_default().to_owned();
    RunError::Panicked { node, op_type: String::new(), message }
}

/// An error in a control flow step: in its body, or in itself.
pub(crate) enum ControlError {
    Run(RunError),
    Kernel(KernelError),
    TooOften { limit: u64, found: u64 },
    TooMuch(TooMuch),
}

impl<E: Into<KernelError>> From<E> for ControlError {
    fn from(error: E) -> Self {
        ControlError::Kernel(error.into())
    }
}
