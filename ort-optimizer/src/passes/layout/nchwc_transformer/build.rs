//! The patch that converts chosen nodes to NCHWc: values in both forms, and reorders between them.

use std::collections::HashMap;

use ort_graph::{
    Attr, Attrs, Dim, Fact, IdMap, IdSet, NewNode, Node, NodeId, Patch, PatchError, ValueId,
};
use ort_tensor::{DType, Tensor};

use super::channels::Channels;
use super::nodes::{int, nchwc_node, plain};
use super::survey::{Kind, Survey, numbers_of_channels};
use crate::nchwc::DOMAIN;
use crate::pass::Refusal;

/// A value in NCHWc.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    pub(super) channels: Channels,
    /// As `[N, C, H, W]`.
    whole: Option<ValueId>,
    /// As `[N, C/B, H, W, B]`, the same bytes.
    split: Option<ValueId>,
}

/// The identity of a reordered constant: the original, and the positions of its outputs and inputs.
type Reordered = (ValueId, Vec<usize>, Option<Vec<usize>>);

/// A patch under construction.
pub(super) struct Builder<'s> {
    pub(super) survey: &'s Survey<'s>,
    chosen: &'s IdSet<NodeId>,
    pub(super) patch: Patch,
    /// Nodes that may still change or move; `None` for one that has moved.
    nodes: Vec<Option<NewNode>>,
    /// The index among the nodes of the convolution that computes a value.
    convs: IdMap<ValueId, usize>,
    blocked: IdMap<ValueId, Blocked>,
    /// The replacements of values in NCHW.
    nchw: IdMap<ValueId, ValueId>,
    constants: HashMap<Reordered, ValueId>,
    /// The shapes to split and to merge channels.
    shapes: HashMap<bool, ValueId>,
}

/// The patch that converts the chosen nodes to NCHWc, or the nodes that cannot be converted, with reasons.
pub(super) fn build(
    survey: &Survey<'_>,
    chosen: &IdSet<NodeId>,
) -> Result<Patch, Vec<(NodeId, Refusal)>> {
    let mut builder = Builder {
        survey,
        chosen,
        patch: Patch::new(survey.graph),
        nodes: Vec::new(),
        convs: IdMap::default(),
        blocked: IdMap::default(),
        nchw: IdMap::default(),
        constants: HashMap::new(),
        shapes: HashMap::new(),
    };
    let mut refused = Vec::new();
    for &id in survey.order.iter().filter(|id| chosen.contains(id)) {
        match builder.convert(survey.graph.node(id), &survey.kinds[&id]) {
            Ok(()) => builder.patch.sweep(id),
            Err(refusal) => refused.push((id, refusal)),
        }
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    // No particular node is the reason when a graph runs out of ids.
    let full = |error: PatchError| {
        chosen.iter().map(|&id| (id, Refusal::from(error.clone()))).collect::<Vec<_>>()
    };
    builder.reorder_outputs().map_err(full)?;
    let Builder { mut patch, nodes, .. } = builder;
    nodes.into_iter().flatten().for_each(|node| patch.node(node));
    Ok(patch)
}

impl Builder<'_> {
    fn convert(&mut self, node: &Node, kind: &Kind) -> Result<(), Refusal> {
        match kind {
            Kind::Conv(filters) => self.conv(node, *filters),
            Kind::Affine(affine) => self.affine(node, affine),
            Kind::Pool { .. } => self.pool(node),
            Kind::GlobalPool(op_type) => self.global_pool(node, op_type),
            Kind::Elementwise => self.elementwise(node),
            Kind::Concat => self.concat(node),
            Kind::Split(sizes) => self.split(node, sizes),
            Kind::Slice(start, end) => self.slice(node, *start, *end),
            Kind::Upsample(attrs) => self.upsample(node, attrs.clone()),
            Kind::ToLast => self.channels_to_end(node),
            Kind::FromLast => self.channels_to_front(node),
            Kind::Shape(start, end) => self.shape_of(node, *start..*end),
        }
    }

    /// Whether a chosen node computes this value in NCHWc.
    pub(super) fn produces_nchwc(&self, id: ValueId) -> bool {
        let maker = self.survey.graph.producer(id).map(|(node, _)| node);
        maker.is_some_and(|node| {
            let leaves =
                matches!(self.survey.kinds.get(&node), Some(Kind::ToLast | Kind::Shape(..)));
            self.chosen.contains(&node) && !leaves
        })
    }

    /// The value in NCHW: the original, or its replacement.
    pub(super) fn nchw(&self, id: ValueId) -> ValueId {
        self.nchw.get(&id).copied().unwrap_or(id)
    }

    /// Sets the replacement of a value in NCHW.
    pub(super) fn replace(&mut self, old: ValueId, new: ValueId) {
        self.patch.replace(old, new);
        self.nchw.insert(old, new);
    }

    /// The channel layout of a value in NCHWc, to which it is converted if necessary.
    pub(super) fn channels(&mut self, id: ValueId) -> Result<Channels, Refusal> {
        if let Some(blocked) = self.blocked.get(&id) {
            return Ok(blocked.channels.clone());
        }
        self.reorder_input(id, self.nchw(id), Attrs::new())?;
        self.blocked.get(&id).map(|blocked| blocked.channels.clone()).ok_or(NO_IMAGE)
    }

    /// Converts a value to NCHWc; `x` is the value in NCHW or NHWC.
    pub(super) fn reorder_input(
        &mut self,
        id: ValueId,
        x: ValueId,
        attrs: Attrs,
    ) -> Result<(), Refusal> {
        let n = self.survey.channels(id).ok_or(NO_IMAGE)?;
        if !self.survey.can_reorder(n) {
            return Err(Refusal("ONNX Runtime cannot reorder that many channels"));
        }
        let channels = Channels::padded(n, self.survey.block);
        let node = nchwc_node("", "ReorderInput", vec![Some(x)], attrs);
        self.make(node, id, channels, false)
    }

    /// A value in NCHWc as `[N, C, H, W]`.
    pub(super) fn whole(&mut self, id: ValueId) -> Result<ValueId, Refusal> {
        self.shaped(id, false)
    }

    /// A value in NCHWc as `[N, C/B, H, W, B]`, or as `[N, C, H, W]`.
    pub(super) fn shaped(&mut self, id: ValueId, is_split: bool) -> Result<ValueId, Refusal> {
        self.channels(id)?;
        let blocked = self.blocked.get(&id).ok_or(NO_IMAGE)?.clone();
        let (wanted, other) =
            if is_split { (blocked.split, blocked.whole) } else { (blocked.whole, blocked.split) };
        if let Some(value) = wanted {
            return Ok(value);
        }
        let shape = self.shape(is_split)?;
        let value = self.new_value(id, &blocked.channels, is_split)?;
        let version = self.survey.version(&[5, 13, 14, 19, 21, 23]);
        let node = plain("", "Reshape", version, vec![other, Some(shape)], Attrs::new());
        self.nodes.push(Some(NewNode { outputs: vec![Some(value)], ..node }));
        let blocked = self.blocked.get_mut(&id).ok_or(NO_IMAGE)?;
        *(if is_split { &mut blocked.split } else { &mut blocked.whole }) = Some(value);
        Ok(value)
    }

    /// Whether a value in NCHWc is available as `[N, C, H, W]` without a Reshape.
    pub(super) fn is_whole(&self, id: ValueId) -> bool {
        self.blocked.get(&id).is_none_or(|blocked| blocked.whole.is_some())
    }

    fn shape(&mut self, is_split: bool) -> Result<ValueId, Refusal> {
        if let Some(&shape) = self.shapes.get(&is_split) {
            return Ok(shape);
        }
        let block = i64::try_from(self.survey.block).unwrap_or(0);
        let dims: &[i64] = if is_split { &[0, -1, 0, 0, block] } else { &[0, -1, 0, 0] };
        let shape = self.ints(if is_split { "split" } else { "merged" }, dims)?;
        self.shapes.insert(is_split, shape);
        Ok(shape)
    }

    /// A constant list of integers.
    pub(super) fn ints(&mut self, hint: &str, ints: &[i64]) -> Result<ValueId, Refusal> {
        let tensor = Tensor::from_slice(&[ints.len()], ints).map_err(|_| TOO_LARGE)?;
        Ok(self.patch.constant(hint, tensor)?)
    }

    /// Adds a node with one output, which is `y` in NCHWc.
    pub(super) fn make(
        &mut self,
        node: NewNode,
        y: ValueId,
        channels: Channels,
        is_split: bool,
    ) -> Result<(), Refusal> {
        let value = self.new_value(y, &channels, is_split)?;
        let node = self.stated(NewNode { outputs: vec![Some(value)], ..node });
        if node.domain == DOMAIN && node.op_type == "Conv" {
            self.convs.insert(value, self.nodes.len());
        }
        self.nodes.push(Some(node));
        self.set_blocked(y, value, channels, is_split);
        Ok(())
    }

    /// Adds a node with any number of existing outputs.
    pub(super) fn push(&mut self, node: NewNode) {
        let node = self.stated(node);
        self.nodes.push(Some(node));
    }

    /// Records that `value` is `y` in NCHWc.
    pub(super) fn set_blocked(
        &mut self,
        y: ValueId,
        value: ValueId,
        channels: Channels,
        is_split: bool,
    ) {
        let (whole, split) = if is_split { (None, Some(value)) } else { (Some(value), None) };
        self.blocked.insert(y, Blocked { channels, whole, split });
    }

    fn stated(&self, mut node: NewNode) -> NewNode {
        if node.domain == DOMAIN {
            let block = i64::try_from(self.survey.block).unwrap_or(0);
            node.attrs.set("block_size", Attr::Int(block));
        }
        node
    }

    /// A value of the patch for `old` in NCHWc.
    pub(super) fn new_value(
        &mut self,
        old: ValueId,
        channels: &Channels,
        is_split: bool,
    ) -> Result<ValueId, Refusal> {
        let (graph, block) = (self.survey.graph, self.survey.block);
        let [n, h, w] = match graph.fact(old).dims() {
            Some([n, _, h, w]) => [n.clone(), h.clone(), w.clone()],
            _ => [const { Dim::Unknown }; 3],
        };
        let c = channels.n_padded();
        let fact = match is_split {
            true => Fact::tensor(DType::F32, [n, (c / block).into(), h, w, block.into()]),
            false => Fact::tensor(DType::F32, [n, c.into(), h, w]),
        };
        Ok(self.patch.value(graph.value(old).name.clone(), fact)?)
    }

    /// The convolution that computes an image for this reader only and has no activation yet: its index, and its
    /// output.
    pub(super) fn open_conv(&self, x: ValueId) -> Option<(usize, ValueId)> {
        if !self.survey.is_private(x) || !self.produces_nchwc(x) {
            return None;
        }
        let value = self.blocked.get(&x)?.whole?;
        let at = *self.convs.get(&value)?;
        let node = self.nodes.get(at)?.as_ref()?;
        node.attrs.get("activation").is_none().then_some((at, value))
    }

    /// Whether the convolution at this index already adds another image.
    pub(super) fn has_sum(&self, at: usize) -> bool {
        let node = self.nodes.get(at).and_then(Option::as_ref);
        node.is_none_or(|node| node.inputs.get(3).is_some())
    }

    /// Changes a convolution and moves it to the end: its only reader has not been added yet.
    pub(super) fn change_conv(&mut self, at: usize, change: impl FnOnce(&mut NewNode)) {
        let Some(mut node) = self.nodes.get_mut(at).and_then(Option::take) else { return };
        change(&mut node);
        if let Some(&Some(value)) = node.outputs.first() {
            self.convs.insert(value, self.nodes.len());
        }
        self.nodes.push(Some(node));
    }

    /// A constant in NCHWc order, made once for all nodes that share it.
    pub(super) fn reordered(
        &mut self,
        id: ValueId,
        outputs: &Channels,
        inputs: Option<&Channels>,
        tensor: impl FnOnce(&Tensor) -> Option<Tensor>,
    ) -> Result<ValueId, Refusal> {
        let key = (id, sizes(outputs), inputs.map(sizes));
        if let Some(&value) = self.constants.get(&key) {
            return Ok(value);
        }
        let wrong = Refusal("its constants are invalid");
        let tensor = tensor(self.survey.graph.constant(id).ok_or(wrong)?).ok_or(wrong)?;
        let value = self.patch.constant(self.survey.graph.value(id).name.clone(), tensor)?;
        self.constants.insert(key, value);
        Ok(value)
    }

    /// A number for each channel as `[1, C/B, 1, 1, B]`, with ones in the padding.
    pub(super) fn split_numbers(
        &mut self,
        id: ValueId,
        channels: &Channels,
    ) -> Result<ValueId, Refusal> {
        let (n, block) = (channels.n(), self.survey.block);
        self.reordered(id, channels, None, |constant| {
            let numbers = numbers_of_channels(constant, n)?;
            let mut padded = vec![1.0; channels.n_padded()];
            for (place, number) in channels.places().into_iter().zip(numbers) {
                padded[place] = number;
            }
            Tensor::from_slice(&[1, padded.len() / block, 1, 1, block], &padded).ok()
        })
    }

    /// Converts values computed in NCHWc to NCHW where they are read as NCHW.
    fn reorder_outputs(&mut self) -> Result<(), PatchError> {
        let graph = self.survey.graph;
        for &id in &self.survey.order {
            for &y in graph.node(id).outputs.iter().flatten() {
                if self.produces_nchwc(y) && self.is_read_as_nchw(y) {
                    self.reorder_output(y)?;
                }
            }
        }
        Ok(())
    }

    fn is_read_as_nchw(&self, id: ValueId) -> bool {
        let reads_nchwc = |node: &NodeId| {
            self.chosen.contains(node) && !matches!(self.survey.kinds[node], Kind::FromLast)
        };
        let graph = self.survey.graph;
        graph.is_output(id) || !graph.consumers(id).iter().all(reads_nchwc)
    }

    fn reorder_output(&mut self, id: ValueId) -> Result<(), PatchError> {
        let Ok(channels) = self.channels(id) else { return Ok(()) };
        let Ok(x) = self.whole(id) else { return Ok(()) };
        let graph = self.survey.graph;
        let (name, fact) = (graph.value(id).name.clone(), graph.fact(id).clone());
        let y = self.patch.value(name.clone(), fact)?;
        let is_trailing = channels.is_trailing();
        let n = if is_trailing { channels.n() } else { channels.n_padded() };
        let attrs = Attrs::new().with("channels", int(n));
        let node = nchwc_node("", "ReorderOutput", vec![Some(x)], attrs);
        let nchw = if is_trailing { y } else { self.patch.value(name, Fact::UNKNOWN)? };
        self.push(NewNode { outputs: vec![Some(nchw)], ..node });
        if !is_trailing {
            // Padding between channels is removed by a Gather.
            let places: Vec<i64> =
                channels.places().into_iter().map(|at| i64::try_from(at).unwrap_or(0)).collect();
            let Ok(places) = self.ints("places", &places) else { return Ok(()) };
            let attrs = Attrs::new().with("axis", Attr::Int(1));
            let version = self.survey.version(&[1, 11, 13]);
            let node = plain("", "Gather", version, vec![Some(nchw), Some(places)], attrs);
            self.push(NewNode { outputs: vec![Some(y)], ..node });
        }
        self.replace(id, y);
        Ok(())
    }
}

const NO_IMAGE: Refusal = Refusal("it reads something that is not an image");
const TOO_LARGE: Refusal = Refusal("it is too large");

fn sizes(channels: &Channels) -> Vec<usize> {
    channels.segments().iter().flat_map(|segment| [segment.n, segment.padded]).collect()
}
