//! The patch that transposes nodes of a region.

use ort_graph::{Attr, Attrs, Fact, IdMap, IdSet, NewNode, NodeId, Patch, PatchError, ValueId};
use ort_tensor::{DType, Tensor};

use super::broadcast::spread;
use super::cost;
use super::form::{Operand, TransposedNode, numbers};
use super::perm::Perm;
use super::region::{Reader, Region, Source, transpose};
use super::versions;

/// Transposes these nodes, and inserts Transposes of this version where both forms meet.
pub(super) fn rewrite(
    region: &Region<'_>,
    transposed: &IdSet<NodeId>,
    version: i32,
) -> Result<Patch, PatchError> {
    let patch = Patch::new(region.graph);
    let (forms, named) = (IdMap::default(), IdSet::default());
    let mut rewriter = Rewriter { region, transposed, version, patch, forms, named };
    for &value in region.values() {
        if let Source::Node(node) = region.source(value) {
            rewriter.node(node)?;
        }
        for reader in region.readers(value) {
            match reader {
                Reader::Free(node) if region.form(node).is_some() => rewriter.node(node)?,
                Reader::Free(node) => rewriter.transpose_of(node, value)?,
                Reader::Fixed => {}
            }
        }
    }
    Ok(rewriter.patch)
}

struct Rewriter<'a, 'g> {
    region: &'a Region<'g>,
    /// The nodes to transpose.
    transposed: &'a IdSet<NodeId>,
    /// The version of new Transposes.
    version: i32,
    patch: Patch,
    /// The transposed form of each value that has one.
    forms: IdMap<ValueId, ValueId>,
    /// The forms with the name of an output.
    named: IdSet<ValueId>,
}

impl Rewriter<'_, '_> {
    /// Transposes a node if it is still to be, after those whose results it reads.
    fn node(&mut self, id: NodeId) -> Result<(), PatchError> {
        let node = self.region.graph.node(id);
        let Some(form) = self.region.form(id).filter(|_| self.transposed.contains(&id)) else {
            return Ok(());
        };
        let is_done = |output: &ValueId| self.forms.contains_key(output);
        if node.outputs.iter().flatten().any(is_done) {
            return Ok(());
        }
        let operands = form.inputs.iter().enumerate();
        let inputs: Result<Vec<_>, _> = operands
            .map(|(slot, operand)| self.operand(node.inputs.get(slot).copied().flatten(), operand))
            .collect();
        let outputs = node.outputs.iter().zip(&form.outputs).map(|(output, perm)| {
            let info = |output| self.region.graph.value(output);
            let fact = |output| match form.picks {
                Some(_) => Fact::UNKNOWN,
                None => cost::stored(&info(output).fact, perm),
            };
            let new =
                output.map(|output| self.patch.value(info(output).name.clone(), fact(output)));
            new.transpose()
        });
        let outputs: Vec<Option<ValueId>> = outputs.collect::<Result<_, _>>()?;
        let (domain, op_type, since_version) =
            form.operator.unwrap_or((&node.domain, &node.op_type, node.since_version));
        self.patch.node(NewNode {
            name: node.name.clone(),
            domain: domain.to_owned(),
            op_type: op_type.to_owned(),
            since_version,
            inputs: inputs?,
            outputs: outputs.clone(),
            captured: Vec::new(),
            attrs: form.attrs.clone(),
        });
        self.patch.sweep(id);
        for (index, (old, new)) in node.outputs.iter().zip(outputs).enumerate() {
            if let (Some(old), Some(new)) = (*old, new) {
                self.result(form, index, old, new)?;
            }
        }
        Ok(())
    }

    /// Provides the result of a transposed node in its original form where that is read.
    fn result(
        &mut self,
        form: &TransposedNode,
        index: usize,
        old: ValueId,
        new: ValueId,
    ) -> Result<(), PatchError> {
        self.forms.insert(old, new);
        let perm = &form.outputs[index];
        let is_plain = |reader: &Reader| match reader {
            Reader::Fixed => true,
            Reader::Free(node) => !self.transposed.contains(node),
        };
        let plain = match &form.picks {
            Some(picks) => self.picked(new, picks)?,
            None if perm.is_identity() => new,
            None if self.region.readers(old).iter().any(is_plain) => self.transpose(new, perm)?,
            None => return Ok(()),
        };
        self.patch.replace(old, plain);
        Ok(())
    }

    /// Makes a Transpose read the transposed form.
    fn transpose_of(&mut self, id: NodeId, value: ValueId) -> Result<(), PatchError> {
        let Some((from, perm, result)) = transpose(self.region.graph, id) else { return Ok(()) };
        let is_done = self.forms.contains_key(&result);
        let (Some(order), true) =
            (self.region.perm(value), self.transposed.contains(&id) && from == value && !is_done)
        else {
            return Ok(());
        };
        let (form, order) = (self.form(value)?, order.then(&perm));
        let new = match order.is_identity() {
            true if self.needs_name(result) && !self.can_be_named(value, form) => {
                self.unary("Identity", self.version, vec![Some(form)], Attrs::new())?
            }
            true => form,
            false => self.transpose(form, &order)?,
        };
        self.forms.insert(result, new);
        self.patch.replace(result, new);
        Ok(())
    }

    /// The transposed form of a value.
    fn form(&mut self, value: ValueId) -> Result<ValueId, PatchError> {
        if let Source::Node(node) = self.region.source(value) {
            self.node(node)?;
        }
        let (Some(perm), None) = (self.region.perm(value), self.forms.get(&value)) else {
            return Ok(self.forms.get(&value).copied().unwrap_or(value));
        };
        let form = match self.region.source(value) {
            Source::Transpose(from, order) => self.transpose(from, &order.then(&perm.inverse()))?,
            _ => self.transpose(value, &perm.inverse())?,
        };
        self.forms.insert(value, form);
        Ok(form)
    }

    fn operand(
        &mut self,
        input: Option<ValueId>,
        operand: &Operand,
    ) -> Result<Option<ValueId>, PatchError> {
        let Some(input) = input else {
            return match operand {
                Operand::Constant(tensor) => self.patch.constant("", tensor.clone()).map(Some),
                _ => Ok(None),
            };
        };
        let operand = match operand {
            Operand::Same => input,
            Operand::Transposed(_) => self.form(input)?,
            Operand::Spread(perm) => self.spread(input, perm)?,
            Operand::Picked(entries) => self.picked(input, entries)?,
            Operand::Constant(tensor) => self.patch.constant("", tensor.clone())?,
        };
        Ok(Some(operand))
    }

    fn spread(&mut self, value: ValueId, perm: &Perm) -> Result<ValueId, PatchError> {
        let rank = self.region.graph.fact(value).rank().unwrap_or(0);
        let (order, places) = spread(rank, perm);
        let value = self.transpose(value, &order)?;
        if self.version < 13 {
            let attrs = Attrs::new().with("axes", Attr::Ints(places));
            return self.unary("Unsqueeze", 1, vec![Some(value)], attrs);
        }
        let places = self.ints(&places)?;
        self.unary("Unsqueeze", self.version, vec![Some(value), Some(places)], Attrs::new())
    }

    fn picked(&mut self, value: ValueId, entries: &[i64]) -> Result<ValueId, PatchError> {
        let entries = self.ints(entries)?;
        let version = versions::gather(self.version);
        let attrs = Attrs::new().with("axis", Attr::Int(0));
        self.unary("Gather", version, vec![Some(value), Some(entries)], attrs)
    }

    fn transpose(&mut self, value: ValueId, perm: &Perm) -> Result<ValueId, PatchError> {
        match perm.is_identity() {
            true => Ok(value),
            false => self.unary("Transpose", self.version, vec![Some(value)], perm.attrs()),
        }
    }

    fn ints(&mut self, ints: &[i64]) -> Result<ValueId, PatchError> {
        let tensor = numbers(DType::I64, ints).unwrap_or_else(|| Tensor::scalar(0_i64));
        self.patch.constant("", tensor)
    }

    fn unary(
        &mut self,
        op_type: &str,
        since_version: i32,
        inputs: Vec<Option<ValueId>>,
        attrs: Attrs,
    ) -> Result<ValueId, PatchError> {
        let op_type = op_type.to_owned();
        self.patch.output_of(NewNode {
            op_type,
            since_version,
            inputs,
            attrs,
            ..NewNode::default()
        })
    }

    fn needs_name(&self, result: ValueId) -> bool {
        self.region.graph.is_output(result)
    }

    /// Whether the form of a value can take the name of an output: it is new or its name is not needed, and it has
    /// none yet.
    fn can_be_named(&mut self, value: ValueId, form: ValueId) -> bool {
        let graph = self.region.graph;
        let is_free = match self.region.source(value) {
            Source::Transpose(from, _) if from == form => {
                graph.producer(from).is_some() && !graph.is_output(from)
            }
            _ => true,
        };
        is_free && self.named.insert(form)
    }
}
