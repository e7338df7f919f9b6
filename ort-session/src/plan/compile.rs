//! From a graph to a plan: which provider runs which nodes, in which order.

// collects are bounded: as long as the graph's lists

use std::sync::{Arc, OnceLock};

use ort_ep::{Claim, CompileError, ExecutionProvider, KernelError, PackStore, Threads};
use ort_graph::{Control, CycleError, Graph, Node, NodeId, OpError, ValueId};
use ort_tensor::Tensor;
use smallvec::SmallVec;

use super::{Action, Plan, Step, SubPlan};
use crate::cancel::Cancel;
use crate::control::ScanSpec;

/// A graph that cannot be planned, for these inputs or for any.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The graph has a cycle.
    #[error(transparent)]
    Cycle(#[from] CycleError),
    /// No provider claims these nodes.
    #[error("no execution provider runs {}", nodes.join(", "))]
    Unclaimed {
        /// The nodes, each as `name (operator)`.
        nodes: Vec<String>,
    },
    /// A provider could not compile its claim.
    #[error("node `{node}` ({op_type}): {error}")]
    Compile {
        /// The node.
        node: String,
        /// Its operator.
        op_type: String,
        /// The error.
        error: Box<CompileError>,
    },
    /// The file only has packed copies of a constant, which are not the ones that the node's
    /// kernel needs.
    #[error("node `{node}` ({op_type}) reads `{value}`, of which the file only has packed forms")]
    Released {
        /// The node.
        node: String,
        /// Its operator.
        op_type: String,
        /// The constant.
        value: String,
    },
    /// Shape inference failed with the shapes of the inputs.
    #[error("node `{node}`: {error}")]
    Shapes {
        /// The node.
        node: String,
        /// The error.
        error: Box<OpError>,
    },
    /// A kernel rejected the shapes.
    #[error("node `{node}`: {error}")]
    Prepare {
        /// The node.
        node: String,
        /// The error.
        error: Box<KernelError>,
    },
    /// [`Cancel::cancel`] was called.
    #[error("compiling was cancelled")]
    Cancelled,
    /// A kernel panicked while it prepared for the shapes.
    #[error("node `{node}` panicked: {message}")]
    Panicked {
        /// The node.
        node: String,
        /// The message of the panic.
        message: String,
    },
    /// The intermediate values cannot be allocated.
    #[error("the intermediate values take {n_bytes} bytes, which cannot be allocated")]
    Arena {
        /// The size of the arena.
        n_bytes: usize,
    },
    /// A value too large for memory.
    #[error("node `{node}`: the result is too large")]
    TooLarge {
        /// The node.
        node: String,
    },
}

/// The settings of compilation.
pub(crate) struct Compiler<'a> {
    pub(crate) providers: &'a [Arc<dyn ExecutionProvider>],
    pub(crate) packs: &'a dyn PackStore,
    /// The threads that compile and pack.
    pub(crate) threads: &'a dyn Threads,
    /// The maximum number of branches that run in parallel.
    pub(crate) n_branches: usize,
    /// Cancels compilation.
    pub(crate) cancel: Option<&'a Cancel>,
}

impl Compiler<'_> {
    /// Compiles a graph and the subgraphs of its nodes.
    pub(crate) fn compile(&self, graph: Graph) -> Result<Plan, PlanError> {
        let order = graph.topological_order()?;
        let claims = self.claims(&graph, &order)?;
        let compiled: Vec<OnceLock<Result<Step, PlanError>>> =
            claims.iter().map(|_| OnceLock::new()).collect();
        self.threads.for_each(claims.len(), &|i| {
            let (claim, provider) = &claims[i];
            if control_of(&graph, claim).is_none() {
                compiled[i].get_or_init(|| self.run_step(&graph, claim.clone(), *provider));
            }
        });
        // bounded: by the nodes and values of the graph
        let mut steps = Vec::with_capacity(claims.len());
        for ((claim, _), step) in claims.iter().zip(compiled) {
            steps.extend(match (step.into_inner(), control_of(&graph, claim)) {
                (Some(step), _) => Some(step?),
                (None, Some((root, control))) => Some(self.control_step(&graph, root, control)?),
                (None, None) => None,
            });
        }
        Ok(Plan::new(graph, order, steps, self.n_branches))
    }

    /// Assigns nodes to providers: the first provider that claims a node, from the last node to the
    /// first, so that a claim of several nodes finds those before its root still free. A claim must not
    /// contain nodes that an earlier provider would claim; otherwise its root is a separate step.
    fn claims(&self, graph: &Graph, order: &[NodeId]) -> Result<Vec<(Claim, usize)>, PlanError> {
        let n_slots = order.iter().map(|id| id.index() + 1).max().unwrap_or(0);
        // bounded: by the nodes and values of the graph
        let mut is_taken = vec![false; n_slots];
        // bounded: by the nodes and values of the graph
        let mut claims = Vec::with_capacity(order.len());
        let mut unclaimed = Vec::new();
        for &id in order.iter().rev() {
            if is_taken[id.index()] {
                continue;
            }
            let node = graph.node(id);
            let claim = if node.op.behaviour().control.is_some() {
                Some((Claim::one(id, node), 0))
            } else {
                let claims = self.providers.iter().enumerate();
                let mut claims = claims.filter_map(|(i, p)| Some((p.claim(graph, id)?, i)));
                claims.next().map(|(claim, taker)| {
                    let is_wanted_before = |node: NodeId| {
                        let mut before = self.providers[..taker].iter();
                        node != id && before.any(|provider| provider.claim(graph, node).is_some())
                    };
                    let is_free =
                        |&node: &NodeId| !is_taken[node.index()] && !is_wanted_before(node);
                    let is_free = claim.nodes.iter().all(is_free);
                    (if is_free { claim } else { Claim::one(id, node) }, taker)
                })
            };
            match claim {
                None => unclaimed.push(format!("{} ({})", node.label(), node.op_type)),
                Some(claim) => {
                    claim.0.nodes.iter().for_each(|node| is_taken[node.index()] = true);
                    claims.push(claim);
                }
            }
        }
        claims.reverse();
        if unclaimed.is_empty() {
            Ok(claims)
        } else {
            Err(PlanError::Unclaimed { nodes: unclaimed })
        }
    }

    fn run_step(&self, graph: &Graph, claim: Claim, provider: usize) -> Result<Step, PlanError> {
        if self.cancel.is_some_and(Cancel::is_cancelled) {
            return Err(PlanError::Cancelled);
        }
        let root = claim.root().unwrap_or(claim.nodes[0]);
        let node = graph.node(root);
        let label = || (node.label().to_owned(), node.op_type.clone());
        let kernel = self.providers[provider].compile(graph, &claim, self.packs);
        let kernel = kernel.map_err(|error| {
            let ((node, op_type), error) = (label(), Box::new(error));
            PlanError::Compile { node, op_type, error }
        })?;
        let is_missing = |&(i, id): &(usize, ValueId)| {
            kernel.reads(i) && graph.constant(id).is_some_and(Tensor::is_released)
        };
        let inputs = claim.inputs.iter().enumerate();
        if let Some((_, id)) = { inputs }.filter_map(|(i, id)| Some((i, (*id)?))).find(is_missing) {
            let ((node, op_type), value) = (label(), graph.value(id).name.clone());
            return Err(PlanError::Released { node, op_type, value });
        }
        let is_alias = claim.nodes.len() == 1 && node.op.behaviour().is_alias;
        let mut nodes_before: SmallVec<[NodeId; 0]> = claim.nodes.iter().copied().collect();
        nodes_before.pop();
        Ok(Step {
            node: root,
            nodes_before,
            inputs: claim.inputs,
            outputs: claim.outputs,
            in_place: claim.in_place,
            action: Action::Run { kernel, provider, is_alias },
        })
    }

    fn control_step(&self, graph: &Graph, id: NodeId, control: Control) -> Result<Step, PlanError> {
        let node = graph.node(id);
        let mut inputs: SmallVec<[Option<ValueId>; 4]> = node.inputs.clone();
        inputs.extend(node.captured.iter().copied().map(Some));
        let sub = |name: &'static str| self.sub_plan(node, &inputs, name);
        let action = match control {
            Control::If => {
                Action::If { then_branch: sub("then_branch")?, else_branch: sub("else_branch")? }
            }
            Control::Loop => Action::Loop { body: sub("body")? },
            Control::Scan => Action::Scan { body: sub("body")?, scan: ScanSpec::of(node) },
            Control::SequenceMap => Action::SequenceMap { body: sub("body")? },
            _ => return Err(unclaimed(node)),
        };
        let outputs = node.outputs.clone();
        let (nodes_before, in_place) = (SmallVec::new(), SmallVec::new());
        Ok(Step { node: id, nodes_before, inputs, outputs, in_place, action })
    }

    fn sub_plan(
        &self,
        node: &Node,
        inputs: &[Option<ValueId>],
        name: &'static str,
    ) -> Result<SubPlan, PlanError> {
        let graph = node.attrs.graphs().find(|(attr, _)| *attr == name);
        let Some((_, graph)) = graph else { return Err(unclaimed(node)) };
        let n_own = node.inputs.len();
        let position = |there: ValueId| {
            let captured = inputs[n_own..].iter().position(|&input| input == Some(there));
            captured.map(|i| n_own + i).ok_or_else(|| unclaimed(node))
        };
        let captures: Result<_, _> =
            graph.captures().iter().map(|&(_, there)| position(there)).collect();
        let plan = Plan { is_body: true, ..self.compile(graph.clone())? };
        Ok(SubPlan { captures: captures?, plan: Box::new(plan) })
    }
}

/// The root of a claim, and its control flow operator, if it is one.
fn control_of(graph: &Graph, claim: &Claim) -> Option<(NodeId, Control)> {
    let root = claim.root()?;
    Some((root, graph.node(root).op.behaviour().control?))
}

fn unclaimed(node: &Node) -> PlanError {
    PlanError::Unclaimed { nodes: vec![format!("{} ({})", node.label(), node.op_type)] }
}
