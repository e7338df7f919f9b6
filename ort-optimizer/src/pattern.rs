//! The pattern language: formulas over values, to match nodes and to create them.
//!
//! ```text
//! &x * (op("Erf", [&x / SQRT_2]) + 1.0) * 0.5
//! ```
//!
//! A repeated variable must be the same value. Operands of a commutative operator match
//! in either order.

use std::ops;
use std::rc::Rc;

use ort_graph::Attrs;
use ort_tensor::Tensor;

use crate::matching::Match;
use crate::pass::Refusal;

/// A formula. A clone shares the nodes.
#[derive(Clone, Debug)]
pub(crate) enum Pat {
    /// Any value, bound to this name.
    Var(&'static str),
    /// Any constant, bound to this name.
    Constant(&'static str),
    /// No value: an optional input that is left out.
    Absent,
    /// A constant of one element: the element of its type that is nearest to this number.
    Number(f64),
    /// A new constant that follows from the match. It matches nothing.
    Made(Maker),
    /// The first output of a node.
    Op(Rc<OpPat>),
    /// A formula, bound to this name.
    Named(&'static str, Rc<Pat>),
    /// One of these formulas: the first that holds, with everything else. It creates nothing.
    Any(Rc<[Pat]>),
}

/// A constant that follows from a match.
pub(crate) type Maker = fn(&Match<'_>) -> Result<Tensor, Refusal>;

/// A node: its operator, and formulas for its inputs.
#[derive(Clone, Debug)]
pub(crate) struct OpPat {
    pub(crate) domain: &'static str,
    pub(crate) op_type: &'static str,
    pub(crate) inputs: Vec<Pat>,
    /// The name of the matched node; by default its operator.
    pub(crate) label: &'static str,
    /// Whether the node may have inputs after these.
    pub(crate) has_more: bool,
    /// Whether operands are found only in this order, even where another means the same.
    pub(crate) is_ordered: bool,
    /// The source of a new node's version and attributes.
    pub(crate) origin: Origin,
}

/// The source of a new node's version and attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// Those of the matched node of this label; by default of its own operator. An operator that was not matched has
    /// version 13 and no attributes.
    Like(&'static str),
    /// This version, and the attributes that follow from the match.
    New(i32, fn(&Match<'_>) -> Attrs),
    /// The version and the attributes that follow from the match.
    Following(fn(&Match<'_>) -> (i32, Attrs)),
}

/// A variable.
pub(crate) fn var(name: &'static str) -> Pat {
    Pat::Var(name)
}

/// A variable for constants only.
pub(crate) fn constant(name: &'static str) -> Pat {
    Pat::Constant(name)
}

/// An optional input that is left out.
pub(crate) const fn absent() -> Pat {
    Pat::Absent
}

/// A new constant that follows from the match.
pub(crate) const fn made(tensor: Maker) -> Pat {
    Pat::Made(tensor)
}

/// One of several formulas.
pub(crate) fn any(pats: impl IntoIterator<Item = Pat>) -> Pat {
    Pat::Any(pats.into_iter().collect())
}

/// A node of ai.onnx with exactly these inputs.
pub(crate) fn op<const N: usize>(op_type: &'static str, inputs: [impl Into<Pat>; N]) -> Pat {
    Pat::Op(Rc::new(OpPat {
        domain: "",
        op_type,
        inputs: inputs.into_iter().map(Into::into).collect(),
        label: op_type,
        has_more: false,
        is_ordered: false,
        origin: Origin::Like(op_type),
    }))
}

impl Pat {
    /// The node may have inputs after those that are given; they can be anything.
    pub(crate) fn and_more(self) -> Self {
        self.with(|op| op.has_more = true)
    }

    /// The operands are in this order, even if the operator is commutative: with a rule for each order, the second
    /// can apply where the first does not.
    pub(crate) fn in_order(self) -> Self {
        self.with(|op| op.is_ordered = true)
    }

    /// The operator is of this operator set.
    pub(crate) fn of(self, domain: &'static str) -> Self {
        self.with(|op| op.domain = domain)
    }

    /// The matched node is known by this label.
    pub(crate) fn labelled(self, label: &'static str) -> Self {
        self.with(|op| {
            op.label = label;
            op.origin = Origin::Like(label);
        })
    }

    /// A new node has the version and the attributes of the matched node of this label.
    pub(crate) fn like(self, label: &'static str) -> Self {
        self.with(|op| op.origin = Origin::Like(label))
    }

    /// A new node has this version, and the attributes that follow from the match.
    pub(crate) fn since(self, version: i32, attrs: fn(&Match<'_>) -> Attrs) -> Self {
        self.with(|op| op.origin = Origin::New(version, attrs))
    }

    /// A new node has the version and the attributes that follow from the match.
    pub(crate) fn following(self, spec: fn(&Match<'_>) -> (i32, Attrs)) -> Self {
        self.with(|op| op.origin = Origin::Following(spec))
    }

    /// Binds the value to this name, for use in the rest of the formula.
    pub(crate) fn named(self, name: &'static str) -> Self {
        Pat::Named(name, Rc::new(self))
    }

    fn with(mut self, change: impl FnOnce(&mut OpPat)) -> Self {
        if let Pat::Op(op) = &mut self {
            change(Rc::make_mut(op));
        }
        self
    }
}

impl Pat {
    /// Adds the operators of all nodes in it, of alternatives those that all have.
    pub(crate) fn add_operators(&self, operators: &mut Vec<&'static str>) {
        match self {
            Pat::Op(op) => {
                operators.push(op.op_type);
                op.inputs.iter().for_each(|input| input.add_operators(operators));
            }
            Pat::Named(_, pat) => pat.add_operators(operators),
            Pat::Any(pats) => {
                let of = |pat: &Pat| {
                    let mut operators = Vec::new();
                    pat.add_operators(&mut operators);
                    operators
                };
                if let [first, others @ ..] = &**pats {
                    let others: Vec<_> = others.iter().map(of).collect();
                    let is_in_all = |name: &_| others.iter().all(|of| of.contains(name));
                    operators.extend(of(first).into_iter().filter(is_in_all));
                }
            }
            Pat::Var(_) | Pat::Constant(_) | Pat::Absent | Pat::Number(_) | Pat::Made(_) => {}
        }
    }
}

impl OpPat {
    /// The operators of all nodes in it, its own first.
    pub(crate) fn operators(&self) -> Vec<&'static str> {
        let mut operators = vec![self.op_type];
        self.inputs.iter().for_each(|input| input.add_operators(&mut operators));
        operators
    }

    /// Whether the two operands can be swapped.
    pub(crate) fn is_commutative(&self) -> bool {
        !self.is_ordered
            && self.domain.is_empty()
            && matches!(self.op_type, "Add" | "Mul" | "And" | "Or" | "Xor")
    }
}

impl From<&Pat> for Pat {
    fn from(pat: &Pat) -> Self {
        pat.clone()
    }
}

impl From<f64> for Pat {
    fn from(number: f64) -> Self {
        Pat::Number(number)
    }
}

/// `a ∘ b` is the node of an operator, for patterns by value and by reference, and numbers.
macro_rules! operators {
    ($($trait:ident :: $method:ident = $op_type:literal;)*) => { $(
        impl<T: Into<Pat>> ops::$trait<T> for &Pat {
            type Output = Pat;
            fn $method(self, other: T) -> Pat {
                op($op_type, [self.clone(), other.into()])
            }
        }
        impl<T: Into<Pat>> ops::$trait<T> for Pat {
            type Output = Pat;
            fn $method(self, other: T) -> Pat {
                op($op_type, [self, other.into()])
            }
        }
        impl ops::$trait<&Pat> for f64 {
            type Output = Pat;
            fn $method(self, other: &Pat) -> Pat {
                op($op_type, [self.into(), other.clone()])
            }
        }
    )* };
}

operators! {
    Add::add = "Add";
    Sub::sub = "Sub";
    Mul::mul = "Mul";
    Div::div = "Div";
}
