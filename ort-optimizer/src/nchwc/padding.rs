//! Which channels are padding: those without a non-zero weight.

use std::collections::HashMap;

use ort_graph::ValueId;
use ort_tensor::{Pace, Tensor, TensorError};

use super::error::NchwcError;
use super::survey::{Filter, FilterKind, Step, Survey, at};

/// How many channels each class of values keeps.
pub(super) struct Kept<'s> {
    survey: &'s Survey<'s>,
    channels: HashMap<usize, usize>,
}

/// An input with unknown channels has a multiple of this many: ReorderInput requires it.
const GRANULARITY: usize = 4;

impl<'s> Kept<'s> {
    /// As many as are named or have a weight anywhere; padding is less than a block. `filters`
    /// are those of every convolution, in plain order.
    ///
    /// # Errors
    /// If a node needs more channels than there are.
    pub(super) fn of(
        survey: &'s Survey<'s>,
        filters: &HashMap<ValueId, Tensor>,
        block: usize,
    ) -> Result<Self, NchwcError> {
        let needed = needed(survey, filters)?;
        let mut channels = HashMap::new();
        for &(id, step) in &survey.steps {
            let node = survey.graph.node(id);
            let values = node.inputs.iter().chain(&node.outputs).flatten();
            for (value, class) in values.filter_map(|&id| Some((id, class(survey, id)?))) {
                let padded = survey.known(value).padded_to(block);
                let padded = padded.ok_or_else(|| at(node, "its channels are not known"))?;
                let needed = needed.get(&class).copied().unwrap_or(1);
                let least = padded.saturating_sub(block - 1);
                channels.insert(class, needed.max(least).min(padded));
                if matches!(step, Step::ReorderOutput { channels } if channels > padded) {
                    return Err(at(node, "it has more channels than its input"));
                }
            }
        }
        Ok(Self { survey, channels })
    }

    /// How many channels a value in NCHWc keeps.
    pub(super) fn of_value(&self, id: ValueId) -> Option<usize> {
        self.channels.get(&class(self.survey, id)?).copied()
    }
}

fn class(survey: &Survey<'_>, id: ValueId) -> Option<usize> {
    survey.values.get(&id).map(|value| survey.classes.root(value.class))
}

/// How many channels of each class are needed.
fn needed(
    survey: &Survey<'_>,
    filters: &HashMap<ValueId, Tensor>,
) -> Result<HashMap<usize, usize>, TensorError> {
    let mut needed: HashMap<usize, usize> = HashMap::new();
    let mut need = |id: ValueId, n: usize| {
        if let Some(class) = class(survey, id) {
            let needed = needed.entry(class).or_default();
            *needed = n.max(*needed);
        }
    };
    let mut is_rounded = Vec::new();
    for &(id, step) in &survey.steps {
        let node = survey.graph.node(id);
        let (inputs, outputs) = (node.inputs.iter().flatten(), node.outputs.iter().flatten());
        outputs.clone().for_each(|&y| need(y, survey.known(y).named.unwrap_or(0)));
        match step {
            Step::Conv(Filter { kind: FilterKind::Dense, .. }) => {
                if let [Some(x), Some(weights), ..] = *node.inputs {
                    need(x, filters.get(&weights).map_or(Ok(0), n_weighed)?);
                }
            }
            Step::Conv(Filter { kind: FilterKind::Grouped, .. })
            | Step::Concat
            | Step::Parts
            | Step::Raw
            | Step::Shape => {
                inputs.chain(outputs).for_each(|&value| need(value, usize::MAX));
            }
            Step::ReorderInput { channels: None } => {
                is_rounded.extend(outputs.filter_map(|&y| class(survey, y)));
            }
            _ => {}
        }
    }
    for class in is_rounded {
        let n = needed.entry(class).or_default();
        *n = n.checked_next_multiple_of(GRANULARITY).unwrap_or(*n);
    }
    Ok(needed)
}

/// How many input channels there are up to the last that some filter has a weight for.
fn n_weighed(filters: &Tensor) -> Result<usize, TensorError> {
    let &[_, i, kh, kw] = filters.shape() else { return Ok(0) };
    let weights = filters.as_slice::<f32>()?;
    if weights.is_empty() {
        return Ok(0);
    }
    let (taps, mut pace) = (kh * kw, Pace::new());
    for channel in (0..i).rev() {
        for row in weights.chunks_exact(i * taps) {
            pace.go(taps)?;
            if row[channel * taps..][..taps].iter().any(|&w| w != 0.0) {
                return Ok(channel + 1);
            }
        }
    }
    Ok(0)
}
