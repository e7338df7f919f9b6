//! Readers of NCHWc that depend on the memory order.

use ort_graph::{NewNode, Node, ValueId};
use ort_tensor::Tensor;

use super::{Lowering, new_node, transpose};
use crate::nchwc::error::NchwcError;
use crate::nchwc::survey::at;

impl Lowering<'_> {
    /// A Reshape whose input must be in NCHWc memory order.
    pub(super) fn raw(&mut self, node: &Node, x: ValueId, y: ValueId) -> Result<(), NchwcError> {
        let mut inputs: Vec<_> = node.inputs.iter().map(|id| id.map(|id| self.plain(id))).collect();
        inputs[0] = Some(self.in_memory_order(node, x)?);
        let new = new_node(node, &node.domain, &node.op_type, node.since_version, inputs);
        let value = self.patch.output_of(NewNode { attrs: node.attrs.clone(), ..new })?;
        self.patch.replace(y, value);
        self.plain.insert(y, value);
        Ok(())
    }

    /// The elements of a value whose channels are all kept, in the order and shape of NCHWc: `[N, C, H, W] → [N, C/B,
    /// B, HW] → [N, C/B, HW, B] → [N, C, H, W]`, or `[N, C/B, H, W, B]` if the value has that shape.
    fn in_memory_order(&mut self, node: &Node, x: ValueId) -> Result<ValueId, NchwcError> {
        let unknown = || at(node, "its channels are not known");
        let channels = self.kept.of_value(x).ok_or_else(unknown)?;
        let int = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let (n_blocks, block) = (int(channels / self.block), int(self.block));
        let nchw = self.plain(x);
        let grouped = self.reshaped(node, nchw, &[0, n_blocks, block, -1])?;
        let nchwc = self.patch.output_of(transpose(node, grouped, [0, 1, 3, 2]))?;
        let shape = self.patch.output_of(new_node(node, "", "Shape", 13, vec![Some(nchw)]))?;
        let inputs = vec![Some(nchwc), Some(shape)];
        let merged = self.patch.output_of(new_node(node, "", "Reshape", 13, inputs))?;
        match self.survey.values.get(&x) {
            Some(value) if value.is_split => {
                self.reshaped(node, merged, &[0, n_blocks, 0, 0, block])
            }
            _ => Ok(merged),
        }
    }

    fn reshaped(&mut self, node: &Node, x: ValueId, shape: &[i64]) -> Result<ValueId, NchwcError> {
        let shape = Tensor::from_slice(&[shape.len()], shape)?;
        let shape = self.patch.constant("shape", shape)?;
        let inputs = vec![Some(x), Some(shape)];
        Ok(self.patch.output_of(new_node(node, "", "Reshape", 13, inputs))?)
    }
}
