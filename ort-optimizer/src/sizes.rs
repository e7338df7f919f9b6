//! Symbolic values of integers that follow from shapes, element by element.
//!
//! ```text
//! Shape(x: [n, 3, ?])                       = n, 3, (x, 2)
//! Concat(Gather(Shape(x), 0), -1, 64)       = n, -1, 64
//! ```
//! A model traced with dynamic dimensions computes with them where one would write 0 and −1 by
//! hand.

use std::sync::Arc;

use ort_graph::{Attr, Dim, Graph, Node, ValueId};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::concat::Concat;
use ort_tensor::{Bool, DType};
use smallvec::SmallVec;

/// One integer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Size {
    /// This number.
    Known(i64),
    /// The dimension of this name: never negative.
    Symbol(Arc<str>),
    /// The dimension of a value along an axis, which has no name: never negative.
    Axis(ValueId, usize),
    /// The sum of these, in order, of which at most one is a number: never negative.
    Sum(Arc<[Size]>),
    /// Any number.
    Unknown,
}

/// The elements of a scalar or a list.
pub(crate) type Sizes = SmallVec<[Size; 6]>;

/// Longer lists are not shapes.
const MAX_LEN: usize = 64;

/// Longer sums are not lengths.
const MAX_TERMS: usize = 8;

/// How many nodes are visited for one list.
const MAX_NODES: usize = 64;

/// The operators whose results are worth looking at.
pub(crate) const ROOTS: &[&str] = &[
    "Shape",
    "Gather",
    "Slice",
    "Concat",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Equal",
    "Where",
    "Cast",
    "Unsqueeze",
    "Squeeze",
    "Reshape",
    "ConstantOfShape",
];

impl Size {
    pub(crate) const fn known(&self) -> Option<i64> {
        match self {
            Size::Known(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether it is a dimension of `value` along `axis`, whatever that is in a run.
    pub(crate) fn is_dim(&self, graph: &Graph, value: ValueId, axis: usize) -> bool {
        let is = |dim: Option<Size>| dim.is_some_and(|dim| *self != Size::Unknown && *self == dim);
        let joined = || {
            let (id, _) = graph.producer(value)?;
            let node = graph.node(id);
            let concat = node.operator::<Concat>()?;
            let along = normalize_axis(concat.axis, graph.fact(value).rank()?).ok()?;
            Size::joined(graph, node, axis).filter(|_| along == axis)
        };
        is(Size::of_axis(graph, value, axis)) || is(joined())
    }

    /// The sum of a node's inputs along an axis.
    pub(crate) fn joined(graph: &Graph, node: &Node, axis: usize) -> Option<Size> {
        let mut parts = node.inputs.iter().map(|&part| Size::of_axis(graph, part?, axis));
        let first = parts.next()??;
        parts.try_fold(first, |sum, part| Some(sum.plus(&part?)))
    }

    fn of_axis(graph: &Graph, value: ValueId, axis: usize) -> Option<Size> {
        Some(Size::of_dim(graph.fact(value).dims()?.get(axis)?, value, axis))
    }

    /// The sum of two, unknown unless neither is negative.
    fn plus(&self, other: &Size) -> Size {
        let (mut terms, mut known) = (Vec::new(), 0_i64);
        for size in [self, other] {
            let parts = match size {
                Size::Sum(parts) => parts,
                size => std::slice::from_ref(size),
            };
            for part in parts {
                match part {
                    Size::Unknown | Size::Known(..0) => return Size::Unknown,
                    Size::Known(number) => match known.checked_add(*number) {
                        Some(sum) => known = sum,
                        None => return Size::Unknown,
                    },
                    part => terms.push(part.clone()), // bounded: by MAX_TERMS below
                }
            }
        }
        if known != 0 || terms.is_empty() {
            terms.push(Size::Known(known)); // bounded: one
        }
        terms.sort();
        match terms.len() {
            1 => terms.swap_remove(0),
            ..=MAX_TERMS => Size::Sum(terms.into()),
            _ => Size::Unknown,
        }
    }

    fn of_dim(dim: &Dim, value: ValueId, axis: usize) -> Size {
        match dim {
            Dim::Known(size) => i64::try_from(*size).map_or(Size::Unknown, Size::Known),
            Dim::Symbol(name) => Size::Symbol(name.clone()),
            Dim::Unknown => Size::Axis(value, axis),
        }
    }

    /// Whether both are the same number: `None` if that depends on the run.
    fn equals(&self, other: &Size) -> Option<bool> {
        match (self, other) {
            (Size::Unknown, _) | (_, Size::Unknown) => None,
            (Size::Known(a), Size::Known(b)) => Some(a == b),
            (a, b) if a == b => Some(true),
            (Size::Known(number), _) | (_, Size::Known(number)) if *number < 0 => Some(false),
            _ => None,
        }
    }
}

/// What is known of the elements of an integer or boolean tensor of rank 0 or 1; `None` if its
/// length is not known, or nothing is.
pub(crate) fn sizes(graph: &Graph, value: ValueId) -> Option<Sizes> {
    Reader { graph, nodes_left: MAX_NODES }.sizes(value)
}

struct Reader<'g> {
    graph: &'g Graph,
    nodes_left: usize,
}

impl Reader<'_> {
    fn sizes(&mut self, value: ValueId) -> Option<Sizes> {
        let fact = self.graph.fact(value);
        if fact.rank()? > 1 {
            return None;
        }
        if let Some(ints) = fact.ints() {
            return (ints.len() <= MAX_LEN).then(|| ints.into_iter().map(Size::Known).collect());
        }
        if let Some(flags) = self.graph.constant(value).and_then(|it| it.as_slice::<Bool>().ok()) {
            let known = flags.iter().map(|&flag| Size::Known(flag.get().into()));
            return (flags.len() <= MAX_LEN).then(|| known.collect());
        }
        self.nodes_left = self.nodes_left.checked_sub(1)?;
        let (id, _) = self.graph.producer(value)?;
        let sizes = self.computed(self.graph.node(id))?;
        (sizes.len() <= MAX_LEN).then_some(sizes)
    }

    fn computed(&mut self, node: &Node) -> Option<Sizes> {
        if !node.domain.is_empty() {
            return None;
        }
        match node.op_type.as_str() {
            "Shape" => self.shape(node),
            "Identity" | "Cast" | "Squeeze" | "Unsqueeze" | "Reshape" => {
                let y = node.outputs.first().copied().flatten()?;
                let is_index = self.graph.fact(y).dtype().is_some_and(DType::is_index);
                if is_index { self.input(node, 0) } else { None }
            }
            "Gather" => self.gather(node),
            "Slice" => self.slice(node),
            "Concat" => {
                let part = |index| self.input(node, index).or_else(|| self.of_len(node, index));
                let parts: Option<Vec<Sizes>> = (0..node.inputs.len()).map(part).collect();
                Some(parts?.into_iter().flatten().collect())
            }
            "ConstantOfShape" => self.filled(node),
            "Where" => self.chosen(node),
            "Equal" => self.zipped(node, |a, b| {
                a.equals(b).map_or(Size::Unknown, |is_equal| Size::Known(is_equal.into()))
            }),
            "Add" | "Sub" | "Mul" | "Div" => {
                self.zipped(node, |a, b| arithmetic(&node.op_type, a, b))
            }
            _ => None,
        }
    }

    fn input(&mut self, node: &Node, index: usize) -> Option<Sizes> {
        self.sizes(node.inputs.get(index).copied().flatten()?)
    }

    /// The length of an input of which nothing else is known.
    fn of_len(&self, node: &Node, index: usize) -> Option<Sizes> {
        let input = node.inputs.get(index).copied().flatten()?;
        match self.graph.fact(input).dims()? {
            &[Dim::Known(n @ ..=MAX_LEN)] => Some(std::iter::repeat_n(Size::Unknown, n).collect()),
            _ => None,
        }
    }

    /// The constant integers of an input.
    fn ints(&self, node: &Node, index: usize) -> Option<Vec<i64>> {
        self.graph.fact(node.inputs.get(index).copied().flatten()?).ints()
    }

    fn shape(&self, node: &Node) -> Option<Sizes> {
        let x = node.inputs.first().copied().flatten()?;
        let dims = self.graph.fact(x).dims()?;
        let rank = i64::try_from(dims.len()).ok()?;
        let bound = |name, default| {
            let given = int(node, name).unwrap_or(default);
            let from_front = if given < 0 { given.saturating_add(rank) } else { given };
            usize::try_from(from_front.clamp(0, rank)).ok()
        };
        let (start, end) = (bound("start", 0)?, bound("end", rank)?);
        let axes = dims.iter().enumerate().take(end).skip(start);
        Some(axes.map(|(axis, dim)| Size::of_dim(dim, x, axis)).collect())
    }

    fn gather(&mut self, node: &Node) -> Option<Sizes> {
        let data = self.input(node, 0)?;
        let indices = self.ints(node, 1)?;
        let len = i64::try_from(data.len()).ok()?;
        let picked = indices.into_iter().map(|index| {
            let index = if index < 0 { index.checked_add(len)? } else { index };
            data.get(usize::try_from(index).ok()?).cloned()
        });
        picked.collect()
    }

    /// A Slice with constant ranges of a list.
    fn slice(&mut self, node: &Node) -> Option<Sizes> {
        if node.since_version < 10 {
            return None;
        }
        let optional = |index: usize, default: i64| match node.inputs.get(index).copied().flatten()
        {
            None => Some(default),
            Some(_) => one(&self.ints(node, index)?),
        };
        let (start, end) = (one(&self.ints(node, 1)?)?, one(&self.ints(node, 2)?)?);
        let (_, step) = (optional(3, 0)?, optional(4, 1)?);
        let data = self.input(node, 0)?;
        let len = i64::try_from(data.len()).ok()?;
        if step != 1 {
            return None;
        }
        let bound = |given: i64| {
            let from_front = if given < 0 { given.saturating_add(len) } else { given };
            usize::try_from(from_front.clamp(0, len)).ok()
        };
        Some(data.into_iter().take(bound(end)?).skip(bound(start)?).collect())
    }

    fn filled(&mut self, node: &Node) -> Option<Sizes> {
        let n = match self.input(node, 0)?.as_slice() {
            [] => 1,
            [size] => usize::try_from(size.known()?).ok()?,
            _ => return None,
        };
        let value = match node.attrs.get("value") {
            Some(Attr::Tensor(value)) => one(value.as_slice::<i64>().ok()?)?,
            _ => return None,
        };
        (n <= MAX_LEN).then(|| std::iter::repeat_n(Size::Known(value), n).collect())
    }

    fn chosen(&mut self, node: &Node) -> Option<Sizes> {
        let condition = self.input(node, 0)?;
        let (a, b) = (self.input(node, 1)?, self.input(node, 2)?);
        let n = condition.len().max(a.len()).max(b.len());
        let chosen = (0..n).map(|i| match at(&condition, i)?.known() {
            Some(0) => at(&b, i).cloned(),
            Some(_) => at(&a, i).cloned(),
            None => Some(Size::Unknown),
        });
        chosen.collect()
    }

    fn zipped(&mut self, node: &Node, f: impl Fn(&Size, &Size) -> Size) -> Option<Sizes> {
        let (a, b) = (self.input(node, 0)?, self.input(node, 1)?);
        let n = a.len().max(b.len());
        (0..n).map(|i| Some(f(at(&a, i)?, at(&b, i)?))).collect()
    }
}

/// An element of a list; a list of one element is broadcast.
fn at(sizes: &Sizes, index: usize) -> Option<&Size> {
    if sizes.len() == 1 { sizes.first() } else { sizes.get(index) }
}

fn one(ints: &[i64]) -> Option<i64> {
    match ints {
        [int] => Some(*int),
        _ => None,
    }
}

fn int(node: &Node, name: &str) -> Option<i64> {
    match node.attrs.get(name) {
        Some(Attr::Int(int)) => Some(*int),
        _ => None,
    }
}

/// Unknown where an int32 would overflow.
fn arithmetic(op_type: &str, a: &Size, b: &Size) -> Size {
    let known = match (op_type, a.known(), b.known()) {
        ("Add", Some(a), Some(b)) => a.checked_add(b),
        ("Sub", Some(a), Some(b)) => a.checked_sub(b),
        ("Mul", Some(a), Some(b)) => a.checked_mul(b),
        ("Div", Some(a), Some(b)) => a.checked_div(b),
        ("Add", Some(0), _) | ("Mul", Some(1), _) => return b.clone(),
        ("Add" | "Sub", _, Some(0)) | ("Mul" | "Div", _, Some(1)) => return a.clone(),
        ("Add", ..) => return a.plus(b),
        _ => None,
    };
    let is_small = |number: &i64| i32::try_from(*number).is_ok();
    known.filter(is_small).map_or(Size::Unknown, Size::Known)
}
