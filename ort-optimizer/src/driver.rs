//! Runs the passes over a graph and its subgraphs, commits their patches, and counts them.

use std::cell::Cell;
use std::collections::BTreeMap;

use ort_graph::{Change, CycleError, Graph, InferError, Names, NodeId, Registry};
use web_time::Instant;

use crate::dim_names::DimNames;
use crate::eval::ConstEval;
use crate::names::covers;
use crate::nchwc::{self, NchwcError};
use crate::options::{Exactness, Level, Options};
use crate::pass::{Pass, Refusal, Rewrite, Site};
use crate::passes;
use crate::queue::{Order, Queue, Roots};
use crate::report::{PassReport, Report, Step, Visit};

/// All passes are repeated until none finds anything, but not more often than this.
const MAX_ROUNDS: usize = 10;

/// A pass checks for cancellation after this many nodes.
const VISITS: usize = 64;

/// A graph that cannot be optimized.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimizeError {
    /// Nodes form a cycle.
    #[error(transparent)]
    Cycle(#[from] CycleError),
    /// Operators in NCHWc cannot be lowered.
    #[error(transparent)]
    Nchwc(#[from] NchwcError),
    /// A node turned out not to fit its inputs: it could only fail in a run.
    #[error(transparent)]
    Infer(#[from] InferError),
    /// [`ConstEval::is_cancelled`] returned true.
    #[error("the optimizer was cancelled")]
    Cancelled,
}

/// Rewrites a graph into a faster one with the same outputs; inputs, outputs and their names are kept. Only nodes and
/// constants that an output needs remain. At [`Level::Disable`] the graph is returned unchanged, except that NCHWc is
/// lowered at every level. A file of the result can be imported.
///
/// # Errors
/// If nodes form a cycle, if NCHWc cannot be lowered, if folded constants reveal that a node does not fit its inputs,
/// or if `eval` is cancelled.
pub fn optimize(
    mut graph: Graph,
    registry: &Registry,
    options: &Options,
    eval: &dyn ConstEval,
) -> Result<(Graph, Report), OptimizeError> {
    let start = Instant::now();
    let lowered = nchwc::lower(&mut graph, registry, options)?;
    let (lowered, assumed_block_size) =
        lowered.map_or((None, None), |lowered| (Some(lowered.pass), lowered.assumed));
    let visit = |&PassReport { name: pass, applied, .. }: &PassReport| Visit {
        pass,
        start,
        time: start.elapsed(),
        applied,
    };
    let visits: Vec<Visit> = lowered.iter().map(visit).collect();
    if options.level == Level::Disable {
        // For graphs without NCHWc, the import has inferred everything.
        let graph = match lowered {
            Some(_) => {
                graph.infer_all()?;
                graph.compact()?
            }
            None => graph,
        };
        let passes = lowered.into_iter().collect();
        return Ok((graph, Report { passes, last: None, visits, assumed_block_size }));
    }
    let passes = passes::all().filter(|pass| is_enabled(pass, options)).collect();
    let (graph, mut report) = run(graph, registry, options, eval, passes)?;
    report.visits.splice(..0, visits);
    report.passes.splice(..0, lowered);
    Ok((graph, Report { assumed_block_size, ..report }))
}

/// Rewrites a graph by these passes.
pub(crate) fn run(
    mut graph: Graph,
    registry: &Registry,
    options: &Options,
    eval: &dyn ConstEval,
    passes: Vec<&Pass>,
) -> Result<(Graph, Report), OptimizeError> {
    let rewrites: Vec<Box<dyn Rewrite>> = passes.iter().map(|pass| (pass.start)()).collect();
    let roots = Roots::of(&rewrites);
    let mut driver = Driver {
        registry,
        eval,
        options,
        folded_bytes: Cell::new(options.max_folded_bytes),
        rewrites_left: options.stop_after.unwrap_or(usize::MAX),
        report: Report {
            passes: passes.iter().map(|pass| report_of(pass)).collect(),
            ..Report::default()
        },
        passes,
        rewrites: rewrites.into_iter().map(Some).collect(),
        roots: &roots,
    };
    let (mut dim_names, mut names) = (DimNames::default(), Names::default());
    for phase in Level::ALL.into_iter().filter(|&level| level <= options.level) {
        // Not earlier: dimensions that a rewrite finds do not replace names.
        if phase == Level::Extended {
            dim_names = DimNames::give(&mut graph)?;
        }
        driver.reach(phase, &mut graph, &mut names)?;
        // A rewrite may find that dimensions are equal, which others need to know.
        while phase == Level::Extended && dim_names.improve(&mut graph)? {
            driver.report.passes.iter_mut().for_each(|report| report.refused.clear());
            driver.reach(phase, &mut graph, &mut names)?;
        }
    }
    graph.infer_all()?;
    dim_names.take_from_outputs(&mut graph);
    let report = driver.report;
    Ok((graph.compact()?, report))
}

fn is_enabled(pass: &Pass, options: &Options) -> bool {
    let is_in = |names: &[String]| names.iter().any(|name| name == pass.name);
    pass.level <= options.level
        && !options.disabled.iter().any(|name| covers(name, pass.name))
        && (pass.exactness < Exactness::Approximate || is_in(&options.enabled))
}

/// The phase in which a pass joins the others. A pass of level `all` whose result ONNX Runtime lacks is a fusion like
/// others, and must run before layouts.
fn phase_of(pass: &Pass) -> Level {
    if pass.level == Level::All { Level::Extended } else { pass.level }
}

fn report_of(pass: &Pass) -> PassReport {
    let Pass { name, level, exactness, .. } = *pass;
    PassReport { name, level, exactness, applied: 0, refused: Vec::new(), micros: 0 }
}

/// Why a pass rejected nodes at its last visit.
type Refused = BTreeMap<NodeId, &'static str>;

struct Driver<'a> {
    registry: &'a Registry,
    eval: &'a dyn ConstEval,
    options: &'a Options,
    passes: Vec<&'a Pass>,
    /// The rewrite of each pass; `None` while it runs.
    rewrites: Vec<Option<Box<dyn Rewrite>>>,
    roots: &'a Roots,
    folded_bytes: Cell<usize>,
    rewrites_left: usize,
    /// One report per pass, in the same order.
    report: Report,
}

impl Driver<'_> {
    /// Runs all passes up to a level over a graph, and over the subgraphs of its nodes, until nothing
    /// changes.
    fn reach(
        &mut self,
        phase: Level,
        graph: &mut Graph,
        names: &mut Names,
    ) -> Result<(), OptimizeError> {
        // The number of rewrites of this graph when each pass last began: a pass that has seen the current graph need
        // not run again.
        let mut seen = vec![None; self.passes.len()];
        let mut refused: Vec<Refused> = vec![Refused::new(); self.passes.len()];
        let mut order = Order::default();
        let mut n_rewrites = 0_usize;
        for _ in 0..MAX_ROUNDS {
            let before = n_rewrites;
            for (index, seen) in seen.iter_mut().enumerate() {
                let is_due = phase_of(self.passes[index]) <= phase && self.rewrites_left > 0;
                if self.eval.is_cancelled() {
                    return Err(OptimizeError::Cancelled);
                }
                if is_due && seen.replace(n_rewrites) != Some(n_rewrites) {
                    refused[index].clear();
                    let (names, order) = (&mut *names, &mut order);
                    let place = Place { graph: &mut *graph, names, order, phase };
                    n_rewrites += self.pass(index, place, &mut refused[index])?;
                }
            }
            n_rewrites += self.subgraphs(phase, graph, &mut order)?;
            if n_rewrites == before || self.rewrites_left == 0 {
                break;
            }
        }
        if phase == self.options.level {
            for (report, refused) in self.report.passes.iter_mut().zip(refused) {
                refused.into_values().for_each(|reason| report.refuse(reason));
            }
        }
        Ok(())
    }

    /// Runs all passes over the subgraphs of a graph's nodes; returns how many rewrites there were.
    fn subgraphs(
        &mut self,
        phase: Level,
        graph: &mut Graph,
        order: &mut Order,
    ) -> Result<usize, OptimizeError> {
        let before = self.rewrites_left;
        let has_subgraphs = |id: &NodeId| graph.node(*id).attrs.graphs().next().is_some();
        let ids: Vec<NodeId> = graph.node_ids().filter(has_subgraphs).collect();
        for id in ids {
            order.outdate();
            graph.edit_subgraphs(id, |subgraph| {
                self.reach(phase, subgraph, &mut Names::default())
            })?;
            graph.refine(id);
        }
        Ok(before - self.rewrites_left)
    }

    /// Runs one pass over one graph; returns how many rewrites it made.
    fn pass(
        &mut self,
        index: usize,
        mut place: Place<'_>,
        refused: &mut Refused,
    ) -> Result<usize, OptimizeError> {
        let mut queue = Queue::new((self.roots, index), place.graph, place.order)?;
        let Some(mut rewrite) = self.rewrites[index].take_if(|_| !queue.is_empty()) else {
            return Ok(0);
        };
        rewrite.begin(&queue.may_hold);
        let start = Instant::now();
        let before = self.report.passes[index].applied;
        let mut n_visits = 0_usize;
        while self.rewrites_left > 0
            && let Some(id) = queue.pop()
        {
            if place.graph.get_node(id).is_none() {
                continue;
            }
            n_visits += 1;
            if n_visits.is_multiple_of(VISITS) && self.eval.is_cancelled() {
                return Err(OptimizeError::Cancelled);
            }
            match self.visit(&mut *rewrite, &mut place, id) {
                Ok(None) => {}
                Ok(Some((change, node))) => {
                    let report = &mut self.report.passes[index];
                    let n_rewrites = rewrite.n_rewrites();
                    report.applied += n_rewrites;
                    self.rewrites_left -= n_rewrites;
                    self.report.last = Some(Step { pass: report.name, node });
                    place.order.outdate();
                    propagate(place.graph, change, &mut queue);
                    refused.remove(&id);
                }
                Err(Refusal(reason)) => {
                    refused.insert(id, reason);
                }
            }
        }
        rewrite.end();
        self.rewrites[index] = Some(rewrite);
        let report = &mut self.report.passes[index];
        let (time, applied) = (start.elapsed(), report.applied - before);
        report.micros += u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.report.visits.push(Visit { pass: self.passes[index].name, start, time, applied });
        Ok(applied)
    }

    /// Lets a pass visit a node; commits its patch, and returns the node's name.
    fn visit(
        &self,
        rewrite: &mut dyn Rewrite,
        Place { graph, names, phase, .. }: &mut Place<'_>,
        id: NodeId,
    ) -> Result<Option<(Change, String)>, Refusal> {
        let site = Site {
            graph,
            id,
            eval: self.eval,
            options: self.options,
            phase: *phase,
            rewrites_left: self.rewrites_left,
            folded_bytes: &self.folded_bytes,
        };
        let Some(patch) = rewrite.visit(&site)? else { return Ok(None) };
        let node = graph.node(id).label().to_owned();
        Ok(Some((patch.commit_with(graph, self.registry, names)?, node)))
    }
}

/// Where a pass runs.
struct Place<'g> {
    graph: &'g mut Graph,
    names: &'g mut Names,
    order: &'g mut Order,
    phase: Level,
}

/// Infers facts again from what changed, as long as more becomes known, and queues every affected node.
fn propagate(graph: &mut Graph, change: Change, queue: &mut Queue<'_>) {
    queue.extend(graph, change.added);
    let mut readers = change.readers;
    while let Some(reader) = readers.pop() {
        if change.informs && graph.refine(reader) {
            let outputs = graph.node(reader).outputs.iter().flatten();
            readers.extend(outputs.flat_map(|&output| graph.consumers(output)));
        }
        queue.extend(graph, [reader]);
    }
}
