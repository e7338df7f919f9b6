//! Which values of a graph are in NCHWc.

use std::collections::HashMap;

use ort_graph::{Attr, Graph, Node, NodeId, ValueId};
use ort_ops::blocked::{FilterForm, unblocked_filter};
use ort_tensor::{DType, Tensor};

use super::classes::{Classes, Conflict, Known};
use super::error::NchwcError;
use super::view::View;
use super::{DOMAIN, is_elementwise};

/// The values in NCHWc of one graph, and the nodes that compute or read them.
#[derive(Debug)]
pub(super) struct Survey<'g> {
    pub(super) graph: &'g Graph,
    /// In topological order.
    pub(super) steps: Vec<(NodeId, Step<'g>)>,
    pub(super) values: HashMap<ValueId, NchwcValue>,
    pub(super) classes: Classes,
}

/// A value in NCHWc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NchwcValue {
    /// Which of [`Classes`] has its channels.
    pub(super) class: usize,
    /// Whether its shape is `[N, C/B, H, W, B]`, for broadcasting.
    pub(super) is_split: bool,
}

/// What a node does with values in NCHWc.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'g> {
    /// A convolution.
    Conv(Filter<'g>),
    /// A pool, Upsample or elementwise operator: every channel becomes one channel.
    Alike,
    /// Concat of channels.
    Concat,
    /// Split or Slice of channels.
    Parts,
    /// The shape, padding included.
    Shape,
    /// Reshape to `[N, C/B, H, W, B]`, of this B.
    Split(usize),
    /// Reshape back to `[N, C, H, W]`.
    Merge,
    /// Reshape to something else, which depends on the memory order.
    Raw,
    /// ReorderInput of so many channels, if that is known before a run.
    ReorderInput { channels: Option<usize> },
    /// ReorderOutput of so many channels.
    ReorderOutput { channels: usize },
}

/// The filters of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter<'g> {
    pub(super) kind: FilterKind,
    pub(super) group: usize,
    /// `[O, I, KH, KW]`, in NCHWc.
    pub(super) weights: &'g Tensor,
}

/// What filters read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterKind {
    /// An input in NCHW.
    Nchw,
    /// An input in NCHWc, one channel each.
    Depthwise,
    /// An input in NCHWc, the channels of their group.
    Grouped,
    /// An input in NCHWc, all channels.
    Dense,
}

impl Filter<'_> {
    /// The filters in OIHW order, padding included.
    ///
    /// # Errors
    /// If they do not fit blocks of this size.
    pub(super) fn plain(&self, block: usize) -> Result<Tensor, NchwcError> {
        let form = match self.kind {
            FilterKind::Nchw | FilterKind::Depthwise => FilterForm::Outputs,
            FilterKind::Grouped | FilterKind::Dense => FilterForm::InputsAndOutputs,
        };
        Ok(unblocked_filter(self.weights.view(), form, block)?)
    }

    /// `[O, I, KH, KW]`.
    pub(super) fn shape(&self) -> [usize; 4] {
        <[usize; 4]>::try_from(self.weights.shape()).unwrap_or_default()
    }
}

/// What is wrong with a node; the caller adds its name.
type Wrong = &'static str;

impl<'g> Survey<'g> {
    /// # Errors
    /// If a reader does not support NCHWc, or channels do not fit.
    pub(super) fn of(graph: &'g Graph) -> Result<Self, NchwcError> {
        let (steps, values, classes) = (Vec::new(), HashMap::new(), Classes::default());
        let mut survey = Self { graph, steps, values, classes };
        for id in graph.topological_order()? {
            let node = graph.node(id);
            if let Some(step) = survey.step(node).map_err(|what| at(node, what))? {
                survey.steps.push((id, step));
            }
        }
        for (id, _) in &survey.steps {
            let node = graph.node(*id);
            let returned = node.outputs.iter().flatten().filter(|id| graph.is_output(**id));
            if returned.into_iter().any(|id| survey.values.contains_key(id)) {
                return Err(at(node, "the graph returns its result, which is in NCHWc"));
            }
        }
        Ok(survey)
    }

    fn step(&mut self, node: &'g Node) -> Result<Option<Step<'g>>, Wrong> {
        if node.captured.iter().any(|id| self.values.contains_key(id)) {
            return Err("a subgraph reads data in NCHWc");
        }
        let is_nchwc = node.domain == DOMAIN;
        let reads_nchwc = node.inputs.iter().flatten().any(|id| self.values.contains_key(id));
        match node.op_type.as_str() {
            "Conv" if is_nchwc => self.conv(node).map(Some),
            "ReorderInput" if is_nchwc => self.reorder_input(node).map(Some),
            "ReorderOutput" if is_nchwc => self.reorder_output(node).map(Some),
            _ if is_nchwc => self.alike(node).map(Some),
            _ if !reads_nchwc => Ok(None),
            "Concat" => self.concat(node).map(Some),
            "Split" => self.parts(node).map(Some),
            "Slice" => self.slice(node).map(Some),
            "Shape" => Ok(Some(Step::Shape)),
            "Reshape" => self.reshape(node).map(Some),
            _ if is_elementwise(node) => self.alike(node).map(Some),
            _ => Err("it cannot read data in NCHWc"),
        }
    }

    fn conv(&mut self, node: &'g Node) -> Result<Step<'g>, Wrong> {
        let x = input(node, 0)?;
        let weights = input(node, 1)?;
        let weights = self.graph.constant(weights).ok_or("its filters are not constant")?;
        let &[o, i, _, _] = weights.shape() else { return Err("its filters are not of rank 4") };
        if weights.dtype() != DType::F32 {
            return Err("its filters are not float32");
        }
        let group = match node.attrs.get("group") {
            Some(&Attr::Int(group)) => usize::try_from(group).map_err(|_| "it has no group")?,
            _ => 1,
        };
        let y = self.classes.add(Known::padded(o));
        let kind = match self.values.get(&x).copied() {
            None if group == 1 => FilterKind::Nchw,
            Some(x) if group == 1 => {
                self.learn(x, Known::padded(i))?;
                FilterKind::Dense
            }
            Some(x) if i == 1 && o == group => {
                self.join(x.class, y)?;
                FilterKind::Depthwise
            }
            Some(x) => {
                self.learn(x, Known::padded(i.saturating_mul(group)))?;
                FilterKind::Grouped
            }
            None => return Err("it has groups of an input in NCHW"),
        };
        if let Some(&Some(sum)) = node.inputs.get(3) {
            let sum = self.values.get(&sum).ok_or("its summand is in NCHW")?.class;
            self.join(y, sum)?;
        }
        self.put(node, NchwcValue { class: y, is_split: false })?;
        Ok(Step::Conv(Filter { kind, group, weights }))
    }

    fn reorder_input(&mut self, node: &'g Node) -> Result<Step<'g>, Wrong> {
        let x = input(node, 0)?;
        if self.values.contains_key(&x) {
            return Err("its input is in NCHWc already");
        }
        let channels = reordered_channels(self.graph, node);
        let class = self.classes.add(Known { padded: None, named: channels });
        let y = node.outputs.first().copied().flatten();
        let known = y.and_then(|y| self.graph.fact(y).dims()?.get(1)?.known());
        if let Some(padded) = known {
            self.learn(NchwcValue { class, is_split: false }, Known::padded(padded))?;
        }
        self.put(node, NchwcValue { class, is_split: false })?;
        Ok(Step::ReorderInput { channels })
    }

    fn reorder_output(&mut self, node: &'g Node) -> Result<Step<'g>, Wrong> {
        let x = *self.values.get(&input(node, 0)?).ok_or("its input is in NCHW")?;
        let channels = match node.attrs.get("channels") {
            Some(&Attr::Int(channels)) => usize::try_from(channels).ok(),
            _ => None,
        };
        let channels = channels.ok_or("its channels are not known")?;
        self.learn(x, Known { padded: None, named: Some(channels) })?;
        Ok(Step::ReorderOutput { channels })
    }

    /// A node whose inputs and output have the same channels; other inputs are single numbers, or
    /// one for each channel.
    fn alike(&mut self, node: &'g Node) -> Result<Step<'g>, Wrong> {
        let mut common: Option<NchwcValue> = None;
        let mut has_numbers = false;
        for &id in node.inputs.iter().flatten() {
            match (self.values.get(&id).copied(), common) {
                (None, _) if self.graph.constant(id).is_some_and(|number| number.len() == 1) => {}
                (None, _) if self.graph.constant(id).is_some_and(is_of_channels) => {
                    has_numbers = true;
                }
                (None, _) => return Err("some of its inputs are in NCHWc and some are not"),
                (Some(value), None) => common = Some(value),
                (Some(value), Some(common)) if value.is_split == common.is_split => {
                    self.join(common.class, value.class)?;
                }
                _ => return Err("its inputs in NCHWc have different shapes"),
            }
        }
        let value = common.ok_or("its input is in NCHW")?;
        if has_numbers && !value.is_split {
            return Err("some of its inputs are in NCHWc and some are not");
        }
        self.put(node, value)?;
        Ok(Step::Alike)
    }

    fn concat(&mut self, node: &'g Node) -> Result<Step<'g>, Wrong> {
        if !matches!(node.attrs.get("axis"), Some(Attr::Int(1 | -3))) {
            return Err("it does not concatenate along channels");
        }
        let mut padded = Some(0_usize);
        for id in node.inputs.iter().flatten() {
            let value = self.values.get(id).filter(|value| !value.is_split);
            let value = value.ok_or("some of its inputs are in NCHWc and some are not")?;
            let own = self.classes.known(value.class).padded;
            padded = padded.zip(own).and_then(|(sum, own)| sum.checked_add(own));
        }
        let class = self.classes.add(Known { padded, named: None });
        self.put(node, NchwcValue { class, is_split: false })?;
        Ok(Step::Concat)
    }

    fn slice(&mut self, node: &'g Node) -> Result<Step<'g>, Wrong> {
        let ints = |index: usize| self.graph.fact(input(node, index).ok()?).ints();
        let axes = match node.attrs.get("axes") {
            Some(Attr::Ints(axes)) => Some(axes.clone()),
            _ => ints(3),
        };
        let has_steps = node.inputs.len() > 4 && ints(4).as_deref() != Some(&[1]);
        if has_steps || !matches!(axes.as_deref(), Some([1 | -3])) {
            return Err("it does not split along channels");
        }
        self.parts(node)
    }

    fn parts(&mut self, node: &'g Node) -> Result<Step<'g>, Wrong> {
        let x = self.values.get(&input(node, 0)?).filter(|value| !value.is_split);
        x.ok_or("some of its inputs are in NCHWc and some are not")?;
        if node.op_type == "Split" && !matches!(node.attrs.get("axis"), Some(Attr::Int(1 | -3))) {
            return Err("it does not split along channels");
        }
        for &y in node.outputs.iter().flatten() {
            let padded = self.graph.fact(y).dims().and_then(|dims| dims.get(1)?.known());
            let class = self.classes.add(Known { padded, named: None });
            self.values.insert(y, NchwcValue { class, is_split: false });
        }
        Ok(Step::Parts)
    }

    fn reshape(&mut self, node: &'g Node) -> Result<Step<'g>, Wrong> {
        let (id, shape) = (input(node, 0)?, input(node, 1)?);
        let x = *self.values.get(&id).ok_or("its shape is in NCHWc")?;
        let takes_zero = matches!(node.attrs.get("allowzero"), Some(&Attr::Int(1)));
        let shape = self.graph.fact(shape).ints();
        let view = shape.and_then(|shape| View::of(&shape, takes_zero, self.graph.fact(id).dims()));
        let (step, known) = match view {
            Some((View::Split(block), known)) if !x.is_split => (Step::Split(block), known),
            Some((View::Merged, known)) if x.is_split => (Step::Merge, known),
            _ => return Ok(Step::Raw),
        };
        self.learn(x, known)?;
        self.put(node, NchwcValue { is_split: !x.is_split, ..x })?;
        Ok(step)
    }

    fn put(&mut self, node: &Node, value: NchwcValue) -> Result<(), Wrong> {
        let y = node.outputs.first().copied().flatten().ok_or("it has no output")?;
        if node.outputs.iter().skip(1).any(Option::is_some) {
            return Err("it has more than one output");
        }
        self.values.insert(y, value);
        Ok(())
    }

    fn learn(&mut self, value: NchwcValue, known: Known) -> Result<(), Wrong> {
        self.classes.learn(value.class, known).map_err(|Conflict| Conflict::WHAT)
    }

    fn join(&mut self, a: usize, b: usize) -> Result<(), Wrong> {
        self.classes.join(a, b).map_err(|Conflict| Conflict::WHAT)
    }

    /// The known facts about the channels of a value in NCHWc.
    pub(super) fn known(&self, id: ValueId) -> Known {
        self.values.get(&id).map(|value| self.classes.known(value.class)).unwrap_or_default()
    }
}

/// Whether a constant has a number for each channel, `[1, C/B, 1, 1, B]`.
pub(super) fn is_of_channels(constant: &Tensor) -> bool {
    constant.dtype() == DType::F32 && matches!(constant.shape(), [1, _, 1, 1, _])
}

/// How many channels a ReorderInput reads, if that is known before a run.
pub(super) fn reordered_channels(graph: &Graph, node: &Node) -> Option<usize> {
    let axis = if is_channels_last(node) { 3 } else { 1 };
    graph.fact(node.inputs.first().copied().flatten()?).dims()?.get(axis)?.known()
}

/// The attribute `channels_last`.
pub(super) fn is_channels_last(node: &Node) -> bool {
    matches!(node.attrs.get("channels_last"), Some(&Attr::Int(1)))
}

/// The error that `node` is invalid.
pub(super) fn at(node: &Node, what: Wrong) -> NchwcError {
    NchwcError::Node { node: node.label().to_owned(), op_type: node.op_type.clone(), what }
}

fn input(node: &Node, index: usize) -> Result<ValueId, Wrong> {
    node.inputs.get(index).copied().flatten().ok_or("an input is missing")
}
