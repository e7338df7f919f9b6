//! The nodes of an attention, followed from its end to its queries and keys.

use ort_graph::{Dim, Graph, Node, Operator, ValueId};
use ort_ops::ops::where_::Where;
use ort_tensor::Tensor;

use super::windows::{self, Windows};

/// The most masks of one attention.
const MOST_MASKS: usize = 3;

/// What becomes of scores before the softmax.
#[derive(Clone, Copy)]
pub(super) enum Mask {
    /// This is added.
    Added(ValueId),
    /// They are replaced by a number where the condition is what `hides` says.
    Filled { condition: ValueId, number: ValueId, hides: bool },
    /// Those of windows are added.
    OfWindows(Windows),
}

/// A factor of each head, or a divisor, which scales queries as well as scores.
#[derive(Clone, Copy)]
pub(super) struct HeadScale {
    pub(super) factor: ValueId,
    pub(super) is_divisor: bool,
}

/// Follows values to the nodes that compute them.
pub(super) struct Chain<'g> {
    graph: &'g Graph,
    /// Whether others read a value that was entered.
    pub(super) is_shared: bool,
}

impl<'g> Chain<'g> {
    pub(super) const fn new(graph: &'g Graph) -> Self {
        Self { graph, is_shared: false }
    }

    pub(super) const fn graph(&self) -> &'g Graph {
        self.graph
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
        if let Some((scores, windows)) = windows::unmasked(self, value) {
            masks.push(Mask::OfWindows(windows)); // bounded: one
            value = scores;
        }
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

    /// Whether a value is a product, maybe scaled, capped and masked.
    fn are_scores(&self, value: ValueId, depth: usize) -> bool {
        let mut chain = Chain::new(self.graph);
        let (scores, _) = chain.uncapped(value);
        let (scores, _) = chain.unscaled(scores);
        let (scores, _) = chain.scaled_by_head(scores);
        let (product, _) = chain.unscaled(scores);
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

    /// What a cap bends, and the cap: `x` and `γ` of `γ·tanh(x)`.
    pub(super) fn uncapped(&mut self, value: ValueId) -> (ValueId, Option<f32>) {
        let (bent, cap) = Chain::new(self.graph).unscaled(value);
        let producer = self.graph.producer(bent).map(|(id, _)| self.graph.node(id));
        let tanh = producer.filter(|node| node.domain.is_empty() && node.op_type == "Tanh");
        let Some(x) = tanh.and_then(|node| node.inputs.first().copied().flatten()) else {
            return (value, None);
        };
        self.unscaled(value);
        self.enter(bent);
        (x, Some(cap))
    }

    /// What is multiplied with a factor of each head, or divided by one.
    pub(super) fn scaled_by_head(&mut self, value: ValueId) -> (ValueId, Option<HeadScale>) {
        let found = || {
            let (id, 0) = self.graph.producer(value)? else { return None };
            let node = self.graph.node(id);
            let &[Some(a), Some(b)] = &node.inputs[..] else { return None };
            let is_div = node.domain.is_empty() && node.op_type == "Div";
            let is_mul = node.domain.is_empty() && node.op_type == "Mul";
            let of = |factor| Some(HeadScale { factor, is_divisor: is_div });
            match [a, b].map(|value| self.is_of_heads(value)) {
                [_, true] if is_mul || is_div => Some((a, of(b))),
                [true, _] if is_mul => Some((b, of(a))),
                _ => None,
            }
        };
        let Some(found) = found() else { return (value, None) };
        self.enter(value);
        found
    }

    /// Whether a value has at most one element for each head, `[N or 1, 1, 1]`.
    fn is_of_heads(&self, value: ValueId) -> bool {
        let is_one = |dim: &Dim| *dim == Dim::Known(1);
        match self.graph.fact(value).dims() {
            Some([batch, _, s, t]) => [batch, s, t].into_iter().all(is_one),
            Some([_, s, t]) => is_one(s) && is_one(t),
            Some([s, t]) => is_one(s) && is_one(t),
            Some([t]) => is_one(t),
            Some([]) => true,
            _ => false,
        }
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
}

/// The number that a tensor of one element is, of any rank that broadcasts to four dimensions.
pub(super) fn number(tensor: &Tensor) -> Option<f32> {
    match tensor.as_slice::<f32>() {
        Ok(&[number]) if tensor.shape().len() <= 4 => Some(number),
        _ => None,
    }
}
