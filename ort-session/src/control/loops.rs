//! Loop: `while i < M && cond { cond, carried…, stacked… = body(i, cond, carried…) }`.

// collects are bounded: as long as the graph's lists

use ort_graph::OpError;
use ort_tensor::{Bool, Tensor, TensorError, Value, ValueView};

use super::stack::{Along, Stacks};
use super::{Arguments, captures, first, truth};
use crate::plan::SubPlan;
use crate::run::{Arg, ControlError, Repeated, Run, Views};

/// A loop with more iterations than this does not allocate the outputs of all in advance: it may
/// be cancelled before.
const MOST_COUNTED: i64 = 1 << 16;

impl Run<'_> {
    pub(super) fn run_loop(
        &self,
        body: &SubPlan,
        inputs: &Views<'_>,
        n_own: usize,
    ) -> Result<Vec<Value>, ControlError> {
        let trips = match inputs.first().copied().flatten() {
            Some(view) => first(view.tensor()?.as_slice::<i64>()?, 0)?,
            None => i64::MAX,
        };
        let mut condition = inputs.get(1).is_none_or(Option::is_none) || truth(inputs, 1)?;
        let mut carried = Arguments::new();
        for (index, input) in inputs[..n_own].iter().enumerate().skip(2) {
            carried.push(Arg::View(input.ok_or(TensorError::MissingInput { index })?));
        }
        let n_carried = carried.len();
        let is_counted = trips <= MOST_COUNTED && never_ends_early(body);
        let n_trips = usize::try_from(trips).ok().filter(|_| is_counted);
        let mut stacks = Stacks::new(self, body, 1 + n_carried, n_trips, |_| Along::default());
        let captures = captures(body, inputs)?;
        let mut repeated = Repeated::new(self, &body.plan, &captures);
        let mut trip = 0;
        while trip < trips && condition {
            let (number, go_on) = (Tensor::scalar(trip), Tensor::scalar(Bool::from(condition)));
            let mut args = Arguments::new();
            args.extend([number.view(), go_on.view()].map(ValueView::Tensor).map(Arg::View));
            carried.into_iter().for_each(|arg| args.push(arg));
            let layout = repeated.lay_out_declared(&args).map_err(ControlError::Run)?;
            let mut targets = stacks.targets(&body.plan.graph, layout)?;
            let made = self.iteration(&mut repeated, args, &mut targets)?;
            let targeted = targets.ids();
            let mut made = made.into_iter();
            let next = made.next().ok_or(OpError::MissingAttribute { name: "body" })?;
            condition = first(next.as_tensor()?.as_slice::<Bool>()?, 0)?.get();
            carried = made.by_ref().take(n_carried).map(Arg::Moved).collect();
            repeated.hold(&carried);
            stacks.add(&body.plan.graph, made, &targeted)?;
            trip += 1;
        }
        stacks.into_outputs(carried, body)
    }
}

/// Whether the loop only ends by its trip count: the body's condition is its input condition, or true.
fn never_ends_early(body: &SubPlan) -> bool {
    let graph = &body.plan.graph;
    let Some(&next) = graph.outputs().first() else { return false };
    let is_true = |it: &Tensor| matches!(it.as_slice::<Bool>(), Ok([it]) if it.get());
    graph.inputs().get(1) == Some(&next) || graph.constant(next).is_some_and(is_true)
}
