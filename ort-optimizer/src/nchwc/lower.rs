//! Lowers a graph to plain operators.

mod raw;

use std::collections::{HashMap, HashSet};

use ort_graph::{Attr, Attrs, Dim, Fact, Graph, NewNode, Node, NodeId, Patch, Registry, ValueId};
use ort_tensor::{DType, Pace, Room, Tensor};

use super::DOMAIN;
use super::error::NchwcError;
use super::padding::Kept;
use super::survey::{Filter, FilterKind, Step, Survey, at, is_channels_last, is_of_channels};

/// Replaces all nodes that read or compute NCHWc with this block size by plain ones, except in subgraphs. The new
/// nodes follow the version that the model imports, unless Pad, Slice and Resize had another form then.
///
/// # Errors
/// If a range of channels exceeds the channels of its input.
pub(super) fn lower(
    graph: &mut Graph,
    registry: &Registry,
    block: usize,
    opset: Option<i64>,
) -> Result<(), NchwcError> {
    let survey = Survey::of(graph)?;
    if survey.steps.is_empty() {
        return Ok(());
    }
    let mut lowering = Lowering::new(&survey, block)?;
    for &(id, step) in &survey.steps {
        lowering.step(id, step)?;
    }
    let mut patch = lowering.patch;
    if let Some(opset) = opset.and_then(|opset| i32::try_from(opset).ok())
        && opset >= 11
    {
        patch.limit_version("", opset);
    }
    patch.commit(graph, registry)?;
    Ok(())
}

struct Lowering<'s> {
    survey: &'s Survey<'s>,
    kept: Kept<'s>,
    block: usize,
    patch: Patch,
    /// The plain form of values.
    plain: HashMap<ValueId, ValueId>,
    /// Filters in plain order, padding included.
    filters: HashMap<ValueId, Tensor>,
    /// Filters and biases without padding, by the original and the kept sizes.
    cropped: HashMap<(ValueId, usize, usize), ValueId>,
    /// How many values the graph has: ids of the patch follow.
    n_values: usize,
    /// Values that take over the names of outputs.
    returned: HashSet<ValueId>,
}

impl<'s> Lowering<'s> {
    fn new(survey: &'s Survey<'s>, block: usize) -> Result<Self, NchwcError> {
        let mut filters = HashMap::new();
        for &(id, step) in &survey.steps {
            if let (Step::Conv(filter), Some(&Some(weights))) =
                (step, survey.graph.node(id).inputs.get(1))
            {
                filters.insert(weights, filter.plain(block)?);
            }
        }
        let kept = Kept::of(survey, &filters, block)?;
        Ok(Self {
            survey,
            kept,
            block,
            patch: Patch::new(survey.graph),
            plain: HashMap::new(),
            filters,
            cropped: HashMap::new(),
            n_values: survey.graph.value_ids().count(),
            returned: HashSet::new(),
        })
    }

    fn plain(&self, id: ValueId) -> ValueId {
        self.plain.get(&id).copied().unwrap_or(id)
    }

    fn step(&mut self, id: NodeId, step: Step<'_>) -> Result<(), NchwcError> {
        let node = self.survey.graph.node(id);
        if matches!(step, Step::Shape) {
            return self.shape(node);
        }
        self.patch.sweep(id);
        if matches!(step, Step::Parts) {
            return self.parts(node);
        }
        let (Some(&Some(x)), Some(&Some(y))) = (node.inputs.first(), node.outputs.first()) else {
            return Err(at(node, "an input or output is missing"));
        };
        match step {
            Step::Conv(filter) => self.conv(node, filter, y),
            Step::Alike | Step::Concat => self.alike(node, y),
            Step::Parts | Step::Shape => Ok(()),
            Step::Split(_) | Step::Merge => {
                self.plain.insert(y, self.plain(x));
                Ok(())
            }
            Step::Raw => self.raw(node, x, y),
            Step::ReorderInput { channels } => self.reorder_input(node, (x, y), channels),
            Step::ReorderOutput { channels } => self.reorder_output(node, (x, y), channels),
        }
    }

    fn conv(&mut self, node: &Node, filter: Filter<'_>, y: ValueId) -> Result<(), NchwcError> {
        let [Some(x), Some(weights), ..] = *node.inputs else {
            return Err(at(node, "an input is missing"));
        };
        let [_, i, ..] = filter.shape();
        let n_outputs = self.kept.of_value(y).unwrap_or(0);
        let n_inputs = if filter.kind == FilterKind::Dense { self.kept.of_value(x) } else { None };
        let group = if filter.kind == FilterKind::Depthwise { n_outputs } else { filter.group };
        let weights = self.filter(weights, [n_outputs, n_inputs.unwrap_or(i)])?;
        let bias = match node.inputs.get(2) {
            Some(&Some(bias)) => Some(self.bias(node, bias, n_outputs)?),
            _ => None,
        };
        let sum = node.inputs.get(3).copied().flatten().map(|sum| self.plain(sum));
        let mut inputs = vec![Some(self.plain(x)), Some(weights), bias, sum];
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        let is_fused = sum.is_some() || node.attrs.get("activation").is_some();
        let group = Attr::Int(i64::try_from(group).unwrap_or(i64::MAX));
        let attrs = plain_attrs(node).with("group", group);
        let (domain, op_type, since_version) =
            if is_fused { ("com.microsoft", "FusedConv", 1) } else { ("", "Conv", 11) };
        let new = NewNode { attrs, ..new_node(node, domain, op_type, since_version, inputs) };
        self.put(new, y)
    }

    /// A pool, Upsample, Concat or elementwise operator.
    fn alike(&mut self, node: &Node, y: ValueId) -> Result<(), NchwcError> {
        let inputs = node.inputs.iter().map(|id| id.map(|id| self.operand(id, y)).transpose());
        let inputs = inputs.collect::<Result<Vec<_>, NchwcError>>()?;
        if node.domain != DOMAIN {
            let new = new_node(node, &node.domain, &node.op_type, node.since_version, inputs);
            return self.put(NewNode { attrs: node.attrs.clone(), ..new }, y);
        }
        if node.op_type == "Upsample" {
            return self.upsample(node, inputs, y);
        }
        let since_version = match node.op_type.as_str() {
            "MaxPool" => 12,
            "AveragePool" => 19,
            _ => 1,
        };
        let new = new_node(node, "", &node.op_type, since_version, inputs);
        self.put(NewNode { attrs: plain_attrs(node), ..new }, y)
    }

    /// A value in NCHW, or one number for each channel that `y` keeps.
    fn operand(&mut self, id: ValueId, y: ValueId) -> Result<ValueId, NchwcError> {
        let constant = self.survey.graph.constant(id);
        let Some(constant) = constant.filter(|constant| is_of_channels(constant)) else {
            return Ok(self.plain(id));
        };
        let n = self.kept.of_value(y).unwrap_or(constant.len());
        if let Some(&value) = self.cropped.get(&(id, n, 1)) {
            return Ok(value);
        }
        let numbers = constant.as_slice::<f32>()?;
        let numbers = Tensor::from_slice(&[1, n, 1, 1], &numbers[..n.min(numbers.len())])?;
        let value = self.patch.constant(self.survey.graph.value(id).name.clone(), numbers)?;
        self.cropped.insert((id, n, 1), value);
        Ok(value)
    }

    /// A Shape of channels that are all kept.
    fn shape(&mut self, node: &Node) -> Result<(), NchwcError> {
        let (Some(&Some(x)), Some(&Some(y))) = (node.inputs.first(), node.outputs.first()) else {
            return Err(at(node, "an input or output is missing"));
        };
        let inputs = vec![Some(self.plain(x))];
        let new = new_node(node, "", "Shape", node.since_version, inputs);
        let shape = self.patch.output_of(NewNode { attrs: node.attrs.clone(), ..new })?;
        self.patch.replace(y, shape);
        Ok(())
    }

    /// A Split or Slice of channels.
    fn parts(&mut self, node: &Node) -> Result<(), NchwcError> {
        let inputs = node.inputs.iter().map(|id| id.map(|id| self.plain(id))).collect();
        let new = new_node(node, &node.domain, &node.op_type, node.since_version, inputs);
        let outputs = node.outputs.iter().map(|y| y.map(|y| self.value(y)).transpose());
        let outputs = outputs.collect::<Result<_, NchwcError>>()?;
        self.patch.node(NewNode { attrs: node.attrs.clone(), outputs, ..new });
        Ok(())
    }

    fn upsample(
        &mut self,
        node: &Node,
        mut inputs: Vec<Option<ValueId>>,
        y: ValueId,
    ) -> Result<(), NchwcError> {
        let scales: Vec<f32> = match node.attrs.get("scales") {
            Some(Attr::Ints(scales)) => scales.iter().map(|&scale| scale as f32).collect(),
            _ => vec![1.0; 4],
        };
        let scales = Tensor::from_slice(&[scales.len()], &scales)?;
        // No region, but before version 13 the input was required.
        let roi = Tensor::zeros(DType::F32, &[0])?;
        let operands = [self.patch.constant("roi", roi)?, self.patch.constant("scales", scales)?];
        inputs.extend(operands.map(Some));
        let coordinates = "coordinate_transformation_mode";
        let text = |text: &str| Attr::String(text.to_owned());
        let or = |name, default| node.attrs.get(name).cloned().unwrap_or_else(|| text(default));
        let attrs = Attrs::new()
            .with(coordinates, or(coordinates, "asymmetric"))
            .with("mode", or("mode", "nearest"))
            .with("nearest_mode", text("floor"));
        self.put(NewNode { attrs, ..new_node(node, "", "Resize", 13, inputs) }, y)
    }

    fn reorder_input(
        &mut self,
        node: &Node,
        (x, y): (ValueId, ValueId),
        channels: Option<usize>,
    ) -> Result<(), NchwcError> {
        let mut value = self.plain(x);
        if is_channels_last(node) {
            value = self.patch.output_of(transpose(node, value, [0, 3, 1, 2]))?;
        }
        let padding =
            self.kept.of_value(y).zip(channels).map_or(0, |(kept, n)| kept.saturating_sub(n));
        if padding > 0 {
            let padding = i64::try_from(padding).unwrap_or(i64::MAX);
            let pads = Tensor::from_slice(&[8], &[0, 0, 0, 0, 0, padding, 0, 0])?;
            let pads = self.patch.constant("pads", pads)?;
            let inputs = vec![Some(value), Some(pads)];
            value = self.patch.output_of(new_node(node, "", "Pad", 13, inputs))?;
        }
        self.plain.insert(y, value);
        Ok(())
    }

    fn reorder_output(
        &mut self,
        node: &Node,
        (x, y): (ValueId, ValueId),
        channels: usize,
    ) -> Result<(), NchwcError> {
        let mut value = self.plain(x);
        if self.kept.of_value(x).is_some_and(|kept| kept > channels) {
            let mut int = |name, n: usize| {
                let n = i64::try_from(n).unwrap_or(i64::MAX);
                self.patch.constant(name, Tensor::from_slice(&[1], &[n])?).map_err(NchwcError::from)
            };
            let (start, end, axis) = (int("start", 0)?, int("end", channels)?, int("axis", 1)?);
            let inputs = [value, start, end, axis].map(Some).to_vec();
            value = self.patch.output_of(new_node(node, "", "Slice", 13, inputs))?;
        }
        if is_channels_last(node) {
            value = self.patch.output_of(transpose(node, value, [0, 2, 3, 1]))?;
        }
        // Only a value of the patch can take over the name of an output, and only one.
        let is_returned = self.survey.graph.is_output(y);
        if is_returned && (value.index() < self.n_values || !self.returned.insert(value)) {
            let new = new_node(node, "", "Identity", 13, vec![Some(value)]);
            value = self.patch.output_of(new)?;
        }
        self.patch.replace(y, value);
        self.plain.insert(y, value);
        Ok(())
    }

    /// Adds a node that computes `y` in NCHW.
    fn put(&mut self, new: NewNode, y: ValueId) -> Result<(), NchwcError> {
        let value = self.value(y)?;
        self.patch.node(NewNode { outputs: vec![Some(value)], ..new });
        Ok(())
    }

    /// A new value for `y` in NCHW.
    fn value(&mut self, y: ValueId) -> Result<ValueId, NchwcError> {
        let graph = self.survey.graph;
        let fact = match (graph.fact(y).dims(), self.kept.of_value(y)) {
            (Some([n, _, h, w, ..]), Some(channels)) => {
                let channels = Dim::Known(channels);
                Fact::tensor(DType::F32, [n.clone(), channels, h.clone(), w.clone()])
            }
            _ => Fact::UNKNOWN,
        };
        let value = self.patch.value(graph.value(y).name.clone(), fact)?;
        self.plain.insert(y, value);
        Ok(value)
    }

    /// The first channels of filters, in plain order.
    fn filter(&mut self, id: ValueId, [o, i]: [usize; 2]) -> Result<ValueId, NchwcError> {
        if let Some(&value) = self.cropped.get(&(id, o, i)) {
            return Ok(value);
        }
        let Some(filters) = self.filters.get(&id) else { return Ok(id) };
        let tensor = cropped(filters, o, i)?;
        let value = self.patch.constant(self.survey.graph.value(id).name.clone(), tensor)?;
        self.cropped.insert((id, o, i), value);
        Ok(value)
    }

    /// The first values of a bias.
    fn bias(&mut self, node: &Node, id: ValueId, n: usize) -> Result<ValueId, NchwcError> {
        let wrong = || at(node, "its bias is not one constant number per channel");
        let bias = self.survey.graph.constant(id).ok_or_else(wrong)?;
        if bias.shape() == [n] {
            return Ok(id);
        }
        if let Some(&value) = self.cropped.get(&(id, n, 1)) {
            return Ok(value);
        }
        let values = bias.as_slice::<f32>()?.get(..n).ok_or_else(wrong)?;
        let tensor = Tensor::from_slice(&[n], values)?;
        let value = self.patch.constant(self.survey.graph.value(id).name.clone(), tensor)?;
        self.cropped.insert((id, n, 1), value);
        Ok(value)
    }
}

/// The first filters, for the first input channels.
fn cropped(filters: &Tensor, o: usize, i: usize) -> Result<Tensor, NchwcError> {
    let &[all_o, all_i, kh, kw] = filters.shape() else { return Ok(filters.clone()) };
    if (o, i) == (all_o, all_i) {
        return Ok(filters.clone());
    }
    if filters.is_empty() {
        return Ok(Tensor::zeros(DType::F32, &[o, i, kh, kw])?);
    }
    let rows = filters.as_slice::<f32>()?.chunks_exact(all_i * kh * kw);
    let len = i * kh * kw;
    let (mut kept, mut pace) = (Room::with_room(o.saturating_mul(len))?, Pace::new());
    for row in rows.take(o) {
        pace.go(len)?;
        kept.extend(row[..len].iter().copied())?;
    }
    Ok(Tensor::from_slice(&[o, i, kh, kw], &kept)?)
}

/// The attributes that the plain operator has as well.
fn plain_attrs(node: &Node) -> Attrs {
    let kept = node.attrs.iter().filter(|(name, _)| *name != "block_size");
    kept.map(|(name, attr)| (name.to_owned(), attr.clone())).collect()
}

fn transpose(node: &Node, x: ValueId, perm: [i64; 4]) -> NewNode {
    let attrs = Attrs::new().with("perm", Attr::Ints(perm.to_vec()));
    NewNode { attrs, ..new_node(node, "", "Transpose", 13, vec![Some(x)]) }
}

/// A node of the same name, with no attributes.
fn new_node(
    node: &Node,
    domain: &str,
    op_type: &str,
    since_version: i32,
    inputs: Vec<Option<ValueId>>,
) -> NewNode {
    NewNode {
        name: node.name.clone(),
        domain: domain.to_owned(),
        op_type: op_type.to_owned(),
        since_version,
        inputs,
        ..NewNode::default()
    }
}
