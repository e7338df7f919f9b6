//! Control flow: If, Loop, Scan and SequenceMap run plans of their own.

use ort_ep::KernelError;
use ort_graph::OpError;
use ort_graph::{Attr, Dim, Node, ValueId};
use ort_tensor::move_elements;
use ort_tensor::{Bool, DType, Output, Shape, Tensor, TensorError, TensorView, Value, ValueView};
use smallvec::SmallVec;

use crate::plan::{Action, Args, SubPlan};
use crate::run::{ControlError, Run, Views};

/// How a Scan slices its inputs and stacks its outputs.
#[derive(Clone, Debug)]
pub(crate) struct ScanSpec {
    n_scan_inputs: usize,
    input_axes: Vec<i64>,
    input_reversed: Vec<bool>,
    output_axes: Vec<i64>,
    output_reversed: Vec<bool>,
    /// Version 8: a batch dimension in front of everything, and sequence lengths as input 0.
    is_batched: bool,
}

impl ScanSpec {
    /// What the attributes of a Scan say; its operator has checked them.
    pub(crate) fn of(node: &Node) -> Self {
        let ints = |name: &str| match node.attrs.get(name) {
            Some(Attr::Ints(ints)) => ints.clone(),
            _ => Vec::new(),
        };
        let flags = |name: &str| ints(name).iter().map(|&flag| flag != 0).collect();
        let n_scan_inputs = match node.attrs.get("num_scan_inputs") {
            Some(Attr::Int(n)) => usize::try_from(*n).unwrap_or(0),
            _ => 0,
        };
        let is_batched = node.since_version < 9;
        let directions = if is_batched { "directions" } else { "scan_input_directions" };
        Self {
            n_scan_inputs,
            input_axes: ints("scan_input_axes"),
            input_reversed: flags(directions),
            output_axes: ints("scan_output_axes"),
            output_reversed: flags("scan_output_directions"),
            is_batched,
        }
    }
}

impl Run<'_> {
    /// Runs a step of control flow. Of `inputs`, the first `n_own` are the node's, the others
    /// those that its subgraphs capture.
    pub(crate) fn control(
        &self,
        action: &Action,
        inputs: &Views<'_>,
        n_own: usize,
    ) -> Result<Vec<Value>, ControlError> {
        match action {
            Action::If { then_branch, else_branch } => {
                let branch = if truth(inputs, 0)? { then_branch } else { else_branch };
                self.sub_plan(branch, &[], inputs)
            }
            Action::Loop { body } => self.run_loop(body, inputs, n_own),
            Action::Scan { body, scan } if scan.is_batched => {
                self.run_batched_scan(body, scan, inputs, n_own)
            }
            Action::Scan { body, scan } => self.run_scan(body, scan, &inputs[..n_own], inputs),
            Action::SequenceMap { body } => self.run_sequence_map(body, &inputs[..n_own], inputs),
            Action::Run { .. } => Ok(Vec::new()),
        }
    }

    fn sub_plan(
        &self,
        sub: &SubPlan,
        args: &[ValueView<'_>],
        outer: &Views<'_>,
    ) -> Result<Vec<Value>, ControlError> {
        let mut captures: SmallVec<[ValueView<'_>; 8]> = SmallVec::new();
        for &index in &sub.captures {
            captures.push(outer[index].ok_or(TensorError::MissingInput { index })?);
        }
        let args = Args { inputs: args, captures: &captures };
        self.plan(&sub.plan, &args).map_err(ControlError::Run)
    }

    /// One iteration of a loop, if the run may have one more.
    fn iteration(
        &self,
        body: &SubPlan,
        args: &[ValueView<'_>],
        outer: &Views<'_>,
    ) -> Result<Vec<Value>, ControlError> {
        self.watch.map_or(Ok(()), |watch| watch.iteration())?;
        self.sub_plan(body, args, outer)
    }

    /// `while i < M && cond { cond, carried…, scanned… = body(i, cond, carried…) }`
    fn run_loop(
        &self,
        body: &SubPlan,
        inputs: &Views<'_>,
        n_own: usize,
    ) -> Result<Vec<Value>, ControlError> {
        let trips = match inputs.first().copied().flatten() {
            Some(view) => first(view.tensor()?.as_slice::<i64>()?, 0)?,
            None => i64::MAX,
        };
        let mut condition = inputs.get(1).is_none_or(Option::is_none) || truth(inputs, 1)?;
        let mut carried = Vec::new();
        for (index, input) in inputs[..n_own].iter().enumerate().skip(2) {
            carried.push(input.ok_or(TensorError::MissingInput { index })?.to_value());
        }
        let n_scanned = body.plan.graph.outputs().len().saturating_sub(1 + carried.len());
        let mut scanned = self.collect(n_scanned);
        let mut trip = 0;
        while trip < trips && condition {
            let (number, go_on) = (Tensor::scalar(trip), Tensor::scalar(Bool::from(condition)));
            let mut args = vec![ValueView::Tensor(number.view()), ValueView::Tensor(go_on.view())];
            args.extend(carried.iter().map(Value::view));
            let mut made = self.iteration(body, &args, inputs)?.into_iter();
            let next = made.next().ok_or(OpError::MissingAttribute { name: "body" })?;
            condition = first(next.as_tensor()?.as_slice::<Bool>()?, 0)?.get();
            carried = made.by_ref().take(carried.len()).collect();
            scanned.add(made)?;
            trip += 1;
        }
        let n_carried = carried.len();
        for (i, values) in scanned.values.iter().enumerate() {
            carried.push(stack(values, 0, false, || empty(body, 1 + n_carried + i))?);
        }
        Ok(carried)
    }

    /// `states…, scanned… = body(states…, slice t of each scanned input)` for each `t`.
    fn run_scan(
        &self,
        body: &SubPlan,
        scan: &ScanSpec,
        own: &[Option<ValueView<'_>>],
        outer: &Views<'_>,
    ) -> Result<Vec<Value>, ControlError> {
        let n_states = own.len().saturating_sub(scan.n_scan_inputs);
        let view = |index: usize| own[index].ok_or(TensorError::MissingInput { index });
        let mut states = Vec::with_capacity(n_states);
        for index in 0..n_states {
            states.push(view(index)?.to_value());
        }
        let mut scanned_inputs = Vec::with_capacity(scan.n_scan_inputs);
        let mut length = None;
        for i in 0..scan.n_scan_inputs {
            let view = view(n_states + i)?.tensor()?;
            let axis = axis(scan.input_axes.get(i).copied().unwrap_or(0), view.shape().len())?;
            let n = view.shape()[axis];
            if *length.get_or_insert(n) != n {
                let what = "scanned inputs of different lengths";
                return Err(OpError::InputValue { index: n_states + i, what }.into());
            }
            scanned_inputs.push((view, axis, scan.input_reversed.get(i) == Some(&true)));
        }
        let length = length.unwrap_or(0);
        let n_scanned = body.plan.graph.outputs().len().saturating_sub(n_states);
        let mut scanned = self.collect(n_scanned);
        for t in 0..length {
            let mut slices = Vec::with_capacity(scanned_inputs.len());
            for &(view, axis, is_reversed) in &scanned_inputs {
                slices.push(slice(view, axis, if is_reversed { length - 1 - t } else { t })?);
            }
            let args: Vec<_> = states.iter().chain(&slices).map(Value::view).collect();
            let mut made = self.iteration(body, &args, outer)?.into_iter();
            states = made.by_ref().take(n_states).collect();
            scanned.add(made)?;
        }
        for (i, values) in scanned.values.iter().enumerate() {
            let axis = scan.output_axes.get(i).copied().unwrap_or(0);
            let is_reversed = scan.output_reversed.get(i) == Some(&true);
            states.push(stack(values, axis, is_reversed, || empty(body, n_states + i))?);
        }
        Ok(states)
    }

    /// Version 8: the same for each entry of the batch, up to its sequence length; what comes
    /// after it is zero.
    fn run_batched_scan(
        &self,
        body: &SubPlan,
        scan: &ScanSpec,
        inputs: &Views<'_>,
        n_own: usize,
    ) -> Result<Vec<Value>, ControlError> {
        let own = &inputs[1..n_own];
        let first_scanned = own.len().saturating_sub(scan.n_scan_inputs);
        let batch = own.first().copied().flatten().ok_or(TensorError::MissingInput { index: 1 })?;
        let n = first(batch.tensor()?.shape(), 1)?;
        let lengths = match inputs[0] {
            Some(view) => Some(view.tensor()?.as_slice::<i64>()?.to_vec()),
            None => None,
        };
        let mut entries: Vec<Vec<Value>> = Vec::new();
        for entry in 0..n {
            let mut values = Vec::with_capacity(own.len());
            for (index, view) in own.iter().enumerate() {
                let view = view.ok_or(TensorError::MissingInput { index: index + 1 })?.tensor()?;
                let mut value = slice(view, 0, entry)?;
                if let (true, Some(lengths)) = (index >= first_scanned, &lengths) {
                    value = prefix(&value, first(&lengths[entry.min(lengths.len())..], 0)?)?;
                }
                values.push(value);
            }
            let views: Vec<_> = values.iter().map(|value| Some(value.view())).collect();
            let unbatched = ScanSpec { is_batched: false, ..scan.clone() };
            let made = self.run_scan(body, &unbatched, &views, inputs)?;
            entries.push(made);
        }
        let length = own.get(first_scanned).copied().flatten();
        let length = length
            .map(ValueView::tensor)
            .transpose()?
            .map_or(0, |view| view.shape().get(1).copied().unwrap_or(0));
        let n_outputs = body.plan.graph.outputs().len();
        let mut outputs = Vec::with_capacity(n_outputs);
        for i in 0..n_outputs {
            let mut column: Vec<Value> = entries.iter().map(|made| made[i].clone()).collect();
            if i >= first_scanned {
                for value in &mut column {
                    *value = pad_to(value, length)?;
                }
            }
            outputs.push(stack(&column, 0, false, || empty(body, i))?);
        }
        Ok(outputs)
    }

    /// `y…[i] = body(x[i], …)` for each item of the first input: items of the other sequences, and
    /// the tensors themselves.
    fn run_sequence_map(
        &self,
        body: &SubPlan,
        own: &[Option<ValueView<'_>>],
        outer: &Views<'_>,
    ) -> Result<Vec<Value>, ControlError> {
        let mut views = Vec::with_capacity(own.len());
        let mut length = None;
        for (index, input) in own.iter().enumerate() {
            let view = input.ok_or(TensorError::MissingInput { index })?;
            if index == 0 || !matches!(view, ValueView::Tensor(_)) {
                let n = view.sequence()?.len();
                if *length.get_or_insert(n) != n {
                    let what = "the sequence is not as long as that of input 0";
                    return Err(OpError::InputValue { index, what }.into());
                }
            }
            views.push(view);
        }
        let length = length.unwrap_or(0);
        let n_outputs = body.plan.graph.outputs().len();
        let mut mapped = self.collect(n_outputs);
        for i in 0..length {
            let args: Result<Vec<_>, _> = views.iter().map(|&view| item(view, i)).collect();
            let made = self.iteration(body, &args?, outer)?;
            mapped.add(made.into_iter())?;
        }
        Ok(mapped.values.into_iter().map(Value::Sequence).collect())
    }
}

/// Item `at` of a sequence; a tensor as it is.
fn item(view: ValueView<'_>, at: usize) -> Result<ValueView<'_>, TensorError> {
    match view {
        ValueView::Tensor(_) => Ok(view),
        _ => Ok(view.sequence()?[at].view()),
    }
}

fn truth(inputs: &Views<'_>, index: usize) -> Result<bool, KernelError> {
    let view = inputs.get(index).copied().flatten().ok_or(TensorError::MissingInput { index })?;
    Ok(first(view.tensor()?.as_slice::<Bool>()?, index)?.get())
}

fn first<T: Copy>(values: &[T], index: usize) -> Result<T, OpError> {
    values.first().copied().ok_or(OpError::InputValue { index, what: "should have one element" })
}

fn axis(axis: i64, rank: usize) -> Result<usize, OpError> {
    ort_ops::infer::normalize_axis(axis, rank)
}

/// What a scanned output without any element looks like: the body's shape, unknown dimensions 0.
fn empty(body: &SubPlan, output: usize) -> Option<(DType, Shape)> {
    let graph = &body.plan.graph;
    let id: ValueId = *graph.outputs().get(output)?;
    let dims = graph.fact(id).dims().unwrap_or_default();
    let dim = |dim: &Dim| dim.known().unwrap_or(0);
    Some((graph.fact(id).dtype()?, dims.iter().map(dim).collect()))
}

/// `view[…, at, …]` along `axis`, that dimension gone.
fn slice(view: TensorView<'_>, axis: usize, at: usize) -> Result<Value, TensorError> {
    let (outer, inner) = around(view.shape(), axis);
    let n = view.shape()[axis];
    let mut shape = Shape::from_slice(view.shape());
    shape.remove(axis);
    let mut tensor = Tensor::zeros(view.dtype(), &shape)?;
    move_elements!(view => tensor.view_mut(), |src, dst| for o in 0..outer {
        let from = (o * n + at) * inner;
        dst[o * inner..(o + 1) * inner].clone_from_slice(&src[from..from + inner]);
    })?;
    Ok(Value::Tensor(tensor))
}

/// The values side by side along a new dimension at `axis`.
fn stack(
    values: &[Value],
    axis: i64,
    is_reversed: bool,
    empty: impl Fn() -> Option<(DType, Shape)>,
) -> Result<Value, KernelError> {
    let (dtype, shape) = match values.first() {
        Some(value) => {
            let tensor = value.as_tensor()?;
            (tensor.dtype(), Shape::from_slice(tensor.shape()))
        }
        None => empty().ok_or(OpError::Unsupported { what: "an empty scan of unknown type" })?,
    };
    let axis = self::axis(axis, shape.len() + 1)?;
    let n = values.len();
    let mut stacked = shape.clone();
    stacked.insert(axis, n);
    let mut output = Output::free();
    let mut tensor = output.tensor(dtype, &stacked)?;
    let (outer, inner) = around(&stacked, axis);
    for (t, value) in values.iter().enumerate() {
        let view = value.as_tensor()?.view();
        if view.dtype() != dtype || view.shape() != shape.as_slice() {
            let (left, right) = (shape.to_vec(), view.shape().to_vec());
            return Err(OpError::Shapes { what: "scanned outputs", left, right }.into());
        }
        let at = if is_reversed { n - 1 - t } else { t };
        move_elements!(view => tensor.reborrow(), |src, dst| for o in 0..outer {
            let to = (o * n + at) * inner;
            dst[to..to + inner].clone_from_slice(&src[o * inner..(o + 1) * inner]);
        })?;
    }
    output.into_value().ok_or(KernelError::Op(OpError::TooLarge))
}

/// How many elements there are before and after a dimension.
fn around(shape: &[usize], axis: usize) -> (usize, usize) {
    (shape[..axis].iter().product(), shape[axis + 1..].iter().product())
}

/// The first `length` entries along dimension 0.
fn prefix(value: &Value, length: i64) -> Result<Value, KernelError> {
    let view = value.as_tensor()?.view();
    let length = usize::try_from(length).ok().filter(|n| view.shape().first() >= Some(n));
    let length = length.ok_or(OpError::InputValue { index: 0, what: "a length out of range" })?;
    let mut shape = Shape::from_slice(view.shape());
    shape[0] = length;
    resized(view, &shape)
}

/// The same with zeros after it along dimension 0, `length` entries in all.
fn pad_to(value: &Value, length: usize) -> Result<Value, KernelError> {
    let view = value.as_tensor()?.view();
    let mut shape = Shape::from_slice(view.shape());
    match shape.first_mut() {
        Some(first) => *first = length,
        None => return Err(OpError::InputRank { index: 0, expected: "1 or more", found: 0 }.into()),
    }
    resized(view, &shape)
}

fn resized(view: TensorView<'_>, shape: &[usize]) -> Result<Value, KernelError> {
    let mut tensor = Tensor::zeros(view.dtype(), shape)?;
    move_elements!(view => tensor.view_mut(), |src, dst| {
        let n = src.len().min(dst.len());
        dst[..n].clone_from_slice(&src[..n]);
    })?;
    Ok(Value::Tensor(tensor))
}
