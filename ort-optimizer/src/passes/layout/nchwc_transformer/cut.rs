//! The cheapest of all divisions of a graph in two: a minimal cut, by Dinic's algorithm.
//!
//! Every vertex is on the one side or the other. An edge `a → b` costs what it says if `a` is on the
//! first side and `b` on the second. What a cut costs is what flows from first to second at most
//! (Ford and Fulkerson), and while it flows, what can still be reached from the first is its side.

use std::collections::VecDeque;

/// A vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vertex(usize);

/// More than all else together can cost.
pub(super) const NEVER: u64 = u64::MAX >> 2;

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    capacity: u64,
}

/// Vertices, and what it costs to have them apart.
#[derive(Debug)]
pub(super) struct Network {
    /// An edge and its reverse are neighbours.
    edges: Vec<Edge>,
    of_vertices: Vec<Vec<usize>>,
}

impl Network {
    /// Is always on the first side.
    pub(super) const FIRST: Vertex = Vertex(0);
    /// Is always on the second side.
    pub(super) const SECOND: Vertex = Vertex(1);

    pub(super) fn new() -> Self {
        Self { edges: Vec::new(), of_vertices: vec![Vec::new(); 2] }
    }

    /// A vertex on either side.
    pub(super) fn vertex(&mut self) -> Vertex {
        self.of_vertices.push(Vec::new());
        Vertex(self.of_vertices.len() - 1)
    }

    /// That `from` on the first side and `to` on the second costs so much more.
    pub(super) fn edge(&mut self, from: Vertex, to: Vertex, cost: u64) {
        if cost == 0 || from == to {
            return;
        }
        for (from, to, capacity) in [(from.0, to.0, cost), (to.0, from.0, 0)] {
            self.of_vertices[from].push(self.edges.len());
            self.edges.push(Edge { to, capacity });
        }
    }

    /// For each vertex whether it is on the first side, in the cheapest cut with the fewest there.
    pub(super) fn cut(mut self) -> impl Fn(Vertex) -> bool {
        loop {
            let levels = self.levels();
            if levels[Self::SECOND.0].is_none() {
                return move |vertex: Vertex| levels[vertex.0].is_some();
            }
            let mut next = vec![0; self.of_vertices.len()];
            while self.push(&levels, &mut next) {}
        }
    }

    /// How many edges that are not full lead from the first to each vertex.
    fn levels(&self) -> Vec<Option<usize>> {
        let mut levels = vec![None; self.of_vertices.len()];
        levels[Self::FIRST.0] = Some(0);
        let mut queue = VecDeque::from([Self::FIRST.0]);
        while let Some(vertex) = queue.pop_front() {
            for &edge in &self.of_vertices[vertex] {
                let Edge { to, capacity } = self.edges[edge];
                if capacity > 0 && levels[to].is_none() {
                    levels[to] = levels[vertex].map(|level| level + 1);
                    queue.push_back(to);
                }
            }
        }
        levels
    }

    /// Lets as much flow as one shortest path can take; `false` if there is none. `next` has the
    /// edges of each vertex that have not proved to be dead ends.
    fn push(&mut self, levels: &[Option<usize>], next: &mut [usize]) -> bool {
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
                (None, None) => return false,
            }
        }
        let flow = path.iter().map(|&edge| self.edges[edge].capacity).min().unwrap_or(0);
        for edge in path {
            self.edges[edge].capacity -= flow;
            self.edges[edge ^ 1].capacity = self.edges[edge ^ 1].capacity.saturating_add(flow);
        }
        flow > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of a division, and of the best of all.
    fn costs(n: usize, edges: &[(usize, usize, u64)]) -> (u64, u64) {
        let mut network = Network::new();
        let vertices: Vec<Vertex> = (0..n).map(|_| network.vertex()).collect();
        let all = [&[Network::FIRST, Network::SECOND], vertices.as_slice()].concat();
        for &(from, to, cost) in edges {
            network.edge(all[from], all[to], cost);
        }
        let is_first = network.cut();
        let cost = |is_first: &dyn Fn(usize) -> bool| {
            let cut = edges.iter().filter(|edge| is_first(edge.0) && !is_first(edge.1));
            cut.map(|edge| edge.2).sum::<u64>()
        };
        let side = |set: usize, vertex: usize| match vertex {
            0 => true,
            1 => false,
            _ => set >> (vertex - 2) & 1 == 1,
        };
        let best = (0..1 << n).map(|set| cost(&|vertex| side(set, vertex))).min().unwrap();
        (cost(&|vertex| is_first(all[vertex])), best)
    }

    #[test]
    fn no_division_is_cheaper() {
        let mut rng = ort_testing::Rng::new(5);
        for _ in 0..200 {
            let n = 1 + usize::try_from(rng.below(6)).unwrap();
            let mut vertex = || usize::try_from(rng.below(8)).unwrap() % (n + 2);
            let ends: Vec<(usize, usize)> = (0..3 * n).map(|_| (vertex(), vertex())).collect();
            let edges: Vec<(usize, usize, u64)> =
                ends.into_iter().map(|(from, to)| (from, to, rng.below(9))).collect();
            let (found, best) = costs(n, &edges);
            assert_eq!(found, best, "{edges:?}");
        }
    }

    #[test]
    fn ties_go_to_the_second_side() {
        let mut network = Network::new();
        let a = network.vertex();
        network.edge(Network::FIRST, a, 3);
        network.edge(a, Network::SECOND, 3);
        assert!(!network.cut()(a));
    }
}
