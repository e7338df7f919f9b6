//! Converts plain graphs to NCHWc, as ONNX Runtime's layout pass does, for any block size: what a file written on
//! another machine would contain.

use std::collections::HashMap;

use ort_graph::{Attr, Attrs, Graph, NewNode, Node, ValueId};
use ort_ops::blocked::{FilterForm, blocked_filter};
use ort_ops::registry;
use ort_tensor::Tensor;

const DOMAIN: &str = "com.microsoft.nchwc";

/// The same graph with every possible node in NCHWc; subgraphs are unchanged.
pub(crate) fn block(graph: &Graph, block: usize, is_stated: bool) -> Graph {
    let (new, planes, blocks) = (Graph::new(), HashMap::new(), HashMap::new());
    let mut blocker = Blocker { old: graph, new, planes, blocks, block, is_stated };
    for id in graph.value_ids().filter(|&id| graph.producer(id).is_none()) {
        let info = graph.value(id);
        let new = blocker.new.add_value(&info.name, info.fact.clone()).unwrap();
        blocker.planes.insert(id, new);
    }
    let inputs = graph.inputs().iter().map(|id| blocker.planes[id]).collect();
    blocker.new.set_inputs(inputs);
    for id in graph.topological_order().unwrap() {
        blocker.node(graph.node(id));
    }
    let outputs = graph.outputs().iter().map(|&id| blocker.planes(id)).collect();
    blocker.new.set_outputs(outputs);
    blocker.new
}

struct Blocker<'g> {
    old: &'g Graph,
    new: Graph,
    planes: HashMap<ValueId, ValueId>,
    /// Values in NCHWc, and their number of channels without padding.
    blocks: HashMap<ValueId, (ValueId, usize)>,
    block: usize,
    is_stated: bool,
}

impl Blocker<'_> {
    fn node(&mut self, node: &Node) {
        let ids: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        let in_blocks = ids.iter().all(|id| self.blocks.contains_key(id));
        let is_whole = ids.iter().all(|&id| self.channels(id).is_multiple_of(self.block));
        match node.op_type.as_str() {
            "Conv" if self.conv(node).is_some() => {}
            "MaxPool" | "AveragePool" if is_whole => self.alike(node, DOMAIN),
            "GlobalAveragePool" | "GlobalMaxPool" if in_blocks => self.alike(node, DOMAIN),
            "Resize" if self.blocks.contains_key(&ids[0]) => self.upsample(node),
            "Relu" | "Sigmoid" if in_blocks => self.alike(node, ""),
            "Add" if in_blocks => self.add(node),
            "Concat" if in_blocks && is_whole => {
                self.alike(node, "");
                let channels = ids.iter().map(|&id| self.channels(id)).sum();
                let y = node.outputs[0].unwrap();
                self.blocks.get_mut(&y).unwrap().1 = channels;
            }
            "Transpose" if in_blocks => self.transpose(node),
            _ => self.copy(node),
        }
    }

    fn channels(&self, id: ValueId) -> usize {
        self.old.fact(id).dims().and_then(|dims| dims.get(1)?.known()).unwrap_or(1)
    }

    /// The convolution in NCHWc, where ONNX Runtime supports it.
    fn conv(&mut self, node: &Node) -> Option<()> {
        let [x, w] = [0, 1].map(|i| node.inputs[i].unwrap());
        let weights = self.old.constant(w)?;
        let &[o, i, _, _] = weights.shape() else { return None };
        let group = match node.attrs.get("group") {
            Some(&Attr::Int(group)) => usize::try_from(group).unwrap(),
            _ => 1,
        };
        let padded = o.next_multiple_of(self.block);
        let (form, n_inputs, new_group) = match group {
            1 if i < self.block => (FilterForm::Outputs, i, 1),
            1 if i % 4 != 0 => return None,
            1 => (FilterForm::InputsAndOutputs, i.next_multiple_of(self.block), 1),
            _ if i == 1 && o == group && o % 4 == 0 => (FilterForm::Outputs, 1, padded),
            _ if i % self.block == 0 && o / group % self.block == 0 => {
                (FilterForm::InputsAndOutputs, i, group)
            }
            _ => return None,
        };
        let is_planar = group == 1 && form == FilterForm::Outputs;
        let x = if is_planar { self.planes(x) } else { self.in_blocks(x) };
        let filter = blocked_filter(pad(weights, [padded, n_inputs]).view(), form, self.block);
        let mut inputs = vec![x, self.constant(filter.unwrap())];
        if let Some(&Some(bias)) = node.inputs.get(2) {
            inputs.push(self.constant(pad(self.old.constant(bias).unwrap(), [padded])));
        }
        let attrs = node.attrs.clone().with("group", int(new_group));
        let y = self.make(node, (DOMAIN, "Conv", 1), inputs, attrs);
        self.blocks.insert(node.outputs[0].unwrap(), (y, o));
        Some(())
    }

    /// A node that treats all channels alike.
    fn alike(&mut self, node: &Node, domain: &str) {
        let ids: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        let inputs = ids.iter().map(|&id| self.in_blocks(id)).collect();
        let version = if domain == DOMAIN { 1 } else { node.since_version };
        let y = self.make(node, (domain, &node.op_type, version), inputs, node.attrs.clone());
        self.blocks.insert(node.outputs[0].unwrap(), (y, self.channels(ids[0])));
    }

    fn upsample(&mut self, node: &Node) {
        let scales = self.old.constant(node.inputs[2].unwrap()).unwrap().as_slice::<f32>().unwrap();
        let scales = scales.iter().map(|&scale| if scale == 2.0 { 2 } else { 1 }).collect();
        let x = node.inputs[0].unwrap();
        let input = self.in_blocks(x);
        let mut attrs = Attrs::new().with("scales", Attr::Ints(scales));
        for name in ["mode", "coordinate_transformation_mode"] {
            node.attrs.get(name).into_iter().for_each(|attr| attrs.set(name, attr.clone()));
        }
        let y = self.make(node, (DOMAIN, "Upsample", 1), vec![input], attrs);
        self.blocks.insert(node.outputs[0].unwrap(), (y, self.channels(x)));
    }

    /// Where shapes differ, the sum has five axes.
    fn add(&mut self, node: &Node) {
        let ids: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        if self.old.fact(ids[0]).ty == self.old.fact(ids[1]).ty {
            return self.alike(node, "");
        }
        let block = i64::try_from(self.block).unwrap();
        let reshape = ("", "Reshape", 14);
        let padded = self.channels(ids[0]).next_multiple_of(self.block);
        let padded = i64::try_from(padded).unwrap();
        let split = |this: &mut Self, id: ValueId, n_blocks: i64| {
            let shape = Tensor::from_slice(&[5], &[0, n_blocks, 0, 0, block]).unwrap();
            let inputs = vec![this.in_blocks(id), this.constant(shape)];
            this.make(node, reshape, inputs, Attrs::new())
        };
        // ONNX Runtime writes both forms.
        let n_blocks = [-1, padded / block];
        let inputs = ids.iter().zip(n_blocks).map(|(&id, n)| split(self, id, n)).collect();
        let sum = self.make(node, ("", "Add", 14), inputs, Attrs::new());
        let shape = self.constant(Tensor::from_slice(&[4], &[0_i64, padded, 0, 0]).unwrap());
        let y = self.make(node, reshape, vec![sum, shape], Attrs::new());
        self.blocks.insert(node.outputs[0].unwrap(), (y, self.channels(ids[0])));
    }

    fn transpose(&mut self, node: &Node) {
        let (x, channels) = self.blocks[&node.inputs[0].unwrap()];
        let attrs = Attrs::new().with("channels", int(channels)).with("channels_last", int(1));
        let y = self.make(node, (DOMAIN, "ReorderOutput", 1), vec![x], attrs);
        self.planes.insert(node.outputs[0].unwrap(), y);
    }

    fn copy(&mut self, node: &Node) {
        let inputs = node.inputs.iter().map(|id| id.map(|id| self.planes(id))).collect();
        let old_captured: Vec<(ValueId, ValueId)> =
            node.captured.iter().map(|&id| (id, self.planes(id))).collect();
        let moved =
            |id| old_captured.iter().find(|(old, _)| *old == id).map_or(id, |found| found.1);
        let mut attrs = node.attrs.clone();
        attrs.map_captures(&moved);
        let y = self.name_of(node);
        let new = NewNode {
            captured: node.captured.iter().map(|&id| moved(id)).collect(),
            attrs,
            ..new_node(node, (&node.domain, &node.op_type, node.since_version), inputs, y)
        };
        self.new.add_node(new, &registry()).unwrap();
        self.planes.insert(node.outputs[0].unwrap(), y);
    }

    /// The value in NCHW.
    fn planes(&mut self, id: ValueId) -> ValueId {
        if let Some(&value) = self.planes.get(&id) {
            return value;
        }
        let (x, channels) = self.blocks[&id];
        let (node, _) = self.old.producer(id).unwrap();
        let attrs = Attrs::new().with("channels", int(channels));
        let node = self.old.node(node);
        let y = self.make(node, (DOMAIN, "ReorderOutput", 1), vec![x], attrs);
        self.new.value_mut(y).name.clone_from(&self.old.value(id).name);
        self.planes.insert(id, y);
        y
    }

    /// The value in NCHWc.
    fn in_blocks(&mut self, id: ValueId) -> ValueId {
        if let Some(&(value, _)) = self.blocks.get(&id) {
            return value;
        }
        let x = self.planes(id);
        let y = self.new.add_value(self.fresh(), ort_graph::Fact::UNKNOWN).unwrap();
        let attrs = self.stated(DOMAIN, Attrs::new());
        let new = NewNode {
            name: "reorder".into(),
            domain: DOMAIN.into(),
            op_type: "ReorderInput".into(),
            since_version: 1,
            inputs: vec![Some(x)],
            outputs: vec![Some(y)],
            attrs,
            ..NewNode::default()
        };
        self.new.add_node(new, &registry()).unwrap();
        self.blocks.insert(id, (y, self.channels(id)));
        y
    }

    fn constant(&mut self, tensor: Tensor) -> ValueId {
        self.new.add_constant(self.fresh(), tensor).unwrap()
    }

    fn make(
        &mut self,
        node: &Node,
        op: (&str, &str, i32),
        inputs: Vec<ValueId>,
        attrs: Attrs,
    ) -> ValueId {
        let y = self.new.add_value(self.fresh(), ort_graph::Fact::UNKNOWN).unwrap();
        let attrs = self.stated(op.0, attrs);
        let inputs = inputs.into_iter().map(Some).collect();
        let new = NewNode { attrs, ..new_node(node, op, inputs, y) };
        self.new.add_node(new, &registry()).unwrap();
        y
    }

    fn stated(&self, domain: &str, attrs: Attrs) -> Attrs {
        let is_stated = self.is_stated && domain == DOMAIN;
        if is_stated { attrs.with("block_size", int(self.block)) } else { attrs }
    }

    fn name_of(&mut self, node: &Node) -> ValueId {
        let info = self.old.value(node.outputs[0].unwrap());
        self.new.add_value(&info.name, info.fact.clone()).unwrap()
    }

    /// A name that no other value has.
    fn fresh(&self) -> String {
        format!("block_{}", self.new.value_ids().count())
    }
}

fn new_node(
    node: &Node,
    (domain, op_type, since_version): (&str, &str, i32),
    inputs: Vec<Option<ValueId>>,
    y: ValueId,
) -> NewNode {
    NewNode {
        name: node.name.clone(),
        domain: domain.to_owned(),
        op_type: op_type.to_owned(),
        since_version,
        inputs,
        outputs: vec![Some(y)],
        ..NewNode::default()
    }
}

fn int(n: usize) -> Attr {
    Attr::Int(i64::try_from(n).unwrap())
}

/// The tensor padded with zeros to these first dimensions.
fn pad<const N: usize>(tensor: &Tensor, dims: [usize; N]) -> Tensor {
    let (from, data) = (tensor.shape(), tensor.as_slice::<f32>().unwrap());
    let shape = [&dims[..], &from[N..]].concat();
    let taps: usize = from[N..].iter().product();
    let n_rows = if N == 1 { 1 } else { dims[0] };
    let (old_row, new_row) = (from[N - 1] * taps, dims[N - 1] * taps);
    let mut padded = vec![0.0; n_rows * new_row];
    for (old, new) in data.chunks_exact(old_row).zip(padded.chunks_exact_mut(new_row)) {
        new[..old_row].copy_from_slice(old);
    }
    Tensor::from_slice(&shape, &padded).unwrap()
}
