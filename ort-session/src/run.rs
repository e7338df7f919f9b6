//! The executor: it walks the steps of a plan and hands each its slices.

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Fact, ValueId};
use ort_tensor::{
    AlignedBuf, Inputs, Output, Tensor, TensorError, TensorView, TensorViewMut, Value, ValueView,
};
use smallvec::SmallVec;

use crate::error::InputError;
use crate::plan::{
    Action, Args, Carve, Layout, Piece, Pieces, Place, Plan, PlanError, State, Step, StepLayout,
    fact_of,
};
use crate::profile::{Recorder, describe};
use crate::run_memory::RunMemory;

/// A run that failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The inputs are not the model's.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The shapes do not fit the model.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A node could not compute.
    #[error("node `{node}` ({op_type}): {error}")]
    Node {
        /// The node.
        node: String,
        /// Its operator.
        op_type: String,
        /// What is wrong.
        error: Box<KernelError>,
    },
    /// A node did not make an output that others need.
    #[error("value `{value}` was not computed")]
    NotComputed {
        /// The value.
        value: String,
    },
}

/// What all steps of a run share.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) threads: &'a dyn Threads,
    pub(crate) memory: &'a RunMemory,
    /// Who wants to know how long each step takes.
    pub(crate) recorder: Option<&'a Recorder<'a>>,
}

/// The inputs of a step, by position.
pub(crate) type Views<'a> = SmallVec<[Option<ValueView<'a>>; 8]>;

impl Run<'_> {
    /// Runs a plan; its outputs in order.
    pub(crate) fn plan(&self, plan: &Plan, args: &Args<'_>) -> Result<Vec<Value>, RunError> {
        let layout = plan.layout(args)?;
        let mut state = self.memory.take(plan, &layout)?;
        let frame = Frame { plan, layout: &layout, args };
        let result = self.steps(&frame, &mut state).and_then(|()| frame.collect(&mut state));
        layout.made.iter().for_each(|id| state.values[id.index()] = None);
        self.memory.put(plan, state);
        result
    }

    fn steps(&self, frame: &Frame<'_>, state: &mut State) -> Result<(), RunError> {
        for (i, layout) in frame.layout.steps.iter().enumerate() {
            match (layout, self.recorder) {
                (StepLayout::Skip, _) => continue,
                (_, None) => self.step(frame, i, state)?,
                (_, Some(recorder)) => self.recorded_step(recorder, frame, i, state)?,
            }
            for value in layout.last_uses() {
                state.values[value.index()] = None;
            }
        }
        Ok(())
    }

    fn step(&self, frame: &Frame<'_>, index: usize, state: &mut State) -> Result<(), RunError> {
        let step = &frame.plan.steps[index];
        let done = match (&frame.layout.steps[index], &step.action) {
            (StepLayout::Skip, _) => Ok(()),
            (StepLayout::Static { prepared, carve, in_place, .. }, Action::Run { kernel, .. }) => {
                let planned = PlannedStep { step, kernel: &**kernel, prepared, carve, in_place };
                self.run_planned(frame, &planned, state)
            }
            (StepLayout::Dynamic { carve, .. }, Action::Run { kernel, .. }) => {
                let dynamic = DynamicStep { step, kernel: &**kernel, carve };
                self.run_dynamic(frame, &dynamic, state)
            }
            (StepLayout::Static { carve, .. } | StepLayout::Dynamic { carve, .. }, _) => {
                return self.run_control(frame, step, carve, state);
            }
        };
        done.map_err(|error| frame.error(step, error))
    }

    /// The same, watched.
    fn recorded_step(
        &self,
        recorder: &Recorder<'_>,
        frame: &Frame<'_>,
        index: usize,
        state: &mut State,
    ) -> Result<(), RunError> {
        let step = &frame.plan.steps[index];
        let watch = recorder.watch(step, self.threads);
        let run = Run { threads: &watch, ..*self };
        let mut done = Ok(());
        let times = watch.step(&mut || done = run.step(frame, index, state));
        done?;
        let fact_of = |id| frame.fact(id, &state.values);
        let describe = || describe(frame.plan, step, recorder.provider(step), &fact_of);
        recorder.note(&watch, times, frame.layout.described(index, describe));
        Ok(())
    }

    /// A step whose shapes the layout knows.
    fn run_planned(
        &self,
        frame: &Frame<'_>,
        planned: &PlannedStep<'_>,
        state: &mut State,
    ) -> Result<(), KernelError> {
        let PlannedStep { step, kernel, prepared, carve, in_place } = *planned;
        let State { arena, values, .. } = state;
        let mut own = frame.own_outputs(step)?;
        {
            // Filled where they stand: to return them would be to copy them.
            let mut pieces = Pieces::new();
            carve.split(arena.as_mut(), &mut pieces);
            let first_output = step.inputs.len();
            let mut own = own.iter_mut();
            let mut outputs: SmallVec<[Output<'_>; 2]> = SmallVec::new();
            for (o, id) in step.outputs.iter().enumerate() {
                outputs.push(match id.map(|id| frame.place(id)) {
                    Some(Place::Arena { dtype, shape, .. }) => {
                        let bytes = carve.write(&mut pieces, first_output + o);
                        let view = TensorViewMut::from_bytes(*dtype, shape, bytes)?;
                        match in_place.iter().find(|(_, output)| *output == o) {
                            Some((input, _)) => Output::in_place(view, *input),
                            None => Output::planned(view),
                        }
                    }
                    Some(Place::Own { .. }) => {
                        own.next().map_or(Output::unwanted(), |own| Output::planned(own.view_mut()))
                    }
                    _ => Output::unwanted(),
                });
            }
            let scratch = carve.write(&mut pieces, first_output + step.outputs.len());
            let mut inputs = Views::new();
            frame.inputs(step, carve, (&pieces, values), &mut inputs)?;
            in_place.iter().for_each(|&(input, _)| inputs[input] = None);
            let inputs = Inputs::new(&inputs);
            let threads = self.threads;
            kernel.run(prepared, &mut Io { inputs, outputs: &mut outputs, scratch, threads })?;
        }
        for (id, own) in step.outputs.iter().flatten().filter(|&&id| frame.is_own(id)).zip(own) {
            values[id.index()] = Some(Value::Tensor(own));
        }
        Ok(())
    }

    /// A step whose shapes only the run can tell: the kernel makes its outputs.
    fn run_dynamic(
        &self,
        frame: &Frame<'_>,
        dynamic: &DynamicStep<'_>,
        state: &mut State,
    ) -> Result<(), KernelError> {
        let DynamicStep { step, kernel, carve } = *dynamic;
        let State { arena, values, .. } = state;
        let mut outputs: SmallVec<[Output<'_>; 2]> = step.outputs.iter().map(wanted).collect();
        {
            let mut pieces = Pieces::new();
            carve.split(arena.as_mut(), &mut pieces);
            let mut inputs = Views::new();
            frame.inputs(step, carve, (&pieces, values), &mut inputs)?;
            let shape_of = |view: &Option<ValueView<'_>>| match view {
                Some(ValueView::Tensor(view)) => ort_tensor::Shape::from_slice(view.shape()),
                _ => ort_tensor::Shape::new(),
            };
            let shapes: SmallVec<[ort_tensor::Shape; 8]> = inputs.iter().map(shape_of).collect();
            let shapes: SmallVec<[&[usize]; 8]> = shapes.iter().map(|shape| &shape[..]).collect();
            let prepared = kernel.prepare(&shapes)?;
            let mut scratch = AlignedBuf::zeroed(prepared.scratch_bytes);
            let (inputs, scratch) = (Inputs::new(&inputs), scratch.as_mut());
            let threads = self.threads;
            kernel.run(&prepared, &mut Io { inputs, outputs: &mut outputs, scratch, threads })?;
        }
        let made: SmallVec<[Option<Value>; 2]> =
            outputs.into_iter().map(Output::into_value).collect();
        for (id, value) in step.outputs.iter().zip(made) {
            if let Some(id) = id {
                values[id.index()] = value;
            }
        }
        Ok(())
    }

    fn run_control(
        &self,
        frame: &Frame<'_>,
        step: &Step,
        carve: &Carve,
        state: &mut State,
    ) -> Result<(), RunError> {
        let State { arena, values, .. } = state;
        let made = {
            let mut pieces = Pieces::new();
            carve.split(arena.as_mut(), &mut pieces);
            let mut inputs = Views::new();
            let found = frame.inputs(step, carve, (&pieces, values), &mut inputs);
            found.map_err(|error| frame.error(step, error.into()))?;
            let n_own = frame.plan.graph.node(step.node).inputs.len();
            self.control(&step.action, &inputs, n_own).map_err(|error| match error {
                ControlError::Run(error) => error,
                ControlError::Kernel(error) => frame.error(step, error),
            })?
        };
        for (id, value) in step.outputs.iter().zip(made) {
            if let Some(id) = id {
                values[id.index()] = Some(value);
            }
        }
        Ok(())
    }
}

/// What went wrong in a step of control flow: in its body, or in itself.
pub(crate) enum ControlError {
    Run(RunError),
    Kernel(KernelError),
}

impl<E: Into<KernelError>> From<E> for ControlError {
    fn from(error: E) -> Self {
        ControlError::Kernel(error.into())
    }
}

/// A step with what its layout says.
#[derive(Clone, Copy)]
struct PlannedStep<'a> {
    step: &'a Step,
    kernel: &'a dyn Kernel,
    prepared: &'a Prepared,
    carve: &'a Carve,
    in_place: &'a [(usize, usize)],
}

/// A step whose shapes only the run can tell.
#[derive(Clone, Copy)]
struct DynamicStep<'a> {
    step: &'a Step,
    kernel: &'a dyn Kernel,
    carve: &'a Carve,
}

/// One run of one plan.
#[derive(Clone, Copy)]
struct Frame<'a> {
    plan: &'a Plan,
    layout: &'a Layout,
    args: &'a Args<'a>,
}

impl<'a> Frame<'a> {
    fn place(&self, id: ValueId) -> &'a Place {
        &self.layout.places[id.index()]
    }

    fn is_own(&self, id: ValueId) -> bool {
        matches!(self.place(id), Place::Own { .. })
    }

    /// Adds the step's inputs, wherever they live.
    fn inputs<'b>(
        &self,
        step: &Step,
        carve: &Carve,
        (pieces, values): (&[Piece<'b>], &'b [Option<Value>]),
        views: &mut Views<'b>,
    ) -> Result<(), TensorError>
    where
        'a: 'b,
    {
        for (i, id) in step.inputs.iter().enumerate() {
            let Some(id) = *id else {
                views.push(None);
                continue;
            };
            views.push(match self.place(id) {
                Place::Arena { dtype, shape, .. } => {
                    let bytes = carve.read(pieces, i);
                    // An input that is overwritten has no slice of its own: its output has.
                    let is_read = !bytes.is_empty() || shape.contains(&0);
                    let view = || TensorView::from_bytes(*dtype, shape, bytes);
                    is_read.then(view).transpose()?.map(ValueView::Tensor)
                }
                place => self.view(place, id, values)?,
            });
        }
        Ok(())
    }

    /// A value that does not live in the arena.
    fn view<'b>(
        &self,
        place: &'a Place,
        id: ValueId,
        values: &'b [Option<Value>],
    ) -> Result<Option<ValueView<'b>>, TensorError>
    where
        'a: 'b,
    {
        let (view, shape) = match place {
            Place::Known(value) => return Ok(Some(value.view())),
            Place::Input { index, shape } => (self.args.inputs[*index], shape),
            Place::Capture { index, shape } => (self.args.captures[*index], shape),
            _ => return Ok(values[id.index()].as_ref().map(Value::view)),
        };
        match shape {
            None => Ok(Some(view)),
            Some(shape) => Ok(Some(ValueView::Tensor(view.tensor()?.reshaped(shape)?))),
        }
    }

    /// What a value is now that it is there.
    fn fact(&self, id: ValueId, values: &[Option<Value>]) -> Fact {
        match self.place(id) {
            Place::Arena { dtype, shape, .. } | Place::Own { dtype, shape } => {
                Fact::shaped(*dtype, shape)
            }
            place => match self.view(place, id, values) {
                Ok(Some(view)) => fact_of(view),
                _ => Fact::UNKNOWN,
            },
        }
    }

    /// Memory for those outputs of a step that are outputs of the graph, in order.
    fn own_outputs(&self, step: &Step) -> Result<SmallVec<[Tensor; 1]>, TensorError> {
        let mut own = SmallVec::new();
        for id in step.outputs.iter().flatten() {
            if let Place::Own { dtype, shape } = self.place(*id) {
                own.push(Tensor::zeros(*dtype, shape)?);
            }
        }
        Ok(own)
    }

    /// The outputs of the graph. Each value is moved out the last time it is asked for.
    fn collect(&self, state: &mut State) -> Result<Vec<Value>, RunError> {
        let outputs = self.plan.graph.outputs();
        let mut collected = Vec::with_capacity(outputs.len());
        for (i, &id) in outputs.iter().enumerate() {
            let is_last = !outputs[i + 1..].contains(&id);
            let place = self.place(id);
            let value = match place {
                Place::Known(value) => Some(value.clone()),
                Place::Input { .. } | Place::Capture { .. } => {
                    let view = self.view(place, id, &state.values);
                    view.ok().flatten().map(ValueView::to_value)
                }
                _ if is_last => state.values[id.index()].take(),
                _ => state.values[id.index()].clone(),
            };
            let name = || self.plan.graph.value(id).name.clone();
            collected.push(value.ok_or_else(|| RunError::NotComputed { value: name() })?);
        }
        Ok(collected)
    }

    fn error(&self, step: &Step, error: KernelError) -> RunError {
        let node = self.plan.graph.node(step.node);
        RunError::Node {
            node: node.label().to_owned(),
            op_type: node.op_type.clone(),
            error: Box::new(error),
        }
    }
}

fn wanted<'a>(id: &Option<ValueId>) -> Output<'a> {
    if id.is_some() { Output::free() } else { Output::unwanted() }
}
