//! A session: inputs are read in place, and runs do not hold the GIL.

use std::path::PathBuf;
use std::sync::Arc;

use ort_session::{
    BoundOutputs, InputValue, RunInputs, RunOptions as Options, Type, Value, ValueDescription,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::convert::Text;
use crate::errors::{fail, invalid_argument, of_profile, of_run};
use crate::feeds::Fed;
use crate::model_meta::ModelMetadata;
use crate::node_arg::NodeArg;
use crate::reports;
use crate::results::object_of;
use crate::run_options::RunOptions;
use crate::value::OrtValue;

/// A model that is ready to run.
#[pyclass(frozen, module = "ort_rs._native")]
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) session: Arc<ort_session::Session>,
    pub(crate) inputs: Vec<ValueDescription>,
    pub(crate) outputs: Vec<ValueDescription>,
}

/// The requested outputs.
enum Wanted {
    All,
    /// These, each once, and the index of each requested one among them.
    Some(Vec<String>, Vec<usize>),
}

impl Session {
    pub(crate) fn new(session: ort_session::Session) -> Self {
        let (inputs, outputs) = (session.inputs(), session.outputs());
        Self { session: Arc::new(session), inputs, outputs }
    }

    /// The outputs with these names; all if there are none.
    fn wanted(&self, names: Option<&Bound<'_, PyAny>>) -> PyResult<Wanted> {
        let Some(names) = names else { return Ok(Wanted::All) };
        if !names.is_truthy()? {
            return Ok(Wanted::All);
        }
        if names.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("output_names must be a list of names, not a name"));
        }
        let asked = names.try_iter()?.map(|name| Ok(name?.extract::<Text>()?.0));
        let asked = asked.collect::<PyResult<Vec<String>>>()?;
        if self.outputs.iter().map(|output| &output.name).eq(&asked) {
            return Ok(Wanted::All);
        }
        let (mut once, mut places): (Vec<String>, _) = (Vec::new(), Vec::new());
        for name in asked {
            let place = once.iter().position(|other| *other == name);
            places.push(place.unwrap_or(once.len()));
            if place.is_none() {
                once.push(name);
            }
        }
        Ok(Wanted::Some(once, places))
    }

    /// The inputs of a feed and of active adapters, in the model's order; unknown ones come last.
    fn feeds<'py>(
        &self,
        feed: &Bound<'py, PyAny>,
        options: Option<&RunOptions>,
    ) -> PyResult<Vec<(Slot, Fed<'py>)>> {
        let dict = match feed.cast::<PyDict>() {
            Ok(dict) => dict.clone(),
            Err(_) => mapping(feed)?,
        };
        let dict = match options {
            Some(options) => options.adapted(dict)?,
            None => dict,
        };
        let (mut feeds, mut stray) = (Vec::with_capacity(dict.len()), None);
        for (i, (name, object)) in dict.iter().enumerate() {
            let Ok(name) = name.cast::<PyString>() else {
                stray = Some(name);
                continue;
            };
            let name = name.to_str()?;
            let is_here = |input: &ValueDescription| input.name == name;
            // Most feeds are in the model's order.
            let place = match self.inputs.get(i) {
                Some(input) if is_here(input) => Some(i),
                _ => self.inputs.iter().position(is_here),
            };
            let expected = place.map_or(&Type::Unknown, |place| &self.inputs[place].ty);
            if let Some(fed) = Fed::new(name, &object, expected)? {
                let slot = place.map_or_else(|| Slot::Unknown(name.to_owned()), Slot::At);
                feeds.push((slot, fed));
            }
        }
        self.check_complete(&feeds, &dict)?;
        if let Some(stray) = stray {
            return Err(PyTypeError::new_err(format!(
                "{stray} is not the name of an input: names are strings"
            )));
        }
        let place = |(slot, _): &(Slot, Fed<'_>)| match slot {
            Slot::At(place) => *place,
            Slot::Unknown(_) => usize::MAX,
        };
        if !feeds.is_sorted_by_key(place) {
            feeds.sort_by_key(place);
        }
        Ok(feeds)
    }

    /// An error if an input is missing, with onnxruntime's message.
    fn check_complete(&self, feeds: &[(Slot, Fed<'_>)], dict: &Bound<'_, PyDict>) -> PyResult<()> {
        let n_known = feeds.iter().filter(|(slot, _)| matches!(slot, Slot::At(_))).count();
        if n_known == self.inputs.len() {
            return Ok(());
        }
        let is_given =
            |place| feeds.iter().any(|(slot, _)| matches!(slot, Slot::At(at) if *at == place));
        let is_missing = |(place, input): (usize, &ValueDescription)| {
            let is_needed = !input.has_default && !matches!(input.ty, Type::Optional(_));
            (is_needed && !is_given(place)).then(|| input.name.clone())
        };
        let missing: Vec<_> = self.inputs.iter().enumerate().filter_map(is_missing).collect();
        let Some(first) = missing.first() else { return Ok(()) };
        if dict.contains(first)? {
            return Err(fail(format!("input `{first}` is None, and not an optional")));
        }
        let (missing, given) = (PyList::new(dict.py(), missing)?, dict.keys());
        let text = format!("Required inputs ({missing}) are missing from input feed ({given}).");
        Err(PyValueError::new_err(text))
    }

    /// The inputs of a run: by position if all are present.
    fn run_inputs<'a>(&'a self, feeds: &'a [(Slot, Fed<'_>)]) -> PyResult<RunInputs<'a>> {
        let is_next =
            |(i, (slot, _)): (usize, &(Slot, _))| matches!(slot, Slot::At(at) if *at == i);
        if feeds.len() == self.inputs.len() && feeds.iter().enumerate().all(is_next) {
            let views = feeds.iter().map(|(_, fed)| fed.input()).collect::<PyResult<Vec<_>>>()?;
            return Ok(RunInputs::positional(views));
        }
        let named = feeds.iter().map(|(slot, fed)| Ok((self.name_of(slot), fed.input()?)));
        Ok(named.collect::<PyResult<Vec<(&str, InputValue<'_>)>>>()?.into())
    }

    /// Runs the model without the GIL.
    fn run_fed(
        &self,
        py: Python<'_>,
        feeds: &[(Slot, Fed<'_>)],
        wanted: &Wanted,
        options: Option<&RunOptions>,
    ) -> PyResult<Vec<Value>> {
        let inputs = self.run_inputs(feeds)?;
        let mut options = options.map(RunOptions::of_run).unwrap_or_default();
        if let Wanted::Some(names, _) = wanted {
            options = options.outputs(names);
        }
        self.run_into(py, inputs, BoundOutputs::default(), &options)
    }

    fn run_into(
        &self,
        py: Python<'_>,
        inputs: RunInputs<'_>,
        bound: BoundOutputs<'_>,
        options: &Options,
    ) -> PyResult<Vec<Value>> {
        let outputs = py.detach(|| self.session.run_into(inputs, bound, options));
        Ok(outputs.map_err(|error| of_run(&error))?.into_values())
    }

    fn name_of<'a>(&'a self, slot: &'a Slot) -> &'a str {
        match slot {
            Slot::At(place) => &self.inputs[*place].name,
            Slot::Unknown(name) => name,
        }
    }
}

/// The input of the model that an object is fed to.
#[derive(Debug)]
enum Slot {
    At(usize),
    Unknown(String),
}

fn mapping<'py>(feed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(feed.py());
    for name in feed.call_method0("keys")?.try_iter()? {
        let name = name?;
        dict.set_item(&name, feed.get_item(&name)?)?;
    }
    Ok(dict)
}

/// The outputs as requested, in that order, duplicates included.
fn listed<'py, T>(
    py: Python<'py>,
    values: Vec<Value>,
    wanted: &Wanted,
    object: impl Fn(Value) -> PyResult<T>,
) -> PyResult<Bound<'py, PyList>>
where
    T: IntoPyObject<'py>,
{
    let made = PyList::empty(py);
    for value in values {
        made.append(object(value)?)?;
    }
    match wanted {
        Wanted::Some(names, places) if places.len() != names.len() => {
            let again = PyList::empty(py);
            places.iter().try_for_each(|&place| again.append(made.get_item(place)?))?;
            Ok(again)
        }
        _ => Ok(made),
    }
}

#[pymethods]
impl Session {
    /// Runs the model; returns the outputs as arrays, lists and dictionaries.
    #[pyo3(signature = (names, feed, options = None))]
    fn run<'py>(
        &self,
        names: Option<&Bound<'py, PyAny>>,
        feed: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, RunOptions>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = feed.py();
        let options = options.map(Bound::get);
        let (wanted, feeds) = (self.wanted(names)?, self.feeds(feed, options)?);
        let values = self.run_fed(py, &feeds, &wanted, options)?;
        listed(py, values, &wanted, |value| object_of(py, value))
    }

    /// The same, but returns the outputs as values.
    #[pyo3(signature = (names, feed, options = None))]
    fn run_values<'py>(
        &self,
        names: Option<&Bound<'py, PyAny>>,
        feed: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, RunOptions>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = feed.py();
        let options = options.map(Bound::get);
        let (wanted, feeds) = (self.wanted(names)?, self.feeds(feed, options)?);
        let values = self.run_fed(py, &feeds, &wanted, options)?;
        listed(py, values, &wanted, |value| OrtValue::of_value(py, value))
    }

    /// Raises what a run with these would raise before it starts.
    #[pyo3(signature = (names, feed, options = None))]
    fn check(
        &self,
        names: Option<&Bound<'_, PyAny>>,
        feed: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, RunOptions>>,
    ) -> PyResult<()> {
        self.wanted(names)?;
        self.feeds(feed, options.map(Bound::get)).map(|_| ())
    }

    /// Runs the model for the outputs `names`; those in `bound` are written to their values, the others are
    /// returned.
    #[pyo3(signature = (names, feed, bound, options = None))]
    fn run_bound<'py>(
        &self,
        names: Vec<String>,
        feed: &Bound<'py, PyAny>,
        bound: Vec<(String, Bound<'py, OrtValue>)>,
        options: Option<&Bound<'py, RunOptions>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let options = options.map(Bound::get);
        let (py, feeds) = (feed.py(), self.feeds(feed, options)?);
        let is_read = |value: &OrtValue| -> PyResult<bool> {
            let inputs = feeds.iter().map(|(_, fed)| fed.input());
            Ok(inputs.collect::<PyResult<Vec<_>>>()?.iter().any(|input| value.overlaps(input)))
        };
        // An output that is also read, or written twice, is copied at the end of the run.
        let (mut written, mut copied) = (Vec::<(&str, &OrtValue)>::new(), Vec::new());
        for (name, value) in &bound {
            let value = value.get();
            let is_written = written.iter().any(|(_, other)| value.shares_memory(other));
            let to = if is_written || is_read(value)? { &mut copied } else { &mut written };
            to.push((name.as_str(), value));
        }
        let is_made = |name: &&String| written.iter().all(|(other, _)| *other != name.as_str());
        let made: Vec<&String> = names.iter().filter(is_made).collect();
        let options = options.map(RunOptions::of_run).unwrap_or_default();
        let options = options.outputs(made.iter().map(|name| name.as_str()));
        let targets = written.iter().map(|(name, value)| Ok((*name, value.output()?)));
        let targets = targets.collect::<PyResult<Vec<_>>>()?.into_iter().collect();
        let values = self.run_into(py, self.run_inputs(&feeds)?, targets, &options)?;
        let list = PyList::empty(py);
        for (name, value) in made.into_iter().zip(values) {
            match copied.iter().find(|(other, _)| other == name) {
                Some((_, to)) => {
                    let from = value.as_tensor().map_err(invalid_argument)?;
                    to.output()?.copy_from(from.view()).map_err(invalid_argument)?;
                }
                None => list.append(OrtValue::of_value(py, value)?)?,
            }
        }
        Ok(list)
    }

    /// The steps of a run, with their times.
    fn profile<'py>(&self, feed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (py, feeds) = (feed.py(), self.feeds(feed, None)?);
        let inputs = self.run_inputs(&feeds)?;
        let profiled = py.detach(|| self.session.run_profiled(inputs));
        reports::steps(py, &profiled.map_err(|error| of_run(&error))?.1)
    }

    /// Ends profiling; returns the name of the file that was written.
    fn end_profiling(&self, py: Python<'_>) -> PyResult<String> {
        let path =
            py.detach(|| self.session.end_profiling()).map_err(|error| of_profile(&error))?;
        Ok(path.display().to_string())
    }

    /// The session's memory by kind.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        reports::memory(py, &py.detach(|| self.session.memory()))
    }

    /// The model's metadata.
    fn modelmeta(&self) -> ModelMetadata {
        ModelMetadata { info: self.session.metadata().model.clone() }
    }

    /// The files with the model's external data.
    fn external_files(&self) -> Vec<PathBuf> {
        self.session.metadata().external_files.clone()
    }

    /// The required inputs.
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        NodeArg::list(py, self.inputs.iter().filter(|input| !input.has_default).cloned())
    }

    /// The inputs that the model has a default for.
    fn overridable<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        NodeArg::list(py, self.inputs.iter().filter(|input| input.has_default).cloned())
    }

    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        NodeArg::list(py, self.outputs.iter().cloned())
    }
}
