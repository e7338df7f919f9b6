//! State in a file.
//!
//! ```text
//! "ort-state 1\n", the number of values
//! by value: the input's name, its element type, rank, dimensions, and elements without room
//! xxh3 of all of that
//! ```
//!
//! Numbers are 8 bytes, little-endian; names and elements stand behind their lengths in bytes. A value that
//! there is none of yet is left out.

// collects are bounded: by the graph's inputs, and the rank

use std::path::Path;
use std::sync::Arc;

use ort_graph::Fact;
use ort_loader::{Load, ModelBytes};
use ort_tensor::{DType, Tensor, TensorError, TensorView, Value, with_room};
use twox_hash::XxHash3_64;

use super::{State, StateError, StateFileError, pairs};
use crate::save::write_whole;
use crate::session::Session;

const MAGIC: &[u8] = b"ort-state 1\n";
const SUM: usize = size_of::<u64>();

impl State {
    /// Writes the values to a file and replaces an existing one; [`Session::load_state`] reads it. A reader
    /// never sees half of it.
    ///
    /// # Errors
    /// If a value is no tensor of numbers, there is no memory for a copy, or the system does not write it.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), StateFileError> {
        let path = path.as_ref();
        let of_file = |error| StateFileError::State { path: path.to_owned(), error };
        let there = self.pairs.iter().zip(&self.values);
        let there: Vec<_> = there.filter_map(|(pair, kept)| Some((pair, kept.as_ref()?))).collect();
        // Names and dimensions are short: the list grows by little.
        let n_bytes = there.iter().map(|(_, kept)| kept.n_bytes().saturating_add(256));
        let room = with_room(n_bytes.fold(64, usize::saturating_add));
        let of_first = |error| of_file(self.pairs[0].error(error));
        let mut bytes: Vec<u8> = room.map_err(of_first)?;
        bytes.extend_from_slice(MAGIC);
        number(&mut bytes, there.len());
        for (pair, kept) in there {
            let value = kept.to_value().map_err(|error| of_file(pair.error(error)))?;
            let not_saved = || StateFileError::NotSaved { input: pair.input.clone() };
            let Value::Tensor(tensor) = value else { return Err(not_saved()) };
            let elements = tensor.view().as_bytes().ok_or_else(not_saved)?;
            text(&mut bytes, pair.input.as_bytes());
            text(&mut bytes, tensor.dtype().to_string().as_bytes());
            number(&mut bytes, tensor.shape().len());
            tensor.shape().iter().for_each(|&dim| number(&mut bytes, dim));
            text(&mut bytes, elements);
        }
        let sum = XxHash3_64::oneshot(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        write_whole(path, &bytes).map_err(StateFileError::Write)
    }
}

impl Session {
    /// The state that [`State::save`] wrote to a file, of the same pairs as `like`, which stays as it is.
    ///
    /// # Errors
    /// If the system does not read the file, it is damaged, its values are not those of this model, or `like` is
    /// another session's.
    pub fn load_state(
        &self,
        path: impl AsRef<Path>,
        like: &State,
    ) -> Result<State, StateFileError> {
        let path = path.as_ref();
        let damaged = |what| StateFileError::Damaged { path: path.to_owned(), what };
        let of_file = |error| StateFileError::State { path: path.to_owned(), error };
        if !Arc::ptr_eq(&like.session, &self.output_names) {
            return Err(of_file(StateError::OtherSession));
        }
        let file = ModelBytes::from_path(path, Load::Read)?;
        let bytes = file.as_slice();
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("this is no file of state"))?;
        let cut = || damaged("the file is not whole");
        let (_, sum) = bytes.split_last_chunk::<SUM>().ok_or_else(cut)?;
        let body = &bytes[..bytes.len() - SUM];
        if XxHash3_64::oneshot(body) != u64::from_le_bytes(*sum) {
            return Err(damaged("the file's bytes are not those that were written"));
        }
        let mut reader = Reader(rest.get(..rest.len().saturating_sub(SUM)).ok_or_else(cut)?);
        let mut state = State { n_moved: 0, ..like.clone() };
        state.clear();
        for _ in 0..reader.number().ok_or_else(cut)? {
            let (name, tensor) = reader.value().ok_or_else(cut)?;
            let tensor =
                tensor.map_err(|_| damaged("a value has not the elements of its shape"))?;
            self.check_value(&name, &tensor).map_err(of_file)?;
            state.set(&name, tensor).map_err(of_file)?;
        }
        Ok(state)
    }

    /// That a tensor can be the value of an input.
    fn check_value(&self, name: &str, tensor: &Tensor) -> Result<(), StateError> {
        let graph = &self.plan.graph;
        let expected = &graph.fact(pairs::known(graph, "input", name)?).ty;
        let found = Fact::shaped(tensor.dtype(), tensor.shape()).ty;
        match found.unify(expected) {
            Some(_) => Ok(()),
            None => Err(StateError::Type {
                input: name.to_owned(),
                expected: Box::new(expected.clone()),
                found: Box::new(found),
            }),
        }
    }
}

fn number(bytes: &mut Vec<u8>, n: usize) {
    bytes.extend_from_slice(&u64::try_from(n).unwrap_or(u64::MAX).to_le_bytes());
}

fn text(bytes: &mut Vec<u8>, text: &[u8]) {
    number(bytes, text.len());
    bytes.extend_from_slice(text);
}

/// What is left of a file.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<usize> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        usize::try_from(u64::from_le_bytes(*number)).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.number()?;
        let (bytes, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn value(&mut self) -> Option<(String, Result<Tensor, TensorError>)> {
        let name = self.text()?.to_owned();
        let dtype: DType = self.text()?.parse().ok()?;
        let rank = self.number().filter(|rank| *rank <= self.0.len() / size_of::<u64>())?;
        let shape = (0..rank).map(|_| self.number()).collect::<Option<Vec<_>>>()?;
        let elements = self.bytes()?;
        let copy = TensorView::from_bytes(dtype, &shape, elements);
        Some((name, copy.and_then(|view| view.to_tensor())))
    }
}
