//! The nodes of an attention, followed from its end to what it computes with.

use ort_graph::{Dim, Graph, Node, Operator, ValueId};
use ort_ops::ops::transpose::Transpose;
use ort_ops::ops::where_::Where;
use ort_tensor::Tensor;

use super::repeats;

/// How queries and values come by head.
pub(super) const QUERIES: [usize; 4] = [0, 2, 1, 3];
/// The same for keys, which are transposed for the product.
pub(super) const KEYS: [usize; 4] = [0, 2, 3, 1];
/// The last two dimensions swapped.
const SWAPPED: [usize; 4] = [0, 1, 3, 2];

/// The most masks of one attention.
const MOST_MASKS: usize = 3;

/// What becomes of scores before the softmax.
#[derive(Clone, Copy)]
pub(super) enum Mask {
    /// This is added.
    Added(ValueId),
    /// They are replaced by a number where the condition is what `hides` says.
    Filled { condition: ValueId, number: ValueId, hides: bool },
}

/// Follows values to the nodes that compute them.
pub(super) struct Chain<'g> {
    graph: &'g Graph,
    /// Whether others read a value that was entered.
    pub(super) is_shared: bool,
}

/// Rows of which each is `n` heads of `size` elements, and where they come from.
pub(super) struct Heads {
    /// `[B, S, n·size]`, unless they come by head, as behind a past or a rotation.
    pub(super) rows: Option<ValueId>,
    /// `[B, n, S, size]`, if there is such a value.
    pub(super) by_head: Option<ValueId>,
    /// `[B, S, n·size]`
    pub(super) dims: [Dim; 3],
    pub(super) n: usize,
    pub(super) size: usize,
    /// What comes by head before each head is repeated, and how many times: `[B, n/times, S, size]`.
    pub(super) repeated: Option<(ValueId, usize)>,
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

    /// The node that computes weights. Of those, NaN may be replaced by 0, as of a query that sees no key.
    pub(super) fn weights(&mut self, value: ValueId) -> Option<&'g Node> {
        let node = self.node(value)?;
        let &[Some(test), Some(zero), Some(weights)] = &node.inputs[..] else { return Some(node) };
        if node.operator::<Where>().is_none() || self.number(zero) != Some(0.0) {
            return None;
        }
        let test = self.node(test)?;
        let is_test = test.op_type == "IsNaN" && test.inputs[..] == [Some(weights)];
        // The two nodes read the weights, and nobody else does.
        self.is_shared |= self.graph.consumers(weights).len() > 2;
        self.is_shared |= self.graph.outputs().contains(&weights);
        let (id, _) = self.graph.producer(weights).filter(|_| is_test)?;
        Some(self.graph.node(id))
    }

    /// Scores as the product they are, which may be scaled, and what becomes of them, the last first.
    pub(super) fn unmasked(&mut self, mut value: ValueId) -> (ValueId, Vec<Mask>) {
        let mut masks = Vec::new();
        while masks.len() < MOST_MASKS
            && let Some((scores, mask)) = self.masked(value, MOST_MASKS)
        {
            self.enter(value);
            masks.push(mask); // bounded: by MOST_MASKS
            value = scores;
        }
        (value, masks)
    }

    /// Scores and a mask, where the value is made of both.
    fn masked(&self, value: ValueId, depth: usize) -> Option<(ValueId, Mask)> {
        if let Some([a, b]) = super::super::terms(self.graph, value) {
            let are_first = self.are_scores(a, depth);
            return Some(if are_first { (a, Mask::Added(b)) } else { (b, Mask::Added(a)) });
        }
        let (id, _) = self.graph.producer(value)?;
        let node = self.graph.node(id);
        node.operator::<Where>()?;
        let &[Some(condition), Some(a), Some(b)] = &node.inputs[..] else { return None };
        let filled = |number, hides| Mask::Filled { condition, number, hides };
        match [a, b].map(|value| self.number(value).is_some()) {
            [true, false] => Some((b, filled(a, true))),
            [false, true] => Some((a, filled(b, false))),
            _ => None,
        }
    }

    /// Whether a value is a product, maybe scaled and masked.
    fn are_scores(&self, value: ValueId, depth: usize) -> bool {
        let (product, _) = Chain::new(self.graph).unscaled(value);
        let producer = self.graph.producer(product).map(|(id, _)| self.graph.node(id));
        let is_product = |node: &Node| matches!(&*node.op_type, "MatMul" | "FusedMatMul");
        let Some(depth) = depth.checked_sub(1) else { return false };
        producer.is_some_and(is_product)
            || self.masked(value, depth).is_some_and(|(scores, _)| self.are_scores(scores, depth))
    }

    /// The number that a value is.
    fn number(&self, value: ValueId) -> Option<f32> {
        number(self.graph.constant(value)?)
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
        let number = |id| self.number(id);
        match (&*node.domain, &*node.op_type) {
            ("", "Mul") => number(b).map(|b| (a, b)).or_else(|| Some((b, number(a)?))),
            ("", "Div") => Some((a, 1.0 / number(b)?)),
            _ => None,
        }
    }

    /// The rows that a value has by head, in the order of `perm`: transposed, or by head as they are.
    pub(super) fn heads(&mut self, value: ValueId, perm: [usize; 4]) -> Option<Heads> {
        let of_rows = match self.transposed(value, perm) {
            Some(reshaped) => self.of_rows(reshaped, (perm == QUERIES).then_some(value)),
            None => None,
        };
        if of_rows.is_some() {
            return of_rows;
        }
        let swapped = if perm == KEYS { self.transposed(value, SWAPPED) } else { Some(value) };
        let Some(by_head) = swapped else { return self.repeated_swapped(value) };
        if let Some(reshaped) = self.transposed(by_head, QUERIES)
            && let Some(heads) = self.of_rows(reshaped, Some(by_head))
        {
            return Some(heads);
        }
        let repeated = repeats::source(self.graph, by_head);
        let of = |value| self.graph.fact(value).dims();
        let &[_, Dim::Known(n), _, Dim::Known(size)] = of(by_head)? else { return None };
        let [b, _, s, _] = of(repeated.map_or(by_head, |(source, _)| source))? else { return None };
        let dims = [b.clone(), s.clone(), Dim::Known(n.checked_mul(size)?)];
        (n > 0).then_some(Heads { rows: None, by_head: Some(by_head), dims, n, size, repeated })
    }

    /// Keys that are transposed for their product before they are repeated.
    fn repeated_swapped(&self, value: ValueId) -> Option<Heads> {
        let (source, times) = repeats::source_of_swapped(self.graph, value)?;
        let dims = self.graph.fact(source).dims()?;
        let &[ref b, Dim::Known(n), ref s, Dim::Known(size)] = dims else { return None };
        let n = n.checked_mul(times)?;
        let dims = [b.clone(), s.clone(), Dim::Known(n.checked_mul(size)?)];
        let repeated = Some((source, times));
        (n > 0).then_some(Heads { rows: None, by_head: None, dims, n, size, repeated })
    }

    /// Rows that a Reshape cuts into heads.
    fn of_rows(&self, reshaped: ValueId, by_head: Option<ValueId>) -> Option<Heads> {
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
        (is_split && is_reshape && n > 0).then_some(Heads {
            rows: Some(source),
            by_head,
            dims,
            n,
            size,
            repeated: None,
        })
    }
}

/// The number that a tensor of one element is, of any rank that broadcasts to four dimensions.
pub(super) fn number(tensor: &Tensor) -> Option<f32> {
    match tensor.as_slice::<f32>() {
        Ok(&[number]) if tensor.shape().len() <= 4 => Some(number),
        _ => None,
    }
}
