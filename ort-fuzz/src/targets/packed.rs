//! Packed files and cache folders, damaged. A packed file may be rejected; a cache that is damaged is not used, and the
//! results stay the same bits.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ort_conformance::differential::{drawn, families};
use ort_session::{
    Level, ModelBytes, Outputs, Pack, RunError, Session, SessionBuilder, Tensor, Value,
};
use ort_testing::Rng;
use tempfile::TempDir;

use super::Attack;
use crate::attack::Outcome;
use crate::damage::damaged;
use crate::stages::{builder, options};

/// Multiply-adds of a model.
const BUDGET: usize = 20_000;

pub(super) fn prepare() -> Attack {
    let models = (0..families().len()).filter_map(|family| Model::new(family).ok());
    let models: Vec<Model> = models.collect();
    Box::new(move |mutant| {
        let rng = &mut mutant.rng;
        let model = &models[rng.index(models.len())];
        let other = &models[rng.index(models.len())].packed;
        mutant.label = families()[model.family].to_owned();
        match rng.below(2) {
            0 => model.packed_file(other, rng),
            _ => model.cache(other, rng).unwrap_or(Outcome::Rejected),
        }
    })
}

/// A model with its packed file and its cache.
struct Model {
    family: usize,
    inputs: Vec<(String, Tensor)>,
    expected: Vec<Vec<u8>>,
    packed: Vec<u8>,
    folder: TempDir,
    /// The files of the cache as they were written.
    cached: Vec<(PathBuf, Vec<u8>)>,
}

impl Model {
    /// # Errors
    /// What a model of this family lacks: constants to pack, for example.
    fn new(family: usize) -> Result<Self, String> {
        let (file, inputs) = drawn(family, 1, BUDGET)?;
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let optimized = limited().optimize(ModelBytes::from_owner(file.clone()));
        let packed = optimized.map_err(|error| text(&error))?.to_packed_bytes(Pack::Replace);
        let packed = packed.map_err(|error| text(&error))?;
        let folder = tempfile::tempdir().map_err(|error| text(&error))?;
        fs::write(folder.path().join(FILE), &file).map_err(|error| text(&error))?;
        let (expected, cached) = (Vec::new(), Vec::new());
        let mut model = Self { family, inputs, expected, packed, folder, cached };
        let session = model.cached_session()?;
        let outputs = model.run(&session).map_err(|error| text(&error))?;
        model.expected = bits(&outputs);
        model.cached = files(&model.cache_folder()).map_err(|error| text(&error))?;
        if model.cached.is_empty() { Err("nothing is packed".to_owned()) } else { Ok(model) }
    }

    fn cache_folder(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn cached_session(&self) -> Result<Session, String> {
        let builder = limited().cache_dir(self.cache_folder());
        let session = builder.commit_from_file(self.folder.path().join(FILE));
        session.map_err(|error| error.to_string())
    }

    fn run(&self, session: &Session) -> Result<Outputs, RunError> {
        let inputs: Vec<_> = self.inputs.iter().map(|(name, tensor)| (&**name, tensor)).collect();
        session.run_with(inputs, &options())
    }

    fn packed_file(&self, other: &[u8], rng: &mut Rng) -> Outcome {
        let file = damaged(self.packed.clone(), other, rng);
        let builder = limited().check_sums(rng.below(2) == 0);
        let Ok(session) = builder.commit(ModelBytes::from_owner(Bytes::from(file))) else {
            return Outcome::Rejected;
        };
        match self.run(&session) {
            Ok(_) => Outcome::Accepted,
            Err(_) => Outcome::Rejected,
        }
    }

    fn cache(&self, other: &[u8], rng: &mut Rng) -> std::io::Result<Outcome> {
        for (path, _) in files(&self.cache_folder())? {
            fs::remove_file(path)?;
        }
        let at = rng.index(self.cached.len());
        for (i, (path, bytes)) in self.cached.iter().enumerate() {
            let mut bytes = bytes.clone();
            if i == at {
                bytes = damaged(bytes, other, rng);
            }
            fs::write(path, bytes)?;
        }
        let outputs = self
            .cached_session()
            .and_then(|session| self.run(&session).map_err(|error| error.to_string()));
        Ok(match outputs {
            Ok(outputs) if bits(&outputs) == self.expected => Outcome::Accepted,
            Ok(_) => Outcome::Found("a damaged cache changes results".to_owned()),
            Err(error) => Outcome::Found(format!("a damaged cache is an error: {error}")),
        })
    }
}

const FILE: &str = "model.ort";

fn limited() -> SessionBuilder {
    builder(Level::All)
}

fn files(folder: &Path) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    paths.into_iter().map(|path| Ok((path.clone(), fs::read(path)?))).collect()
}

fn bits(outputs: &Outputs) -> Vec<Vec<u8>> {
    let bytes = |value: &Value| match value {
        Value::Tensor(tensor) => tensor.view().as_bytes().map(<[u8]>::to_vec),
        _ => None,
    };
    outputs.iter().map(|(_, value)| bytes(value).unwrap_or_default()).collect()
}
