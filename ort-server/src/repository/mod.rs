//! The loaded models, and loading and unloading them.

mod config;
mod folder;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ort_session::{Cancel, SessionBuilder};

use self::config::Config;
use crate::failure::Failure;
use crate::model::{Batching, Model, Scheduling};

/// How models are loaded and run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) folder: PathBuf,
    pub(crate) builder: SessionBuilder,
    pub(crate) scheduling: Scheduling,
}

/// The models of a folder. Loading and unloading happen one at a time, and do not disturb requests.
#[derive(Debug)]
pub(crate) struct Repository {
    settings: Settings,
    models: RwLock<BTreeMap<String, Versions>>,
    /// Held while a model is loaded or unloaded.
    changing: Mutex<()>,
    /// Stops loading.
    cancel: Cancel,
}

type Versions = BTreeMap<u64, State>;

#[derive(Clone, Debug)]
enum State {
    Loading,
    Ready(Arc<Model>),
    Failed(String),
    Unloaded,
}

/// A row of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Absent for a model that was never loaded.
    pub(crate) version: Option<u64>,
    pub(crate) state: &'static str,
    pub(crate) reason: String,
}

const READY: &str = "READY";

impl Repository {
    pub(crate) fn new(mut settings: Settings) -> Self {
        let cancel = Cancel::new();
        settings.builder = settings.builder.cancel(&cancel);
        Self { settings, models: RwLock::default(), changing: Mutex::default(), cancel }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.settings.folder
    }

    /// The names of the folder's models.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        folder::names(&self.settings.folder)
    }

    /// A version of a model; the largest that is ready if `version` is empty.
    ///
    /// # Errors
    /// If it is unknown or not available.
    pub(crate) fn get(&self, name: &str, version: &str) -> Result<Arc<Model>, Failure> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let unknown = || Failure::UnknownModel { name: name.to_owned() };
        let versions = models.get(name).ok_or_else(unknown)?;
        let ready = |state: &State| match state {
            State::Ready(model) => Some(model.clone()),
            _ => None,
        };
        let found = if version.is_empty() {
            let largest = versions.values().rev().find_map(ready);
            if let Some(model) = largest {
                return Ok(model);
            }
            versions.last_key_value()
        } else {
            version.parse().ok().and_then(|version: u64| versions.get_key_value(&version))
        };
        let (&number, state) = found.ok_or_else(|| Failure::UnknownVersion {
            name: name.to_owned(),
            version: version.to_owned(),
        })?;
        let (_, reason) = state.described();
        let not_available =
            || Failure::NotAvailable { name: name.to_owned(), version: number, reason };
        ready(state).ok_or_else(not_available)
    }

    /// The versions of a model that are ready, ascending.
    pub(crate) fn ready_versions(&self, name: &str) -> Vec<u64> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let versions = models.get(name).into_iter().flatten();
        versions
            .filter(|(_, state)| matches!(state, State::Ready(_)))
            .map(|(version, _)| *version)
            .collect()
    }

    /// All models that are ready.
    pub(crate) fn ready(&self) -> Vec<Arc<Model>> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let states = models.values().flat_map(BTreeMap::values);
        states
            .filter_map(|state| match state {
                State::Ready(model) => Some(model.clone()),
                _ => None,
            })
            .collect()
    }

    /// Every model of the folder and every loaded one, with its state.
    pub(crate) fn index(&self, only_ready: bool) -> io::Result<Vec<Entry>> {
        let names = self.names()?;
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let mut entries: Vec<_> = models
            .iter()
            .flat_map(|(name, versions)| versions.iter().map(move |it| (name, it)))
            .map(|(name, (&version, state))| {
                let (state, reason) = state.described();
                Entry { name: name.clone(), version: Some(version), state, reason }
            })
            .collect();
        let unseen = names.into_iter().filter(|name| !models.contains_key(name));
        entries.extend(unseen.map(|name| Entry {
            name,
            version: None,
            state: "UNAVAILABLE",
            reason: String::new(),
        }));
        entries.retain(|entry| !only_ready || entry.state == READY);
        entries.sort_by(|a, b| (&a.name, a.version).cmp(&(&b.name, b.version)));
        Ok(entries)
    }

    /// Loads all versions of a model. If it was loaded already, the new sessions replace the old ones, which answer the
    /// requests they have. Blocks.
    ///
    /// # Errors
    /// If there is no such model, or some version cannot be loaded; the other versions are then loaded.
    pub(crate) fn load(&self, name: &str) -> Result<(), Failure> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.settings.folder.join(name);
        let unknown = || Failure::UnknownModel { name: name.to_owned() };
        let found = if folder::is_name(name) { folder::versions(&folder).ok() } else { None };
        let found = found.filter(|versions| !versions.is_empty()).ok_or_else(unknown)?;
        let failed = |reason: String| Failure::NotLoaded { name: name.to_owned(), reason };
        let scheduling = self.scheduling(&folder).map_err(failed)?;
        let mut first_reason = None;
        for version in found.keys() {
            self.update(name, |versions| {
                versions.entry(*version).or_insert(State::Loading);
            });
        }
        for (&version, path) in &found {
            let state = match self.open(name, version, path, scheduling) {
                Ok(model) => State::Ready(model),
                Err(reason) => {
                    tracing::error!("model {name}, version {version}: {reason}");
                    first_reason.get_or_insert_with(|| format!("version {version}: {reason}"));
                    State::Failed(reason)
                }
            };
            self.set(name, version, state);
        }
        let gone = self.ready_versions(name).into_iter().filter(|it| !found.contains_key(it));
        gone.for_each(|version| self.set(name, version, State::Unloaded));
        first_reason.map_or(Ok(()), |reason| Err(failed(reason)))
    }

    fn open(
        &self,
        name: &str,
        version: u64,
        path: &Path,
        scheduling: Scheduling,
    ) -> Result<Arc<Model>, String> {
        let builder = self.settings.builder.clone().log_id(format!("{name}/{version}"));
        let session = builder.commit_from_file(path).map_err(|error| error.to_string())?;
        let time = session.metadata().load_time;
        let model = Model::start(name, version, session, scheduling);
        let model = model.map_err(|error| format!("its threads cannot be started: {error}"))?;
        tracing::info!("model {name}, version {version}: loaded {} in {time:?}", path.display());
        Ok(model)
    }

    /// The server's settings, overridden by the model's configuration.
    fn scheduling(&self, folder: &Path) -> Result<Scheduling, String> {
        let config = match config_text(&folder.join("config.pbtxt")) {
            Ok(text) => config::parse(&text).map_err(|error| error.to_string())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Config::default(),
            Err(error) => return Err(format!("config.pbtxt: {error}")),
        };
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let mut scheduling = self.settings.scheduling;
        if let Some(n) = config.n_instances {
            scheduling.n_instances = number(n).clamp(1, MAX_INSTANCES);
        }
        // In Triton, 0 means no limit; here it leaves the server's.
        if let Some(n) = config.max_queue.filter(|&n| n > 0) {
            scheduling.max_queue = number(n);
        }
        scheduling.batching = match (config.max_batch_size, config.dynamic_batching) {
            (Some(0 | 1), _) => None,
            (Some(n), Some(max_delay)) => Some(Batching::new(number(n), max_delay)),
            (_, None) => scheduling.batching,
            (None, Some(max_delay)) => {
                scheduling.batching.map(|batching| Batching::new(batching.max_rows, max_delay))
            }
        };
        Ok(scheduling)
    }

    /// Unloads all versions of a model; requests that it has are answered.
    ///
    /// # Errors
    /// If it is not loaded.
    pub(crate) fn unload(&self, name: &str) -> Result<(), Failure> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let versions = self.ready_versions(name);
        if versions.is_empty() {
            return Err(Failure::UnknownModel { name: name.to_owned() });
        }
        for version in versions {
            self.set(name, version, State::Unloaded);
            tracing::info!("model {name}, version {version}: unloaded");
        }
        Ok(())
    }

    /// Cancels loading, now and later.
    pub(crate) fn cancel_loading(&self) {
        self.cancel.cancel();
    }

    /// Batches no longer wait for more requests.
    pub(crate) fn drain(&self) {
        self.ready().iter().for_each(|model| model.drain());
    }

    /// Cancels all requests that wait or run.
    pub(crate) fn cancel_requests(&self) {
        self.ready().iter().for_each(|model| model.cancel());
    }

    /// Unloads everything, and waits for all threads. Blocks.
    pub(crate) fn close(&self) {
        let models = self.ready();
        models.iter().for_each(|model| model.close());
        models.iter().for_each(|model| model.join());
    }

    /// Replaces the state of a version; a model that was loaded answers the requests it has.
    fn set(&self, name: &str, version: u64, state: State) {
        let mut old = None;
        self.update(name, |versions| old = versions.insert(version, state));
        // Outside of the lock: it may be the last owner.
        drop(old);
    }

    fn update(&self, name: &str, change: impl FnOnce(&mut Versions)) {
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        change(models.entry(name.to_owned()).or_default());
    }
}

/// The text of a configuration; an error if it is not a file, or a long one.
fn config_text(path: &Path) -> io::Result<String> {
    const MAX_BYTES: u64 = 1 << 20;
    // A pipe or a device would be read without end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    match u64::try_from(text.len()) {
        Ok(len) if len <= MAX_BYTES => Ok(text),
        _ => Err(io::Error::other("it has more than 1 MiB")),
    }
}

/// More instances than this are assumed to be a typing error.
pub(crate) const MAX_INSTANCES: usize = 1024;

impl State {
    /// The protocol's name, and the reason.
    fn described(&self) -> (&'static str, String) {
        match self {
            State::Loading => ("LOADING", "it is being loaded".to_owned()),
            State::Ready(_) => (READY, String::new()),
            State::Failed(reason) => ("UNAVAILABLE", reason.clone()),
            State::Unloaded => ("UNAVAILABLE", "unloaded".to_owned()),
        }
    }
}
