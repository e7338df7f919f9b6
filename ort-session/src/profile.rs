//! How long each step of a run took.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::plan::{Action, Plan, Step};
use crate::run::Observer;

/// One step of one run.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// The node's name, or its operator if it has none.
    pub node: String,
    /// The operator.
    pub op_type: String,
    /// The kernel that ran.
    pub variant: &'static str,
    /// How long it took.
    pub time: Duration,
}

/// Notes the time of every step.
#[derive(Debug, Default)]
pub(crate) struct StepTimes(Mutex<Vec<StepTime>>);

impl StepTimes {
    pub(crate) fn into_steps(self) -> Vec<StepTime> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for StepTimes {
    fn step(&self, plan: &Plan, step: &Step, start: Instant) {
        let node = plan.graph.node(step.node);
        let variant = match &step.action {
            Action::Run { kernel, .. } => kernel.variant(),
            _ => "plan",
        };
        let (node, op_type) = (node.label().to_owned(), node.op_type.clone());
        let step = StepTime { node, op_type, variant, time: start.elapsed() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(step);
    }
}
