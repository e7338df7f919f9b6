//! The nodes of an attention, followed from its end to what it computes with.

use ort_graph::{Dim, Graph, Node, Operator, ValueId};
use ort_ops::ops::transpose::Transpose;
use ort_tensor::Tensor;

/// How queries and values come by head.
pub(super) const QUERIES: [usize; 4] = [0, 2, 1, 3];
/// The same for keys, which are transposed for the product.
pub(super) const KEYS: [usize; 4] = [0, 2, 3, 1];
/// The last two dimensions swapped.
const SWAPPED: [usize; 4] = [0, 1, 3, 2];

/// Follows values to the nodes that compute them.
pub(super) struct Chain<'g> {
    graph: &'g Graph,
    /// Whether others read a value that was entered.
    pub(super) is_shared: bool,
}

/// Rows of which each is `n` heads of `size` elements, and where they come from.
pub(super) struct Heads {
    /// `[B, S, n·size]`
    pub(super) source: ValueId,
    pub(super) dims: [Dim; 3],
    pub(super) n: usize,
    pub(super) size: usize,
}

impl<'g> Chain<'g> {
    pub(super) const fn new(graph: &'g Graph) -> Self {
        Self { graph, is_shared: false }
    }

    /// The value is one that the fused node no longer makes.
    pub(super) fn enter(&mut self, value: ValueId) -> ValueId {
        self.is_shared |= self.graph.consumers(value).len() > 1 || self.graph.is_output(value);
        value
    }

    /// The node that computes a value as its first output.
    pub(super) fn node(&mut self, value: ValueId) -> Option<&'g Node> {
        self.enter(value);
        match self.graph.producer(value)? {
            (id, 0) => Some(self.graph.node(id)),
            _ => None,
        }
    }

    /// The operator and the two operands of the node that computes a value.
    pub(super) fn operands<T: Operator>(
        &mut self,
        value: ValueId,
    ) -> Option<(&'g T, [ValueId; 2])> {
        let node = self.node(value)?;
        match node.inputs[..] {
            [Some(a), Some(b)] => Some((node.operator()?, [a, b])),
            _ => None,
        }
    }

    /// What becomes the value by this permutation.
    pub(super) fn transposed(&mut self, value: ValueId, perm: [usize; 4]) -> Option<ValueId> {
        let node = self.node(value)?;
        let op = node.operator::<Transpose>()?;
        (op.perm.as_deref() == Some(&perm)).then(|| node.inputs.first().copied().flatten())?
    }

    /// Scores without the mask that is added to them, and the mask. The scores are a product, which
    /// may be scaled.
    pub(super) fn unmasked(&mut self, value: ValueId) -> (ValueId, Option<ValueId>) {
        let Some([a, b]) = super::super::terms(self.graph, value) else { return (value, None) };
        self.enter(value);
        let is_product = |value: ValueId| {
            let (product, _) = Chain::new(self.graph).unscaled(value);
            let producer = self.graph.producer(product).map(|(id, _)| self.graph.node(id));
            producer.is_some_and(|node| matches!(&*node.op_type, "MatMul" | "FusedMatMul"))
        };
        if is_product(a) { (a, Some(b)) } else { (b, Some(a)) }
    }

    /// What is multiplied with a number or divided by one, and the factor in all.
    pub(super) fn unscaled(&mut self, mut value: ValueId) -> (ValueId, f32) {
        let mut factor = 1.0;
        while let Some((scaled, number)) = self.scaled(value) {
            self.enter(value);
            factor *= number;
            value = scaled;
        }
        (value, factor)
    }

    fn scaled(&self, value: ValueId) -> Option<(ValueId, f32)> {
        let (id, 0) = self.graph.producer(value)? else { return None };
        let node = self.graph.node(id);
        let &[Some(a), Some(b)] = &node.inputs[..] else { return None };
        let number = |id| number(self.graph.constant(id)?);
        match (&*node.domain, &*node.op_type) {
            ("", "Mul") => number(b).map(|b| (a, b)).or_else(|| Some((b, number(a)?))),
            ("", "Div") => Some((a, 1.0 / number(b)?)),
            _ => None,
        }
    }

    /// The rows that a value has by head, in the order of `perm`.
    pub(super) fn heads(&mut self, value: ValueId, perm: [usize; 4]) -> Option<Heads> {
        let reshaped = match self.transposed(value, perm) {
            Some(reshaped) => reshaped,
            None if perm == KEYS => {
                let swapped = self.transposed(value, SWAPPED)?;
                self.transposed(swapped, QUERIES)?
            }
            None => return None,
        };
        let (id, _) = self.graph.producer(reshaped)?;
        let reshape = self.graph.node(id);
        let source = reshape.inputs.first().copied().flatten()?;
        let (from, to) = (self.graph.fact(source).dims()?, self.graph.fact(reshaped).dims()?);
        let (
            &[ref b, ref s, Dim::Known(width)],
            &[ref to_b, ref to_s, Dim::Known(n), Dim::Known(size)],
        ) = (from, to)
        else {
            return None;
        };
        // If one of the others stays, both do.
        let is_split = n.checked_mul(size) == Some(width) && (b.equals(to_b) || s.equals(to_s));
        let is_reshape = reshape.domain.is_empty() && reshape.op_type == "Reshape";
        let dims = [b.clone(), s.clone(), Dim::Known(width)];
        (is_split && is_reshape && n > 0).then_some(Heads { source, dims, n, size })
    }
}

/// The number that a tensor of one element is, of any rank that broadcasts to four dimensions.
fn number(tensor: &Tensor) -> Option<f32> {
    match tensor.as_slice::<f32>() {
        Ok(&[number]) if tensor.shape().len() <= 4 => Some(number),
        _ => None,
    }
}
