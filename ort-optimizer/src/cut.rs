//! A minimum cut of a network, by Dinic's algorithm.
//!
//! Every vertex is on one of two sides. An edge `a → b` adds its cost if `a` is on the first side and `b` on the
//! second. The cost of a minimum cut equals the maximum flow from first to second (Ford and Fulkerson), and the
//! vertices that the residual network reaches from the first are its side.

use std::collections::VecDeque;

use smallvec::SmallVec;

/// A vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vertex(usize);

/// More than all other costs together.
pub(crate) const NEVER: u64 = u64::MAX >> 2;

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    capacity: u64,
}

/// A minimum cut.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Its cost.
    pub(crate) cost: u64,
    /// For each vertex whether it is on the first side; no minimum cut has fewer there.
    is_first: Vec<bool>,
}

impl Cut {
    /// Whether a vertex is on the first side.
    pub(crate) fn is_first(&self, vertex: Vertex) -> bool {
        self.is_first[vertex.0]
    }
}

/// Vertices, and the costs of separating them.
#[derive(Debug)]
pub(crate) struct Network {
    /// An edge and its reverse are adjacent.
    edges: Vec<Edge>,
    of_vertices: Vec<SmallVec<[usize; 6]>>,
}

impl Network {
    /// Always on the first side.
    pub(crate) const FIRST: Vertex = Vertex(0);
    /// Always on the second side.
    pub(crate) const SECOND: Vertex = Vertex(1);

    pub(crate) fn new() -> Self {
        Self { edges: Vec::new(), of_vertices: vec![SmallVec::new(); 2] }
    }

    /// A vertex on either side.
    pub(crate) fn vertex(&mut self) -> Vertex {
        self.of_vertices.push(SmallVec::new());
        Vertex(self.of_vertices.len() - 1)
    }

    /// Adds `cost` to cuts with `from` on the first side and `to` on the second.
    pub(crate) fn edge(&mut self, from: Vertex, to: Vertex, cost: u64) {
        if cost == 0 || from == to {
            return;
        }
        for (from, to, capacity) in [(from.0, to.0, cost), (to.0, from.0, 0)] {
            self.of_vertices[from].push(self.edges.len());
            self.edges.push(Edge { to, capacity });
        }
    }

    /// The minimum cut with the fewest vertices on the first side.
    pub(crate) fn cut(mut self) -> Cut {
        let mut cost = 0_u64;
        loop {
            let levels = self.levels();
            if levels[Self::SECOND.0].is_none() {
                return Cut { cost, is_first: levels.iter().map(Option::is_some).collect() };
            }
            let mut next = vec![0; self.of_vertices.len()];
            while let Some(flow) = self.push(&levels, &mut next) {
                cost = cost.saturating_add(flow);
            }
        }
    }

    /// The distance of each vertex from the first over edges that are not full; vertices no nearer than a reachable
    /// second may lack one.
    fn levels(&self) -> Vec<Option<usize>> {
        let mut levels = vec![None; self.of_vertices.len()];
        levels[Self::FIRST.0] = Some(0);
        let mut queue = VecDeque::from([Self::FIRST.0]);
        while let Some(vertex) = queue.pop_front() {
            for &edge in &self.of_vertices[vertex] {
                let Edge { to, capacity } = self.edges[edge];
                if capacity > 0 && levels[to].is_none() {
                    levels[to] = levels[vertex].map(|level| level + 1);
                    if to == Self::SECOND.0 {
                        return levels;
                    }
                    queue.push_back(to);
                }
            }
        }
        levels
    }

    /// Pushes as much flow as one shortest path can take, and returns the amount; `None` if there is no path. `next`
    /// skips the edges of each vertex that are dead ends.
    fn push(&mut self, levels: &[Option<usize>], next: &mut [usize]) -> Option<u64> {
        let mut path: Vec<usize> = Vec::new();
        let mut vertex = Self::FIRST.0;
        while vertex != Self::SECOND.0 {
            let edge = self.of_vertices[vertex].get(next[vertex]).copied();
            match (edge, path.pop()) {
                (Some(edge), last) => {
                    path.extend(last);
                    let Edge { to, capacity } = self.edges[edge];
                    let is_next = levels[to] == levels[vertex].map(|level| level + 1);
                    if capacity > 0 && is_next {
                        path.push(edge);
                        vertex = to;
                    } else {
                        next[vertex] += 1;
                    }
                }
                (None, Some(last)) => {
                    vertex = self.edges[last ^ 1].to;
                    next[vertex] += 1;
                }
                (None, None) => return None,
            }
        }
        let flow = path.iter().map(|&edge| self.edges[edge].capacity).min().unwrap_or(0);
        for edge in path {
            self.edges[edge].capacity -= flow;
            self.edges[edge ^ 1].capacity = self.edges[edge ^ 1].capacity.saturating_add(flow);
        }
        Some(flow)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_other_cut_is_cheaper(
            edges in prop::collection::vec((0_usize..7, 0_usize..7, 0_u64..9), 0..24)
        ) {
            let mut network = Network::new();
            let others: Vec<Vertex> = (2..7).map(|_| network.vertex()).collect();
            let all = [&[Network::FIRST, Network::SECOND], others.as_slice()].concat();
            edges.iter().for_each(|&(from, to, cost)| network.edge(all[from], all[to], cost));
            let cut = network.cut();
            let cost_of = |is_first: &dyn Fn(usize) -> bool| -> u64 {
                let cut = edges.iter().filter(|&&(from, to, _)| is_first(from) && !is_first(to));
                cut.map(|(_, _, cost)| cost).sum()
            };
            prop_assert_eq!(cost_of(&|vertex| cut.is_first(all[vertex])), cut.cost);
            for others in 0_u32..32 {
                let is_first = |vertex| match vertex {
                    0 => true,
                    1 => false,
                    other => others >> (other - 2) & 1 == 1,
                };
                prop_assert!(cut.cost <= cost_of(&is_first));
            }
        }
    }

    #[test]
    fn the_bottleneck_is_cut() {
        let mut network = Network::new();
        let [a, b] = [network.vertex(), network.vertex()];
        let (first, second) = (Network::FIRST, Network::SECOND);
        for (from, to, cost) in [(first, a, 7), (a, b, 2), (b, second, NEVER), (a, second, 3)] {
            network.edge(from, to, cost);
        }
        let cut = network.cut();
        assert_eq!((cut.cost, cut.is_first(a), cut.is_first(b)), (5, true, false));
    }

    #[test]
    fn ties_go_to_the_second_side() {
        let mut network = Network::new();
        let a = network.vertex();
        network.edge(Network::FIRST, a, 3);
        network.edge(a, Network::SECOND, 3);
        assert!(!network.cut().is_first(a));
    }
}
