//! SequenceMap: `y…[i] = body(x[i], …)` for each item of the first input: items of the other
//! sequences, and tensors as a whole.

// collects are bounded: as long as the graph's lists

use ort_graph::OpError;
use ort_tensor::{TensorError, Value, ValueView};

use super::{Arguments, Held, ITEM_BYTES, captures};
use crate::plan::SubPlan;
use crate::run::{Arg, ControlError, Repeated, Run, Targets, Views};

impl Run<'_> {
    pub(super) fn run_sequence_map(
        &self,
        body: &SubPlan,
        own: &[Option<ValueView<'_>>],
        outer: &Views<'_>,
    ) -> Result<Vec<Value>, ControlError> {
        // bounded: by the inputs and outputs of the graph
        let mut views = Vec::with_capacity(own.len());
        let mut length = None;
        for (index, input) in own.iter().enumerate() {
            let view = input.ok_or(TensorError::MissingInput { index })?;
            if index == 0 || !matches!(view, ValueView::Tensor(_)) {
                let n = view.sequence()?.len();
                if *length.get_or_insert(n) != n {
                    let what = "the sequence is not as long as that of input 0";
                    return Err(OpError::InputValue { index, what }.into());
                }
            }
            views.push(view);
        }
        let length = length.unwrap_or(0);
        let n_outputs = body.plan.graph.outputs().len();
        // bounded: by the number of items
        let mut mapped = vec![Vec::with_capacity(length); n_outputs];
        let held = Held::new(self);
        let captures = captures(body, outer)?;
        let mut repeated = Repeated::new(self, &body.plan, &captures);
        for i in 0..length {
            let args: Result<Arguments<'_>, _> = views.iter().map(|&view| item(view, i)).collect();
            let made = self.iteration(&mut repeated, args?, &mut Targets::default())?;
            for (all, one) in mapped.iter_mut().zip(made) {
                held.more(one.held_bytes().saturating_add(ITEM_BYTES))?;
                all.push(one);
            }
        }
        Ok(mapped.into_iter().map(Value::Sequence).collect())
    }
}

/// Item `at` of a sequence, or the tensor itself.
fn item(view: ValueView<'_>, at: usize) -> Result<Arg<'_>, TensorError> {
    Ok(Arg::View(match view {
        ValueView::Tensor(_) => view,
        _ => view.sequence()?[at].view(),
    }))
}
