//! Finds a formula in a graph: depth first, in every order that commutativity allows.

use ort_graph::{Fact, Graph, Node, NodeId, ValueId};
use ort_tensor::{Number, Tensor, with_dtype};
use smallvec::SmallVec;

use crate::pattern::{OpPat, Pat};

/// A match of a formula: the nodes and values of its names.
#[derive(Clone, Debug)]
pub(crate) struct Match<'a> {
    pub(crate) graph: &'a Graph,
    values: SmallVec<[(&'static str, ValueId); 8]>,
    /// By label, the root first.
    nodes: SmallVec<[(&'static str, NodeId); 8]>,
    /// The highest rank of a constant that was matched as a number: broadcasting may have added as many dimensions to
    /// the other operand.
    number_rank: usize,
}

/// What is still to be matched: a list that shares its tail between the ways to match its head.
struct Goals<'a> {
    pat: &'a Pat,
    value: Option<ValueId>,
    rest: Option<&'a Goals<'a>>,
}

impl<'a> Match<'a> {
    /// The formula `pat`, found at the node `root`.
    pub(crate) fn at(graph: &'a Graph, root: NodeId, pat: &OpPat) -> Option<Self> {
        let (values, nodes) = (SmallVec::new(), SmallVec::new());
        let mut found = Self { graph, values, nodes, number_rank: 0 };
        found.node_is(root, pat, None).then_some(found)
    }

    /// The value of the variable `name`, which the formula must have.
    pub(crate) fn value(&self, name: &str) -> ValueId {
        let found = self.values.iter().find(|(other, _)| *other == name);
        found.expect("invariant: a rule names only its own variables").1
    }

    /// What is known of the variable `name`.
    pub(crate) fn fact(&self, name: &str) -> &'a Fact {
        self.graph.fact(self.value(name))
    }

    /// The contents of the variable `name`, if it is a constant.
    pub(crate) fn constant(&self, name: &str) -> Option<&'a Tensor> {
        self.graph.constant(self.value(name))
    }

    /// What is known of the first output of the root.
    pub(crate) fn root_fact(&self) -> Option<&'a Fact> {
        self.root().outputs.first().copied().flatten().map(|output| self.graph.fact(output))
    }

    /// The highest rank of a constant that was matched as a number.
    pub(crate) const fn number_rank(&self) -> usize {
        self.number_rank
    }

    /// The node of this label, which the formula must have.
    pub(crate) fn node(&self, label: &str) -> &'a Node {
        self.get_node(label).expect("invariant: a rule names only its own nodes")
    }

    /// The node of this label, if the formula has one.
    pub(crate) fn get_node(&self, label: &str) -> Option<&'a Node> {
        let found = self.nodes.iter().find(|(other, _)| *other == label);
        found.map(|(_, id)| self.graph.node(*id))
    }

    /// The node that computes the formula.
    pub(crate) fn root(&self) -> &'a Node {
        self.graph.node(self.nodes[0].1)
    }

    /// Whether no value within the match but the root's is used outside of it.
    pub(crate) fn is_private(&self) -> bool {
        let is_inside = |node: &NodeId| self.nodes.iter().any(|(_, inside)| inside == node);
        self.nodes.iter().skip(1).all(|&(_, node)| {
            self.graph.node(node).outputs.iter().flatten().all(|&output| {
                !self.graph.is_output(output) && self.graph.consumers(output).iter().all(is_inside)
            })
        })
    }

    fn all_hold(&mut self, goals: Option<&Goals<'_>>) -> bool {
        let Some(goal) = goals else { return true };
        let Some(value) = goal.value else {
            return matches!(goal.pat, Pat::Absent) && self.all_hold(goal.rest);
        };
        match goal.pat {
            Pat::Absent | Pat::Made(_) => false,
            Pat::Var(name) => self.bind(name, value, goal.rest),
            Pat::Constant(name) => {
                self.graph.constant(value).is_some() && self.bind(name, value, goal.rest)
            }
            Pat::Number(number) => {
                let constant = self.graph.constant(value);
                let Some(constant) = constant.filter(|tensor| is_number(tensor, *number)) else {
                    return false;
                };
                let before = self.number_rank;
                self.number_rank = before.max(constant.shape().len());
                let holds = self.all_hold(goal.rest);
                if !holds {
                    self.number_rank = before;
                }
                holds
            }
            Pat::Named(name, pat) => {
                let goals = Goals { pat, value: Some(value), rest: goal.rest };
                self.bind(name, value, Some(&goals))
            }
            Pat::Any(pats) => pats.iter().any(|pat| {
                self.all_hold(Some(&Goals { pat, value: Some(value), rest: goal.rest }))
            }),
            Pat::Op(op) => match self.graph.producer(value) {
                Some((node, 0)) => self.node_is(node, op, goal.rest),
                _ => false,
            },
        }
    }

    fn bind(&mut self, name: &'static str, value: ValueId, rest: Option<&Goals<'_>>) -> bool {
        if let Some((_, bound)) = self.values.iter().find(|(other, _)| *other == name) {
            return *bound == value && self.all_hold(rest);
        }
        self.values.push((name, value));
        let holds = self.all_hold(rest);
        if !holds {
            self.values.pop();
        }
        holds
    }

    fn node_is(&mut self, id: NodeId, pat: &OpPat, rest: Option<&Goals<'_>>) -> bool {
        let node = self.graph.node(id);
        // Most names differ in the first letter, and a comparison of whole names is a call.
        let is_similar = node.op_type.as_bytes().first() == pat.op_type.as_bytes().first();
        if !is_similar || node.op_type != pat.op_type || node.domain != pat.domain {
            return false;
        }
        let n_present = node.inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let n_inputs = pat.inputs.len();
        if n_present > n_inputs && !pat.has_more {
            return false;
        }
        self.nodes.push((pat.label, id));
        let input = |index| node.inputs.get(index).copied().flatten();
        let inputs: SmallVec<[Option<ValueId>; 4]> = (0..n_inputs).map(input).collect();
        let holds = self.inputs_are(&inputs, &pat.inputs, rest)
            || (pat.is_commutative() && n_inputs == 2 && {
                self.inputs_are(&[inputs[1], inputs[0]], &pat.inputs, rest)
            });
        if !holds {
            self.nodes.pop();
        }
        holds
    }

    fn inputs_are(
        &mut self,
        values: &[Option<ValueId>],
        pats: &[Pat],
        rest: Option<&Goals<'_>>,
    ) -> bool {
        match (values, pats) {
            ([values @ .., value], [pats @ .., pat]) => {
                self.inputs_are(values, pats, Some(&Goals { pat, value: *value, rest }))
            }
            _ => self.all_hold(rest),
        }
    }
}

/// Whether a tensor has one element, and that is the nearest to `number` of its type. An integer
/// must be the number itself.
fn is_number(tensor: &Tensor, number: f64) -> bool {
    // A view of more elements might copy them.
    if tensor.len() != 1 {
        return false;
    }
    with_dtype!(tensor.dtype(), number, T => {
        let nearest = T::from_f64(number);
        let is_meant = tensor.dtype().is_float() || nearest.to_f64() == number;
        is_meant && matches!(tensor.as_slice::<T>(), Ok([element]) if *element == nearest)
    }, else => false)
}
