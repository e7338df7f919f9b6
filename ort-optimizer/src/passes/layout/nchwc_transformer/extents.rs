//! The lengths of axes, as far as known: enough to prove two equal, and to estimate them.
//!
//! A length is a number, or a formula of lengths that are only known in a run: `⌊(n + a)/b⌋`, for a window with a
//! stride, or `n·f`, for Resize, plus an offset. Formulas are kept in a normal form, so that a convolution with a
//! kernel of 3 and one padded element gives the same formula as one with a kernel of 1, and two strides of 2 the same
//! as one of 4. Source: ONNX Runtime 1.31's `NchwcTransformer` counts halvings of axes for the same purpose.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use ort_graph::{Attr, Dim, Graph, Node, ValueId};
use ort_ops::infer::{AutoPad, WindowAttrs};
use ort_ops::ops::average_pool::AveragePool;
use ort_ops::ops::conv::Conv;
use ort_ops::ops::max_pool::MaxPool;

use super::upsample;
use crate::nchwc::is_elementwise;

/// A length: `base + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Extent {
    base: Option<usize>,
    offset: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Term {
    /// This axis of this value.
    Axis(ValueId, usize),
    /// `⌊(term + offset) / divisor⌋`, `0 ≤ offset < divisor`.
    Quotient(usize, i64, i64),
    /// `term · factor`.
    Multiple(usize, i64),
}

/// The lengths of the axes of every tensor of rank 4.
#[derive(Debug, Default)]
pub(super) struct Extents {
    terms: HashMap<Term, usize>,
    /// Each term, and an estimate of its value.
    list: Vec<(Term, f64)>,
    of_values: HashMap<ValueId, [Extent; 4]>,
    /// The extent of each name.
    symbols: HashMap<Arc<str>, Extent>,
}

/// The assumed height or width of an image of unknown size: the usual one in training.
const USUAL_EXTENT: f64 = 224.0;

impl Extents {
    /// The extents of all values of a graph whose nodes are in this order.
    pub(super) fn of(graph: &Graph, order: &[ort_graph::NodeId]) -> Self {
        let mut extents = Self::default();
        for id in graph.value_ids().filter(|&id| graph.producer(id).is_none()) {
            extents.add(graph, id, |_, _| None);
        }
        for &id in order {
            let node = graph.node(id);
            for &output in node.outputs.iter().flatten() {
                extents.add(graph, output, |this, axis| this.derived(graph, node, axis));
            }
        }
        extents
    }

    /// The extents of a tensor of rank 4.
    pub(super) fn get(&self, id: ValueId) -> Option<[Extent; 4]> {
        self.of_values.get(&id).copied()
    }

    /// Whether two values have the same batch, height and width. (Channels are known.)
    pub(super) fn are_equal(&self, a: ValueId, b: ValueId) -> bool {
        let (Some(a), Some(b)) = (self.get(a), self.get(b)) else { return false };
        [0, 2, 3].into_iter().all(|axis| a[axis] == b[axis])
    }

    /// An estimate of the number of positions of an image, times the number of images.
    pub(super) fn positions(&self, id: ValueId) -> f64 {
        let Some(extents) = self.get(id) else { return USUAL_EXTENT * USUAL_EXTENT };
        [0, 2, 3].into_iter().map(|axis| self.guess(extents[axis])).product()
    }

    fn guess(&self, Extent { base, offset }: Extent) -> f64 {
        (base.map_or(0.0, |base| self.list[base].1) + offset as f64).max(1.0)
    }

    fn add(
        &mut self,
        graph: &Graph,
        id: ValueId,
        derived: impl Fn(&mut Self, usize) -> Option<Extent>,
    ) {
        let Some(dims) = graph.fact(id).dims().filter(|dims| dims.len() == 4) else { return };
        let first = graph.producer(id).and_then(|(node, _)| image_of(graph, graph.node(node)));
        let unnamed = |this: &mut Self, axis: usize| {
            derived(this, axis).unwrap_or_else(|| {
                let before = first.and_then(|x| Some(this.guess(this.get(x)?[axis])));
                this.term(Term::Axis(id, axis), before.unwrap_or(usual(axis)))
            })
        };
        let mut axis = |axis: usize| match &dims[axis] {
            Dim::Known(n) => known(*n),
            Dim::Unknown => unnamed(self, axis),
            Dim::Symbol(name) => match self.symbols.get(name) {
                Some(extent) => *extent,
                None => {
                    let extent = unnamed(self, axis);
                    self.symbols.insert(name.clone(), extent);
                    extent
                }
            },
        };
        let extents = std::array::from_fn(&mut axis);
        self.of_values.insert(id, extents);
    }

    /// The length of an axis of the output of `node`, as a formula of its inputs'.
    fn derived(&mut self, graph: &Graph, node: &Node, axis: usize) -> Option<Extent> {
        let x = self.get(image_of(graph, node)?)?;
        if let Some((window, kernel)) = window_of(graph, node) {
            return match axis {
                0 => Some(x[0]),
                2 | 3 => self.windows(x[axis], &window, &kernel, axis - 2),
                _ => None,
            };
        }
        if let Some(scales) = upsample::scales(graph, node) {
            return Some(self.times(x[axis], scales[axis]));
        }
        match node.op_type.as_str() {
            "Transpose" => match node.attrs.get("perm") {
                Some(Attr::Ints(perm)) => x.get(usize::try_from(*perm.get(axis)?).ok()?).copied(),
                _ => None,
            },
            "Concat" | "Split" | "Slice" => match node.attrs.get("axis") {
                Some(Attr::Int(1 | -3)) if axis != 1 => Some(x[axis]),
                _ => None,
            },
            "BatchNormalization" => Some(x[axis]),
            _ if is_elementwise(node) => self.common(graph, node, axis),
            _ => None,
        }
    }

    /// The length of an axis that all operands broadcast to.
    fn common(&self, graph: &Graph, node: &Node, axis: usize) -> Option<Extent> {
        let dynamic = node.inputs.iter().flatten().filter(|&&id| graph.constant(id).is_none());
        let mut extents: Vec<Extent> = Vec::new();
        for &id in dynamic {
            extents.push(self.get(id)?[axis]);
        }
        extents.retain(|&extent| extent != known(1));
        let first = extents.first().copied().unwrap_or(known(1));
        extents.iter().all(|&extent| extent == first).then_some(first)
    }

    /// How many windows fit on an axis.
    fn windows(
        &mut self,
        n: Extent,
        window: &WindowAttrs,
        kernel: &[usize],
        axis: usize,
    ) -> Option<Extent> {
        let of = |list: &Option<ort_tensor::Shape>, axis: usize, default: i64| match list {
            Some(list) => i64::try_from(*list.get(axis)?).ok(),
            None => Some(default),
        };
        let stride = of(&window.strides, axis, 1)?;
        let reach = of(&window.dilations, axis, 1)?
            .checked_mul(i64::try_from(kernel.get(axis)?.checked_sub(1)?).ok()?)?;
        let padding = match window.auto_pad {
            _ if window.is_ceil => return None,
            AutoPad::SameUpper | AutoPad::SameLower => {
                return self.quotient(n, stride - 1, stride);
            }
            AutoPad::Valid => 0,
            AutoPad::NotSet => {
                of(&window.pads, axis, 0)?.checked_add(of(&window.pads, axis + 2, 0)?)?
            }
        };
        let last = self.quotient(n, padding.checked_sub(reach)?.checked_sub(1)?, stride)?;
        Some(Extent { offset: last.offset + 1, ..last })
    }

    /// `⌊(n + offset) / divisor⌋`.
    fn quotient(&mut self, n: Extent, offset: i64, divisor: i64) -> Option<Extent> {
        let sum = n.offset.checked_add(offset)?;
        let (whole, rest) = (sum.checked_div_euclid(divisor)?, sum.checked_rem_euclid(divisor)?);
        let quotient = match n.base {
            None => known(0),
            Some(base) if divisor == 1 => Extent { base: Some(base), offset: 0 },
            Some(base) => match self.list[base].0.clone() {
                Term::Multiple(inner, factor) if factor % divisor == 0 => {
                    self.times(Extent { base: Some(inner), offset: 0 }, factor / divisor)
                }
                Term::Quotient(inner, before, by) => {
                    let rest = rest.checked_mul(by)?.checked_add(before)?;
                    self.term(Term::Quotient(inner, rest, by.checked_mul(divisor)?), 0.0)
                }
                _ => self.term(Term::Quotient(base, rest, divisor), 0.0),
            },
        };
        Some(Extent { offset: quotient.offset.checked_add(whole)?, ..quotient })
    }

    fn times(&mut self, n: Extent, factor: i64) -> Extent {
        let offset = n.offset.saturating_mul(factor);
        let product = match n.base {
            None => known(0),
            Some(base) if factor == 1 => Extent { base: Some(base), offset: 0 },
            Some(base) => match self.list[base].0 {
                Term::Multiple(inner, by) => {
                    self.term(Term::Multiple(inner, by.saturating_mul(factor)), 0.0)
                }
                _ => self.term(Term::Multiple(base, factor), 0.0),
            },
        };
        Extent { offset: product.offset + offset, ..product }
    }

    fn term(&mut self, term: Term, guess: f64) -> Extent {
        let guess = match term {
            Term::Axis(..) => guess,
            Term::Quotient(base, offset, divisor) => {
                ((self.list[base].1 + offset as f64) / divisor as f64).floor()
            }
            Term::Multiple(base, factor) => self.list[base].1 * factor as f64,
        };
        let at = *self.terms.entry(term.clone()).or_insert(self.list.len());
        if at == self.list.len() {
            self.list.push((term, guess));
        }
        Extent { base: Some(at), offset: 0 }
    }
}

fn known(n: usize) -> Extent {
    Extent { base: None, offset: i64::try_from(n).unwrap_or(i64::MAX) }
}

const fn usual(axis: usize) -> f64 {
    if axis == 0 { 1.0 } else { USUAL_EXTENT }
}

/// The first input of rank 4 that is not constant.
fn image_of(graph: &Graph, node: &Node) -> Option<ValueId> {
    let mut inputs = node.inputs.iter().flatten().copied();
    inputs.find(|&id| graph.constant(id).is_none() && graph.fact(id).rank() == Some(4))
}

/// The windows of a convolution or pool in NCHW.
fn window_of(graph: &Graph, node: &Node) -> Option<(WindowAttrs, Vec<usize>)> {
    let op = &*node.op as &dyn Any;
    if let Some(conv) = op.downcast_ref::<Conv>() {
        let weights = graph.fact((*node.inputs.get(1)?)?).shape()?;
        return Some((conv.window.clone(), weights.get(2..)?.to_vec()));
    }
    let window = match op.downcast_ref::<MaxPool>() {
        Some(pool) => &pool.window,
        None => &op.downcast_ref::<AveragePool>()?.window,
    };
    Some((window.clone(), window.kernel.as_ref()?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    fn is_equal(nodes: &str) -> bool {
        let text = format!(
            "graph(x: float[n,8,h,w]) -> (y, z) {{
               w1 = const float[8,8,1,1] fill 1
               w3 = const float[8,8,3,3] fill 1
               {nodes}
             }}"
        );
        let graph = parse(&text);
        let extents = Extents::of(&graph, &graph.topological_order().unwrap());
        extents.are_equal(graph.outputs()[0], graph.outputs()[1])
    }

    #[test]
    fn windows_that_fit_as_often_are_equal() {
        assert!(is_equal(
            "y = Conv-11 [pads: [1, 1, 1, 1], strides: [2, 2]] (x, w3)
             z = Conv-11 [strides: [2, 2]] (x, w1)"
        ));
        assert!(is_equal(
            "a = Conv-11 [strides: [2, 2]] (x, w1)
             y = Conv-11 [strides: [2, 2]] (a, w1)
             z = Conv-11 [strides: [4, 4]] (x, w1)"
        ));
        assert!(is_equal(
            r#"y = Conv-11 [strides: [2, 2]] (x, w1)
             z = Conv-11 [auto_pad: "SAME_UPPER", strides: [2, 2]] (x, w3)"#
        ));
        assert!(!is_equal("y = Conv-11 (x, w3) z = Conv-11 (x, w1)"));
    }

    #[test]
    fn doubling_what_was_halved_may_lose_an_element() {
        let resize = r#"s = const float[4] [1, 1, 2, 2]
            f = Resize-13 [coordinate_transformation_mode: "asymmetric", mode: "nearest",
              nearest_mode: "floor"]"#;
        assert!(!is_equal(&format!(
            "a = Conv-11 [strides: [2, 2]] (x, w1) z = Relu-14 (x) {} (a, _, s) y = Neg-13 (f)",
            resize
        )));
        assert!(is_equal(&format!(
            "{resize} (x, _, s) y = Conv-11 [strides: [2, 2]] (f, w1) z = Relu-14 (x)"
        )));
    }
}
