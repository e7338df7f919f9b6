//! The cheapest way to divide vertices in two: a minimum cut.
//!
//! Edmonds and Karp: as long as a path from source to sink has capacity left, the shortest such is
//! filled. What the source still reaches then is its side. Networks here have some dozens of
//! vertices.

use std::collections::VecDeque;

/// What a cut may not cross. Sums of fewer than two such fit.
pub(super) const INFINITE: u64 = 1 << 62;

/// Where every flow begins: the vertex whose side is wanted.
pub(super) const SOURCE: usize = 0;
/// Where every flow ends.
pub(super) const SINK: usize = 1;

/// Vertices, and edges that a cut from the source's side to the other pays for.
#[derive(Debug)]
pub(super) struct Network {
    /// Each edge is followed by its reverse, which begins with no capacity.
    edges: Vec<Edge>,
    /// The edges that leave each vertex.
    leaving: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct Edge {
    to: usize,
    capacity: u64,
}

/// A cheapest cut.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) cost: u64,
    /// For each vertex, whether it is on the source's side; no cheapest cut has fewer there.
    pub(super) is_near: Vec<bool>,
}

impl Network {
    /// Source and sink alone.
    pub(super) fn new() -> Self {
        Self { edges: Vec::new(), leaving: vec![Vec::new(), Vec::new()] }
    }

    pub(super) fn vertex(&mut self) -> usize {
        self.leaving.push(Vec::new());
        self.leaving.len() - 1
    }

    /// A cut with `from` near and `to` far pays `capacity`.
    pub(super) fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        for (from, to, capacity) in [(from, to, capacity), (to, from, 0)] {
            self.leaving[from].push(self.edges.len());
            self.edges.push(Edge { to, capacity });
        }
    }

    pub(super) fn cut(mut self) -> Cut {
        let mut cost = 0;
        loop {
            let reached = self.search();
            if reached[SINK].is_none() {
                return Cut { cost, is_near: reached.iter().map(Option::is_some).collect() };
            }
            cost += self.fill(&reached);
        }
    }

    /// For each vertex that the source reaches, the edge by which it does on a shortest path; the
    /// source itself has some edge, which is not looked at.
    fn search(&self) -> Vec<Option<usize>> {
        let mut reached = vec![None; self.leaving.len()];
        reached[SOURCE] = Some(usize::MAX);
        let mut queue = VecDeque::from([SOURCE]);
        while let Some(vertex) = queue.pop_front() {
            for &edge in &self.leaving[vertex] {
                let Edge { to, capacity } = self.edges[edge];
                if capacity > 0 && reached[to].is_none() {
                    reached[to] = Some(edge);
                    queue.push_back(to);
                }
            }
        }
        reached
    }

    /// Fills the path to the sink; returns how much more flows.
    fn fill(&mut self, reached: &[Option<usize>]) -> u64 {
        let mut path = Vec::new();
        let mut vertex = SINK;
        while let Some(edge) = reached[vertex].filter(|_| vertex != SOURCE) {
            path.push(edge);
            vertex = self.edges[edge ^ 1].to;
        }
        let flow = path.iter().map(|&edge| self.edges[edge].capacity).min().unwrap_or(0);
        for edge in path {
            self.edges[edge].capacity -= flow;
            self.edges[edge ^ 1].capacity += flow;
        }
        flow
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_narrow_place_is_cut() {
        let mut network = Network::new();
        let [a, b] = [network.vertex(), network.vertex()];
        for (from, to, capacity) in [(SOURCE, a, 7), (a, b, 2), (b, SINK, INFINITE), (a, SINK, 3)] {
            network.edge(from, to, capacity);
        }
        let Cut { cost, is_near } = network.cut();
        assert_eq!((cost, is_near), (5, vec![true, false, true, false]));
    }

    proptest! {
        #[test]
        fn no_division_is_cheaper(
            edges in prop::collection::vec((0_usize..7, 0_usize..7, 0_u64..9), 0..24)
        ) {
            let mut network = Network::new();
            (2..7).for_each(|vertex| assert_eq!(network.vertex(), vertex));
            edges.iter().for_each(|&(from, to, capacity)| network.edge(from, to, capacity));
            let Cut { cost, is_near } = network.cut();
            let cost_of = |is_near: &dyn Fn(usize) -> bool| -> u64 {
                let cut = edges.iter().filter(|&&(from, to, _)| is_near(from) && !is_near(to));
                cut.map(|(_, _, capacity)| capacity).sum()
            };
            prop_assert_eq!(cost_of(&|vertex| is_near[vertex]), cost);
            for others in 0_u32..32 {
                let is_near = |vertex| match vertex {
                    SOURCE => true,
                    SINK => false,
                    other => others >> (other - 2) & 1 == 1,
                };
                prop_assert!(cost <= cost_of(&is_near));
            }
        }
    }
}
