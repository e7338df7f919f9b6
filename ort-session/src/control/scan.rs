//! Scan: `states…, stacked… = body(states…, slice t of each scanned input)` for each `t`.

// collects are bounded: as long as the graph's lists

use ort_ep::KernelError;
use ort_graph::{Attr, Node, OpError};
use ort_tensor::{Room, Tensor, TensorError, Value, ValueView};

use super::slices::{Sliced, pad_to, prefix, slice};
use super::stack::{Along, Stacks, empty, stacked};
use super::{Arguments, Held, captures, first};
use crate::plan::SubPlan;
use crate::run::{Arg, ControlError, Repeated, Run, Views};

/// How a Scan slices its inputs and stacks its outputs.
#[derive(Clone, Debug)]
pub(crate) struct ScanSpec {
    n_scan_inputs: usize,
    input_axes: Vec<i64>,
    input_reversed: Vec<bool>,
    output_axes: Vec<i64>,
    output_reversed: Vec<bool>,
    /// Version 8: all inputs have a leading batch dimension, and input 0 has sequence lengths.
    is_batched: bool,
}

impl ScanSpec {
    /// The attributes of a Scan, which its operator has validated.
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
    pub(super) fn run_scan(
        &self,
        body: &SubPlan,
        scan: &ScanSpec,
        inputs: &Views<'_>,
        n_own: usize,
    ) -> Result<Vec<Value>, ControlError> {
        if scan.is_batched {
            self.run_batched_scan(body, scan, inputs, n_own)
        } else {
            self.run_plain_scan(body, scan, &inputs[..n_own], inputs)
        }
    }

    fn run_plain_scan(
        &self,
        body: &SubPlan,
        scan: &ScanSpec,
        own: &[Option<ValueView<'_>>],
        outer: &Views<'_>,
    ) -> Result<Vec<Value>, ControlError> {
        let n_states = own.len().saturating_sub(scan.n_scan_inputs);
        let view = |index: usize| own[index].ok_or(TensorError::MissingInput { index });
        let mut states = Arguments::new();
        for index in 0..n_states {
            states.push(Arg::View(view(index)?));
        }
        // bounded: by the inputs and outputs of the graph
        let mut scanned = Vec::with_capacity(scan.n_scan_inputs);
        for i in 0..scan.n_scan_inputs {
            let (view, axis) = (view(n_states + i)?.tensor()?, scan.input_axes.get(i));
            let is_reversed = scan.input_reversed.get(i) == Some(&true);
            scanned.push(Sliced::new(view, axis.copied().unwrap_or(0), is_reversed)?);
        }
        let length = scanned.first().map_or(0, Sliced::len);
        if let Some(i) = scanned.iter().position(|scanned| scanned.len() != length) {
            let what = "scanned inputs of different lengths";
            return Err(OpError::InputValue { index: n_states + i, what }.into());
        }
        let mut stacks = Stacks::new(self, body, n_states, Some(length), |i| scan.along(i));
        let captures = captures(body, outer)?;
        let mut repeated = Repeated::new(self, &body.plan, &captures);
        for t in 0..length {
            let slices: Result<Vec<_>, _> =
                scanned.iter().map(|scanned| scanned.slice(t)).collect();
            let slices = slices?;
            let mut args = Arguments::new();
            states.into_iter().for_each(|arg| args.push(arg));
            args.extend(slices.iter().map(|slice| Arg::View(slice.view())));
            let layout = repeated.lay_out_declared(&args).map_err(ControlError::Run)?;
            let mut targets = stacks.targets(&body.plan.graph, layout)?;
            let made = self.iteration(&mut repeated, args, &mut targets)?;
            let targeted = targets.ids();
            let mut made = made.into_iter();
            states = made.by_ref().take(n_states).map(Arg::Moved).collect();
            repeated.hold(&states);
            stacks.add(&body.plan.graph, made, &targeted)?;
        }
        stacks.into_outputs(states, body)
    }

    /// Version 8: the same for each entry of the batch, up to its sequence length; the rest
    /// is zero.
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
        for (index, view) in own.iter().enumerate() {
            let view = view.ok_or(TensorError::MissingInput { index: index + 1 })?.tensor()?;
            if view.shape().first() != Some(&n) {
                let what = "has another batch size than input 1";
                return Err(OpError::InputValue { index: index + 1, what }.into());
            }
        }
        let held = Held::new(self);
        let mut entries: Vec<Vec<Value>> = Vec::new();
        for entry in 0..n {
            // bounded: by the inputs and outputs of the graph
            let mut values = Vec::with_capacity(own.len());
            for (index, view) in own.iter().enumerate() {
                let view = view.ok_or(TensorError::MissingInput { index: index + 1 })?.tensor()?;
                let mut value = self.bounded(|| slice(view, 0, entry))?;
                if let (true, Some(lengths)) = (index >= first_scanned, &lengths) {
                    let length = first(&lengths[entry.min(lengths.len())..], 0)?;
                    value = self.bounded(|| prefix(&value, length))?;
                }
                values.push(value);
            }
            let views: Vec<_> = values.iter().map(|value| Some(value.view())).collect();
            let unbatched = ScanSpec { is_batched: false, ..scan.clone() };
            let made = self.run_plain_scan(body, &unbatched, &views, inputs)?;
            held.more(made.iter().map(Value::held_bytes).fold(0, usize::saturating_add))?;
            entries.push(made);
        }
        let scanned =
            own.get(first_scanned).copied().flatten().map(ValueView::tensor).transpose()?;
        let length = scanned.and_then(|view| view.shape().get(1).copied()).unwrap_or(0);
        let n_outputs = body.plan.graph.outputs().len();
        // bounded: by the inputs and outputs of the graph
        let mut outputs = Vec::with_capacity(n_outputs);
        for i in 0..n_outputs {
            let padded = |made: &Vec<Value>| match i < first_scanned {
                true => Ok(made[i].clone()),
                false => pad_to(&made[i], length),
            };
            let output = self.bounded(|| match entries.is_empty() {
                true => nothing(body, i),
                false => batch_of(entries.iter().map(padded)),
            })?;
            held.more(output.held_bytes())?;
            outputs.push(output);
        }
        Ok(outputs)
    }
}

impl ScanSpec {
    fn along(&self, output: usize) -> Along {
        let axis = self.output_axes.get(output).copied().unwrap_or(0);
        Along { axis, is_reversed: self.output_reversed.get(output) == Some(&true) }
    }
}

/// The entries of a batch, stacked.
fn batch_of(
    entries: impl Iterator<Item = Result<Value, KernelError>>,
) -> Result<Value, KernelError> {
    let mut tensors = Room::new();
    for entry in entries {
        tensors.push(entry?.as_tensor()?.clone())?;
    }
    stacked(&tensors, 0, false)
}

/// An output of an empty batch.
fn nothing(body: &SubPlan, output: usize) -> Result<Value, KernelError> {
    let unknown = OpError::Unsupported { what: "an empty scan of unknown type" };
    let (dtype, mut shape) = empty(body, output).ok_or(unknown)?;
    shape.insert(0, 0);
    Ok(Tensor::zeros(dtype, &shape)?.into())
}
