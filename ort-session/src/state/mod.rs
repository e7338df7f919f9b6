//! State that stays from run to run: outputs that become inputs of the next run.
//!
//! ```text
//! the input is  ───► type and shape alone ───► the step that puts what is new behind it
//! the output is ───► the state's own tensor, which has spare capacity: extended in place, read with that capacity
//! ```
//!
//! So a run copies none of the existing elements. Where a model, or a kernel, does not do that to a value
//! (see [`Plan::extension`](crate::plan::Plan::extension)), the value is an input and an output like any other.

// collects are bounded: by the graph's inputs and outputs

mod error;
mod file;
mod pairs;
mod runs;
mod values;

use std::sync::Arc;

use ort_graph::ValueId;
use ort_tensor::{TensorError, Value};

pub use self::error::{StateError, StateFileError};
use self::pairs::Places;
use self::values::Kept;
use crate::session::Session;

/// What one conversation keeps from run to run: a cache of keys and values, or any other output that becomes
/// an input of the next run. Many may be in use at once, each by one thread at a time.
///
/// A clone is a fork: both share their memory until one of them runs.
///
/// ```no_run
/// use ort_session::{Session, Tensor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let session = Session::builder().commit_from_file("decoder.onnx")?;
/// let mut state = session.new_state()?; // present.* becomes past_key_values.* or past.*
/// let prompt = Tensor::from_slice(&[1, 3], &[17_i64, 4, 99])?;
/// let logits = session.run_state(&mut state, [("input_ids", &prompt)])?;
/// let mut other = state.clone(); // continues from here, too
/// # let next = Tensor::from_slice(&[1, 1], &[3_i64])?;
/// session.run_state(&mut other, [("input_ids", &next)])?;
/// state.truncate(2)?; // as if the last token had not been there
/// # drop(logits);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct State {
    pairs: Arc<[Pair]>,
    /// By pair; nothing before the first run.
    values: Vec<Option<Kept>>,
    /// Room for so many entries is asked for at once.
    reserved: usize,
    n_moved: usize,
    /// Identifies the session: its output names, which no other session shares.
    session: Arc<[String]>,
}

/// An output that becomes an input.
#[derive(Debug)]
struct Pair {
    ids: Places,
    output: String,
    input: String,
    /// The axis along which the value grows.
    axis: Option<usize>,
    /// Whether it is written in place.
    is_extended: bool,
    /// Whether it is longer with each run; else it is a buffer whose used length is an input of the model.
    grows: bool,
}

impl Session {
    /// An empty state of the outputs whose names tell which input they become: `present.…` is
    /// `past_key_values.…` or `past.…`, and `present_…` is `past_…`, whatever follows.
    ///
    /// # Errors
    /// If there is no such output.
    pub fn new_state(&self) -> Result<State, StateError> {
        self.state_of(pairs::found(&self.plan.graph)?)
    }

    /// An empty state of these pairs of outputs and inputs: their names, or patterns with one `*`, or with one
    /// `%d` that stands for a number: `("present.*.key", "past.*.key")`.
    ///
    /// # Errors
    /// If there is no such output or input, one is in two pairs, or the two are of different types.
    pub fn new_state_of<O: Into<String>, I: Into<String>>(
        &self,
        pairs: impl IntoIterator<Item = (O, I)>,
    ) -> Result<State, StateError> {
        let names = pairs.into_iter().map(|(output, input)| (output.into(), input.into()));
        self.state_of(pairs::named(&self.plan.graph, names)?)
    }

    fn state_of(&self, pairs: Vec<Places>) -> Result<State, StateError> {
        let pairs = pairs.into_iter().map(|ids| self.pair(ids));
        let pairs = pairs.collect::<Result<Arc<[_]>, _>>()?;
        let values = pairs.iter().map(|_| None).collect();
        let session = self.output_names.clone();
        Ok(State { pairs, values, reserved: 0, n_moved: 0, session })
    }

    fn pair(&self, ids: Places) -> Result<Pair, StateError> {
        let graph = &self.plan.graph;
        let [output, input] = [ids.output, ids.input].map(|id: ValueId| graph.value(id));
        let (made, wanted) = (&output.fact.ty, &input.fact.ty);
        let extended = self.plan.extension(ids.input, ids.output);
        let pair = Pair {
            ids,
            output: output.name.clone(),
            input: input.name.clone(),
            axis: extended.or_else(|| values::growing_axis(wanted, made)),
            is_extended: extended.is_some(),
            grows: extended.is_none_or(|axis| values::grows(wanted, made, axis)),
        };
        match values::can_become(made, wanted, pair.axis) {
            true => Ok(pair),
            false => Err(StateError::Type {
                input: pair.input,
                expected: Box::new(wanted.clone()),
                found: Box::new(made.clone()),
            }),
        }
    }
}

impl State {
    /// The names of the outputs and of the inputs that they become.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|pair| (pair.output.as_str(), pair.input.as_str()))
    }

    /// How many entries the values that grow have along their axes, such as tokens in a cache; `None` if none
    /// grows.
    pub fn len(&self) -> Option<usize> {
        let mut growing = self.pairs.iter().zip(&self.values).filter_map(|(pair, value)| {
            let axis = pair.axis.filter(|_| pair.grows)?;
            Some(value.as_ref().map_or(0, |value| value.axis_len(axis)))
        });
        growing.next()
    }

    /// Whether it is as new.
    pub fn is_empty(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }

    /// Goes back to the first `len` entries of all values that grow. Their memory stays, as room. Values in
    /// buffers of fixed size, whose used length is an input of the model, stay as they are.
    ///
    /// # Errors
    /// If there are fewer entries, or a value is computed anew by each run, so that none of before is there.
    pub fn truncate(&mut self, len: usize) -> Result<(), StateError> {
        let own = self.len().unwrap_or(0);
        if own < len {
            return Err(StateError::TooShort { len: own, wanted: len });
        }
        let mut fixed = self.pairs.iter().filter(|pair| pair.axis.is_none());
        if let Some(pair) = fixed.next().filter(|_| !self.is_empty() && len < own) {
            return Err(StateError::Fixed { input: pair.input.clone() });
        }
        for (pair, value) in self.pairs.iter().zip(&mut self.values) {
            if let (Some(axis), Some(value)) = (pair.axis.filter(|_| pair.grows), value) {
                value.truncate(axis, len).map_err(|error| pair.error(error))?;
            }
        }
        Ok(())
    }

    /// Makes room for `len` entries, so that no run before there are more has to.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn reserve(&mut self, len: usize) -> Result<(), StateError> {
        self.reserved = self.reserved.max(len);
        for (pair, value) in self.pairs.iter().zip(&mut self.values) {
            if let Some(Kept::Growing(value)) = value.as_mut().filter(|_| pair.grows) {
                // bounded: asks for it
                value.reserve(len).map_err(|error| pair.error(error))?;
            }
        }
        Ok(())
    }

    /// Makes it as new.
    pub fn clear(&mut self) {
        self.values.fill(None);
        self.n_moved = 0;
    }

    /// The memory of its values in bytes, spare capacity included, shared or not.
    pub fn n_bytes(&self) -> usize {
        self.values.iter().flatten().map(Kept::n_bytes).sum()
    }

    /// How many bytes of its values the last run wrote beside what was new: to make room, to part from a
    /// clone, and all of those values that it could not leave where they were.
    pub const fn moved_bytes(&self) -> usize {
        self.n_moved
    }

    /// The value that the next run has for an input; `None` before the first run. A copy.
    ///
    /// # Errors
    /// If there is no such input in the pairs, or no memory for it.
    pub fn get(&self, input: &str) -> Result<Option<Value>, StateError> {
        let i = self.find(input)?;
        let value = self.values[i].as_ref().map(Kept::to_value).transpose();
        value.map_err(|error| self.pairs[i].error(error))
    }

    /// Sets the value that the next run has for an input: one computed elsewhere, or a first value of an
    /// unusual shape.
    ///
    /// # Errors
    /// If there is no such input in the pairs, or the value cannot grow as the model's does.
    pub fn set(&mut self, input: &str, value: impl Into<Value>) -> Result<(), StateError> {
        let i = self.find(input)?;
        let pair = &self.pairs[i];
        let kept = Kept::new(value.into(), pair.axis.filter(|_| pair.is_extended));
        self.values[i] = Some(kept.map_err(|error| pair.error(error))?);
        Ok(())
    }

    fn find(&self, input: &str) -> Result<usize, StateError> {
        let found = self.pairs.iter().position(|pair| pair.input == input);
        found.ok_or_else(|| StateError::Unknown { kind: "input", name: input.to_owned() })
    }
}

impl Pair {
    fn error(&self, error: TensorError) -> StateError {
        StateError::Tensor { input: self.input.clone(), error }
    }
}
