//! The ways to run a model, and one run of one data set.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use ort_ep::Reference;
use ort_session::{
    BoundOutputs, IsaChoice, Level, ModelBytes, Pack, RunInputs, RunOptions, Session,
    SessionBuilder, Type, ValueDescription,
};
use ort_tensor::{AlignedBuf, DType, Tensor, Value};
use ort_tensor_io::pb::Kind;
use ort_tensor_io::{DataSet, Side, Tolerance};

/// One way to run a model.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Its name in reports.
    pub name: &'static str,
    /// Whether every node runs its operator's own `eval`.
    pub is_reference: bool,
    /// The optimization level.
    pub level: Level,
    /// The instruction set of the kernels.
    pub isa: IsaChoice,
    /// The number of threads.
    pub n_threads: usize,
    /// Whether the model is saved as a packed file, without the constants that are only read packed, and that file is
    /// run.
    pub is_packed: bool,
}

impl Way {
    /// Every way this machine has; the caller names those it lacks on stderr.
    pub const ALL: &'static [Way] = &[
        Way::new("reference", true, Level::Disable, IsaChoice::Generic, 1),
        Way::new("cpu", false, Level::Disable, IsaChoice::Best, 1),
        Way::new("cpu all", false, Level::All, IsaChoice::Best, 1),
        Way {
            is_packed: true,
            ..Way::new("cpu all packed", false, Level::All, IsaChoice::Best, 1)
        },
        Way::new("cpu all 2 threads", false, Level::All, IsaChoice::Best, 2),
        Way::new("cpu all avx512", false, Level::All, IsaChoice::Avx512, 1),
        Way::new("cpu all avx2", false, Level::All, IsaChoice::Avx2, 1),
        Way::new("cpu all generic", false, Level::All, IsaChoice::Generic, 1),
    ];

    const fn new(
        name: &'static str,
        is_reference: bool,
        level: Level,
        isa: IsaChoice,
        n_threads: usize,
    ) -> Self {
        Self { name, is_reference, level, isa, n_threads, is_packed: false }
    }

    /// Whether this machine has the instructions.
    pub fn is_available(&self) -> bool {
        self.isa.resolve().is_ok()
    }

    /// A session's settings for this way.
    pub fn builder(&self) -> SessionBuilder {
        let builder = Session::builder().level(self.level).isa(self.isa).threads(self.n_threads);
        if self.is_reference { builder.provider(Arc::new(Reference)) } else { builder }
    }

    /// Builds a session of a model in memory.
    ///
    /// # Errors
    /// The message of the error.
    pub fn session(&self, model: Bytes) -> Result<Session, String> {
        let model = if self.is_packed { self.packed(model)? } else { model };
        self.builder().commit(ModelBytes::from_owner(model)).map_err(|error| error.to_string())
    }

    fn packed(&self, model: Bytes) -> Result<Bytes, String> {
        let optimized = self.builder().optimize(ModelBytes::from_owner(model));
        let optimized = optimized.map_err(|error| error.to_string())?;
        let bytes = optimized.to_packed_bytes(Pack::Replace).map_err(|error| error.to_string())?;
        Ok(Bytes::from_owner(AlignedBuf::copy_of(&bytes)))
    }
}

/// Runs a session on the files of a data set and compares the outputs, first in new memory and then in memory with
/// arbitrary contents, which must not matter.
///
/// # Errors
/// The message of the error or difference.
pub fn run_data_set(
    session: &Session,
    files: impl IntoIterator<Item = (PathBuf, Bytes)>,
    tolerance: Tolerance,
) -> Result<(), String> {
    let (inputs, outputs) = (session.inputs(), session.outputs());
    let kind = |side: Side, position: usize| {
        let values = if side == Side::Input { &inputs } else { &outputs };
        values.get(position).and_then(|value| kind_of(&value.ty))
    };
    let set = DataSet::from_files(files, &kind).map_err(|error| error.to_string())?;
    let names = |values: &[ValueDescription]| values.iter().map(|v| v.name.clone()).collect();
    let (input_names, output_names): (Vec<String>, Vec<String>) = (names(&inputs), names(&outputs));
    let given = || -> RunInputs<'_> {
        let given = set.inputs.iter().filter_map(|slot| {
            slot.name_among(&input_names).map(|name| (name.to_owned(), &slot.value))
        });
        given.collect()
    };
    let found = session.run(given()).map_err(|error| error.to_string())?;
    let filled_with_ones =
        |(name, value): (&str, &Value)| Some((name.to_owned(), filled_with_ones(value)?));
    let mut places: Vec<(String, Tensor)> = found.iter().filter_map(filled_with_ones).collect();
    let found = found.into_values();
    set.check(&output_names, &found, tolerance).map_err(|error| error.to_string())?;
    let bound: BoundOutputs<'_> =
        places.iter_mut().map(|(name, place)| (name.as_str(), place)).collect();
    let rest = session.run_into(given(), bound, &RunOptions::new());
    let rest = rest.map_err(|error| format!("into the caller's memory: {error}"))?;
    let found = output_names.iter().filter_map(|name| {
        let place = places.iter().find(|(other, _)| other == name);
        place.map_or_else(|| rest.get(name).cloned(), |(_, place)| Some(place.clone().into()))
    });
    let found: Vec<Value> = found.collect();
    set.check(&output_names, &found, tolerance)
        .map_err(|error| format!("into the caller's memory: {error}"))
}

/// A tensor of the same type and shape filled with ones; `None` for what a caller cannot provide memory for.
fn filled_with_ones(value: &Value) -> Option<Tensor> {
    let tensor = value.as_tensor().ok().filter(|tensor| tensor.dtype() != DType::String)?;
    let mut buf = AlignedBuf::zeroed(tensor.n_bytes());
    buf.as_mut().fill(0xFF);
    Tensor::in_buf(tensor.dtype(), tensor.shape(), buf).ok()
}

fn kind_of(ty: &Type) -> Option<Kind> {
    match ty {
        Type::Tensor(_) => Some(Kind::Tensor),
        Type::Sequence(_) => Some(Kind::Sequence),
        Type::Map { .. } => Some(Kind::Map),
        Type::Optional(_) => Some(Kind::Optional),
        _ => None,
    }
}
