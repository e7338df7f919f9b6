//! What the optimizer did, pass by pass.

use web_time::{Duration, Instant};

use crate::nchwc::AssumedBlockSize;
use crate::options::{Exactness, Level};

/// What the optimizer did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each pass that ran, in order.
    pub passes: Vec<PassReport>,
    /// The last rewrite: the one to look at after halving `stop_after`.
    pub last: Option<Step>,
    /// The visits of the passes, in order: a pass visits every graph, and again as long as others change it.
    pub visits: Vec<Visit>,
    /// The block size that had to be assumed for NCHWc. A program should warn of it.
    pub assumed_block_size: Option<AssumedBlockSize>,
}

/// One visit of a pass to a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The pass.
    pub pass: &'static str,
    /// When it began.
    pub start: Instant,
    /// How long it took.
    pub time: Duration,
    /// How many rewrites it made.
    pub applied: usize,
}

impl Report {
    /// How many rewrites there were.
    pub fn applied(&self) -> usize {
        self.passes.iter().map(|pass| pass.applied).sum()
    }
}

/// What one pass did, in the graph and all its subgraphs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassReport {
    /// Its name.
    pub name: &'static str,
    /// The level it belongs to.
    pub level: Level,
    /// How close its results are.
    pub exactness: Exactness,
    /// How many rewrites it made.
    pub applied: usize,
    /// Why it rejected possible matches, and at how many nodes, at its last visit of each graph.
    pub refused: Vec<(&'static str, usize)>,
    /// The time it took.
    pub micros: u64,
}

/// One rewrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The pass.
    pub pass: &'static str,
    /// The name of the node it began at, or its operator if it has none.
    pub node: String,
}

impl PassReport {
    pub(crate) fn refuse(&mut self, reason: &'static str) {
        match self.refused.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, count)) => *count += 1,
            None => self.refused.push((reason, 1)),
        }
    }
}
