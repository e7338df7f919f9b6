//! The parallel regions of a plan: where it forks into branches that can run at the same time, and which of
//! them are profitable.
//!
//! ```text
//!            ┌→ 1 → 2 ─┐               ParallelRegion { branches: [1..3, 3..4] }
//! 0 ─ fork ──┤         ├─ join → 4     branches do not depend on each other
//!            └→ 3 ─────┘
//! ```
//!
//! A branch contains all steps that depend on its first step and otherwise only on steps before the
//! region; steps that depend on two branches come after the join. Branches may fork again. The steps of a
//! branch are consecutive, so that a plan is a flat list.

// collects are bounded: as long as the graph's lists

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use ort_graph::{Fact, Graph};

use super::branches::Branches;
use super::liveness::alias_of;
use super::{Plan, Step};
use crate::profile::describe;

/// The regions of a plan; none in sequential mode.
#[derive(Debug, Default)]
pub(crate) struct ParallelRegions {
    regions: Vec<ParallelRegion>,
    /// The maximum number of branches that run in parallel.
    n_threads: usize,
}

/// At least two branches, consecutive in the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ParallelRegion(Vec<Branch>);

/// Steps that depend on no other branch of the region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Branch {
    steps: Range<usize>,
    /// Nested regions, in order.
    regions: Vec<ParallelRegion>,
}

/// The maximum nesting of regions. Below, steps are sequential.
const MAX_DEPTH: usize = 64;

/// The minimum gain of a region, in nanoseconds: several times the cost of forking, joining and
/// fetching a kernel's operands from another core's caches.
const MIN_SAVED: u64 = 5_000;

impl ParallelRegions {
    /// Reorders steps so that those of a branch are consecutive, for this many threads.
    pub(super) fn arrange(graph: &Graph, steps: Vec<Step>, n_threads: usize) -> (Vec<Step>, Self) {
        if n_threads < 2 {
            return (steps, Self::default());
        }
        let (order, regions) = Arranger::new(predecessors(graph, &steps)).arrange();
        let mut steps: Vec<_> = steps.into_iter().map(Some).collect();
        let steps = order.iter().filter_map(|&i| steps[i].take()).collect();
        (steps, Self { regions, n_threads })
    }

    /// Whether steps are sequential for all sizes.
    pub(super) const fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// The profitable regions for values with these facts, in order. They are not nested.
    pub(super) fn worth(
        &self,
        plan: &Plan,
        facts: &[Fact],
        is_needed: impl Fn(usize) -> bool,
    ) -> Vec<Branches> {
        if self.regions.is_empty() {
            return Vec::new();
        }
        let cost = |(i, step): (usize, &Step)| match is_needed(i) {
            true => nanoseconds(plan, step, facts),
            false => 0,
        };
        let costs: Vec<u64> = plan.steps.iter().enumerate().map(cost).collect();
        best(&self.regions, &costs, self.n_threads).1
    }
}

/// For each step, the steps that it depends on.
fn predecessors(graph: &Graph, steps: &[Step]) -> Vec<Vec<usize>> {
    // bounded: by the nodes and values of the graph
    let mut makers = vec![None; graph.value_ids().count()];
    for (i, step) in steps.iter().enumerate() {
        step.outputs.iter().flatten().for_each(|id| makers[id.index()] = Some(i));
    }
    let of = |step: &Step| {
        let mut of: Vec<_> =
            step.inputs.iter().flatten().filter_map(|id| makers[id.index()]).collect();
        of.sort_unstable();
        of.dedup();
        of
    };
    steps.iter().map(of).collect()
}

/// The approximate time of a step on one thread. Only ratios matter, and which steps are small, so the
/// machine does not matter. Steps of dynamic shapes count as zero.
fn nanoseconds(plan: &Plan, step: &Step, facts: &[Fact]) -> u64 {
    const FLOPS: u64 = 200;
    const BYTES: usize = 16;
    let is_idle = |id: &ort_graph::ValueId| {
        let fact = &facts[id.index()];
        fact.constant.is_some() || fact.shape().is_none()
    };
    if step.outputs.iter().flatten().all(is_idle) || alias_of(step).is_some() {
        return 0;
    }
    let work = describe(plan, step, None, &|id| facts[id.index()].clone());
    work.flops / FLOPS + (work.n_bytes / BYTES) as u64
}

/// The time of a step with all threads, from its time on one: small steps are not
/// divided.
fn with_all_threads(nanoseconds: u64, n_threads: usize) -> u64 {
    const SMALL: u64 = 8_000;
    const FORK_AND_JOIN: u64 = 2_000;
    if nanoseconds < SMALL { nanoseconds } else { nanoseconds / n_threads as u64 + FORK_AND_JOIN }
}

/// The gain of the best choice of regions, and that choice: each region itself, or those nested in it.
fn best(regions: &[ParallelRegion], costs: &[u64], n_threads: usize) -> (u64, Vec<Branches>) {
    let (mut saved, mut chosen) = (0, Vec::new());
    for ParallelRegion(branches) in regions {
        let cost = |branch: &Branch| costs[branch.steps.clone()].iter().sum::<u64>();
        let all: u64 = branches.iter().map(cost).sum();
        let longest = branches.iter().map(cost).max().unwrap_or(0);
        let steps = branches.iter().flat_map(|branch| &costs[branch.steps.clone()]);
        let in_order: u64 = steps.map(|&cost| with_all_threads(cost, n_threads)).sum();
        let own = in_order.saturating_sub(longest.max(all.div_ceil(n_threads as u64)));
        let within = branches.iter().map(|branch| best(&branch.regions, costs, n_threads));
        let (within_saved, within): (Vec<_>, Vec<_>) = within.unzip();
        let within_saved = within_saved.into_iter().sum();
        if own < within_saved || own < MIN_SAVED {
            saved += within_saved;
            chosen.extend(within.into_iter().flatten());
        } else {
            saved += own;
            let start = branches.first().map_or(0, |branch| branch.steps.start);
            let steps = start..branches.last().map_or(0, |branch| branch.steps.end);
            let mut branches: Vec<_> = branches.iter().collect();
            branches.sort_by_key(|branch| Reverse(cost(branch)));
            let branches = branches.into_iter().map(|branch| branch.steps.clone()).collect();
            chosen.push(Branches { steps, branches, slabs: Vec::new() });
        }
    }
    (saved, chosen)
}

/// Orders steps.
struct Arranger {
    predecessors: Vec<Vec<usize>>,
    successors: Vec<Vec<usize>>,
    /// By step: the number of unplaced steps it depends on.
    n_waits: Vec<usize>,
    is_placed: Vec<bool>,
    order: Vec<usize>,
}

impl Arranger {
    fn new(predecessors: Vec<Vec<usize>>) -> Self {
        let n = predecessors.len();
        // bounded: by the nodes and values of the graph
        let mut successors = vec![Vec::new(); n];
        for (i, of) in predecessors.iter().enumerate() {
            of.iter().for_each(|&before| successors[before].push(i));
        }
        let n_waits = predecessors.iter().map(Vec::len).collect();
        // bounded: by the nodes and values of the graph
        Self { predecessors, successors, n_waits, is_placed: vec![false; n], order: Vec::new() }
    }

    fn arrange(mut self) -> (Vec<usize>, Vec<ParallelRegion>) {
        let regions = self.place((0..self.n_waits.len()).collect(), 0);
        (self.order, regions)
    }

    /// Places these steps, which are in topological order and depend only on each other and on
    /// placed steps.
    fn place(&mut self, mut steps: Vec<usize>, depth: usize) -> Vec<ParallelRegion> {
        let mut regions = Vec::new();
        let mut ready = self.ready(&steps);
        while let Some(Reverse(first)) = ready.pop() {
            if ready.is_empty() || depth == MAX_DEPTH {
                self.place_one(first, &steps, &mut ready);
                continue;
            }
            steps.retain(|&i| !self.is_placed[i]);
            let branches = self.branches(&steps).into_iter().map(|branch| {
                let start = self.order.len();
                let regions = self.place(branch, depth + 1);
                Branch { steps: start..self.order.len(), regions }
            });
            regions.push(ParallelRegion(branches.collect()));
            ready = self.ready(&steps);
        }
        regions
    }

    /// Steps that do not depend on unplaced steps, the first on top.
    fn ready(&self, steps: &[usize]) -> BinaryHeap<Reverse<usize>> {
        let is_ready = |&&i: &&usize| !self.is_placed[i] && self.n_waits[i] == 0;
        steps.iter().filter(is_ready).map(|&i| Reverse(i)).collect()
    }

    /// Places a step; those of `steps` that only depended on it become ready.
    fn place_one(&mut self, step: usize, steps: &[usize], ready: &mut BinaryHeap<Reverse<usize>>) {
        self.is_placed[step] = true;
        self.order.push(step);
        for &after in &self.successors[step] {
            self.n_waits[after] -= 1;
            if self.n_waits[after] == 0 && steps.binary_search(&after).is_ok() {
                ready.push(Reverse(after));
            }
        }
    }

    /// The steps of each branch, where none of `steps` is placed: all that depend on only one ready
    /// step.
    fn branches(&self, steps: &[usize]) -> Vec<Vec<usize>> {
        let mut branches: Vec<Vec<usize>> = Vec::new();
        // By step: its branch, if it has one.
        // bounded: by the nodes and values of the graph
        let mut branch_of = vec![None; self.n_waits.len()];
        for &i in steps {
            let mut before = self.predecessors[i].iter().filter(|&&before| !self.is_placed[before]);
            let branch = match before.next() {
                None => {
                    branches.push(Vec::new());
                    Some(branches.len() - 1)
                }
                Some(&first) => {
                    let branch: Option<usize> = branch_of[first];
                    branch.filter(|_| before.all(|&other| branch_of[other] == branch))
                }
            };
            branch_of[i] = branch;
            if let Some(branch) = branch {
                branches[branch].push(i);
            }
        }
        branches
    }
}

#[cfg(test)]
mod tests {
    use ort_testing::Rng;

    use super::*;

    fn arrange(predecessors: &[&[usize]]) -> (Vec<usize>, Vec<ParallelRegion>) {
        Arranger::new(predecessors.iter().map(|of| of.to_vec()).collect()).arrange()
    }

    fn region(branches: &[Range<usize>]) -> ParallelRegion {
        let branch = |steps: &Range<usize>| Branch { steps: steps.clone(), regions: vec![] };
        ParallelRegion(branches.iter().map(branch).collect())
    }

    #[test]
    fn a_chain_does_not_fork() {
        assert_eq!(arrange(&[&[], &[0], &[1], &[2]]), (vec![0, 1, 2, 3], vec![]));
    }

    #[test]
    fn a_skipped_branch_is_none() {
        // 0 → 1 → 2, and 0 → 2.
        assert_eq!(arrange(&[&[], &[0], &[0, 1]]), (vec![0, 1, 2], vec![]));
    }

    #[test]
    fn branches_are_consecutive_and_joins_come_after() {
        // 0 → {1 → 3, 2 → 4} → 5, interleaved.
        let (order, regions) = arrange(&[&[], &[0], &[0], &[1], &[2], &[3, 4]]);
        assert_eq!(order, [0, 1, 3, 2, 4, 5]);
        assert_eq!(regions, [region(&[1..3, 3..5])]);
    }

    #[test]
    fn a_branch_may_fork_again() {
        // 0 in parallel with 1 → {2, 3} → 4, then 5 after both.
        let (order, regions) = arrange(&[&[], &[], &[1], &[1], &[2, 3], &[0, 4]]);
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        let inner = Branch { steps: 1..5, regions: vec![region(&[2..3, 3..4])] };
        assert_eq!(regions, [ParallelRegion(vec![Branch { steps: 0..1, regions: vec![] }, inner])]);
    }

    #[test]
    fn too_deeply_nested_regions_are_sequential() {
        // Every step of a chain has a parallel leaf, which the last step depends on.
        let n = 3 * MAX_DEPTH;
        let mut predecessors: Vec<Vec<usize>> = vec![vec![]];
        for i in 1..n {
            let chain = if i % 2 == 1 { i - 1 } else { i.saturating_sub(2) };
            predecessors.push(vec![chain]);
        }
        predecessors.push((0..n).collect());
        let (order, _) = Arranger::new(predecessors.clone()).arrange();
        assert_eq!(order.len(), n + 1);
        assert_topological(&order, &predecessors);
    }

    fn assert_topological(order: &[usize], predecessors: &[Vec<usize>]) {
        let mut position = vec![usize::MAX; order.len()];
        order.iter().enumerate().for_each(|(at, &i)| position[i] = at);
        for (i, of) in predecessors.iter().enumerate() {
            assert!(of.iter().all(|&before| position[before] < position[i]), "{i} of {order:?}");
        }
    }

    /// Asserts that no branch depends on another one of its region.
    fn assert_apart(regions: &[ParallelRegion], order: &[usize], predecessors: &[Vec<usize>]) {
        for ParallelRegion(branches) in regions {
            assert!(branches.len() > 1);
            for branch in branches {
                for &i in &order[branch.steps.clone()] {
                    for before in &predecessors[i] {
                        let at = order.iter().position(|other| other == before).unwrap();
                        let is_outside = at < branches[0].steps.start;
                        assert!(is_outside || branch.steps.contains(&at));
                    }
                }
                assert_apart(&branch.regions, order, predecessors);
            }
        }
    }

    #[test]
    fn random_graphs_keep_topological_order_and_independent_branches() {
        let mut rng = Rng::new(3);
        for round in 0..300 {
            let n = 1 + rng.index(40);
            let of = |i: usize, rng: &mut Rng| -> Vec<usize> {
                let mut of: Vec<_> = (0..rng.index(3).min(i)).map(|_| rng.index(i)).collect();
                of.sort_unstable();
                of.dedup();
                of
            };
            let predecessors: Vec<_> = (0..n).map(|i| of(i, &mut rng)).collect();
            let (order, regions) = Arranger::new(predecessors.clone()).arrange();
            assert_eq!(order.len(), n, "round {round}");
            assert_topological(&order, &predecessors);
            assert_apart(&regions, &order, &predecessors);
        }
    }

    #[test]
    fn a_region_is_chosen_if_it_saves_more_than_nested_ones() {
        let inner = region(&[2..3, 3..4]);
        let regions = [ParallelRegion(vec![
            Branch { steps: 0..1, regions: vec![] },
            Branch { steps: 1..5, regions: vec![inner] },
        ])];
        let chosen = |costs: &[u64]| -> Vec<Vec<_>> {
            let (_, chosen) = best(&regions, costs, 2);
            chosen.into_iter().map(|chosen| chosen.branches).collect()
        };
        assert_eq!(chosen(&[7_000, 6_000, 0, 0, 7_000]), [[1..5, 0..1]]);
        assert_eq!(chosen(&[5_000, 1_000, 6_000, 7_000, 1_000]), [[3..4, 2..3]]);
        // Almost nothing, in total.
        assert!(chosen(&[7_000, 0, 0, 1_000, 1_000]).is_empty());
    }

    #[test]
    fn large_steps_keep_all_threads_where_branches_differ() {
        let regions = [region(&[0..1, 1..2])];
        assert!(best(&regions, &[900_000, 300_000], 2).1.is_empty());
        let (saved, chosen) = best(&regions, &[600_000, 599_000], 2);
        assert!(chosen.is_empty(), "{saved}");
        let regions = [region(&[0..2, 2..4])];
        assert_eq!(best(&regions, &[600_000; 4], 2).0, 8_000);
    }

    #[test]
    fn the_longest_branch_is_first() {
        let regions = [region(&[1..2, 2..3, 3..4])];
        let (saved, chosen) = best(&regions, &[0, 6_000, 0, 7_000], 2);
        let branches = vec![3..4, 1..2, 2..3];
        assert_eq!(chosen, [Branches { steps: 1..4, branches, slabs: vec![] }]);
        assert_eq!(saved, 6_000);
    }
}
