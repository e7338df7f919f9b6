//! The stages of a session's lifetime, and the memory of the process in each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ort_session::{
    MappingKind, MemoryReport, Pages, Process, ProcessMemory, Session, process_memory,
};

use super::{Arguments, headline};
use crate::failure::Failure;
use crate::inputs::{Inputs, check_name};

/// What was measured, from before the first load to after the last drop.
#[derive(Debug)]
pub(super) struct Timeline {
    /// The models' paths.
    pub(super) names: Vec<String>,
    /// One line for each model.
    pub(super) headlines: Vec<String>,
    /// The size of the models' files.
    pub(super) model_bytes: usize,
    /// In the order of [`STAGES`].
    pub(super) stages: [Stage; N_STAGES],
}

/// The memory of the process at one time.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) process: ProcessMemory,
    /// Every mapping, summed by kind.
    pub(super) kinds: BTreeMap<MappingKind, Pages>,
    /// Those of the models' files.
    pub(super) model_files: Pages,
    /// The report of each session; none before the load and after the drop.
    pub(super) reports: Vec<MemoryReport>,
    /// The size of the inputs in bytes.
    pub(super) inputs: u64,
}

/// How many stages there are.
pub(super) const N_STAGES: usize = STAGES.len();
/// Indices into the list of stages.
pub(super) const BEFORE_LOAD: usize = 0;
pub(super) const AFTER_RUNS: usize = 3;
pub(super) const AFTER_DROP: usize = 4;
pub(super) const AFTER_SECOND_DROP: usize = 7;

/// Their names, as `--json` prints them.
pub(super) const STAGES: [&str; 8] = [
    "before load",
    "after load",
    "after first run",
    "after runs",
    "after drop",
    "after second load",
    "after second runs",
    "after second drop",
];

/// Threads exit shortly after their last session is dropped: how often, and how long, to wait for
/// them.
const MAX_WAITS: usize = 100;
const WAIT: Duration = Duration::from_millis(2);

pub(super) type Loaded = Vec<(Session, Inputs)>;

impl Timeline {
    pub(super) fn measure(arguments: &Arguments) -> Result<Self, Failure> {
        // Allocates what measuring itself needs before the first stage.
        Stage::measure(&[], &[])?;
        let before = Stage::measure(&[], &[])?;
        let n_threads = before.process.n_threads;

        let loaded = load(arguments)?;
        let paths = files(&loaded);
        let each = || arguments.models.iter().zip(&loaded);
        let headlines = each()
            .map(|(path, (session, _))| headline(path, session, &arguments.session))
            .collect();
        let model_bytes = each().map(|(_, (session, _))| session.bytes().len()).sum();
        let after_load = Stage::measure(&paths, &loaded)?;
        run(arguments, &loaded, 1)?;
        let after_first_run = Stage::measure(&paths, &loaded)?;
        run(arguments, &loaded, arguments.runs - 1)?;
        let after_runs = Stage::measure(&paths, &loaded)?;
        drop(loaded);
        wait_for_threads(n_threads)?;
        let after_drop = Stage::measure(&paths, &[])?;

        let loaded = load(arguments)?;
        let second_load = Stage::measure(&paths, &loaded)?;
        run(arguments, &loaded, arguments.runs)?;
        let second_runs = Stage::measure(&paths, &loaded)?;
        drop(loaded);
        wait_for_threads(n_threads)?;
        let second_drop = Stage::measure(&paths, &[])?;

        let stages = [
            before,
            after_load,
            after_first_run,
            after_runs,
            after_drop,
            second_load,
            second_runs,
            second_drop,
        ];
        let names = arguments.models.iter().map(|path| path.display().to_string()).collect();
        Ok(Self { names, headlines, model_bytes, stages })
    }
}

/// Every model with its inputs.
pub(super) fn load(arguments: &Arguments) -> Result<Loaded, Failure> {
    let models = arguments.models.iter().enumerate().map(|(i, path)| {
        let session = arguments.session.open(path)?;
        let inputs = Inputs::gather(&session, &arguments.inputs_of(i, &session))?;
        Ok((session, inputs))
    });
    let loaded: Loaded = models.collect::<Result<_, Failure>>()?;
    let inputs: Vec<_> = loaded.iter().flat_map(|(session, _)| session.inputs()).collect();
    for shape in &arguments.shape {
        check_name("--shape", &shape.name, &inputs)?;
    }
    Ok(loaded)
}

/// The files that contain the sessions' bytes: the models, or their packed files in a cache, by the
/// names of their mappings, which are text.
pub(super) fn files(loaded: &Loaded) -> Vec<PathBuf> {
    let paths = loaded.iter().filter_map(|(session, _)| session.bytes().path());
    let paths = paths.filter_map(|path| path.canonicalize().ok());
    paths.map(|path| path.to_string_lossy().into_owned().into()).collect()
}

/// Runs each model `n_runs` times.
pub(super) fn run(arguments: &Arguments, loaded: &Loaded, n_runs: u32) -> Result<(), Failure> {
    for (path, (session, inputs)) in arguments.models.iter().zip(loaded) {
        for _ in 0..n_runs {
            session.run(inputs.to_run()).map_err(|source| Failure::run(path, source))?;
        }
    }
    Ok(())
}

/// The size of the sessions' inputs in bytes.
pub(super) fn inputs(loaded: &[(Session, Inputs)]) -> u64 {
    let n_bytes: usize = loaded.iter().map(|(_, inputs)| inputs.n_bytes()).sum();
    n_bytes.try_into().unwrap_or(u64::MAX)
}

fn wait_for_threads(n_threads: u64) -> Result<(), Failure> {
    for _ in 0..MAX_WAITS {
        if process_memory()?.is_none_or(|memory| memory.n_threads <= n_threads) {
            break;
        }
        std::thread::sleep(WAIT);
    }
    Ok(())
}

impl Stage {
    fn measure(models: &[PathBuf], loaded: &[(Session, Inputs)]) -> Result<Self, Failure> {
        let mappings = Process::Own.mappings()?.ok_or(Failure::NotReported)?;
        let process = process_memory()?.ok_or(Failure::NotReported)?;
        let mut kinds = BTreeMap::new();
        for mapping in &mappings {
            let sum: &mut Pages = kinds.entry(mapping.kind).or_default();
            *sum = *sum + mapping.pages;
        }
        let of_models = mappings.iter().filter(|mapping| models.contains(&mapping.name));
        let model_files = of_models.map(|mapping| mapping.pages).sum();
        let reports = loaded.iter().map(|(session, _)| session.memory()).collect();
        Ok(Self { process, kinds, model_files, reports, inputs: inputs(loaded) })
    }

    /// The sum of all mappings.
    pub(super) fn total(&self) -> Pages {
        self.kinds.values().copied().sum()
    }

    /// The resident bytes of these kinds.
    pub(super) fn resident(&self, kinds: &[MappingKind]) -> u64 {
        kinds.iter().filter_map(|kind| self.kinds.get(kind)).map(|pages| pages.resident).sum()
    }
}

/// Every kind of mapping, with its name.
pub(super) const KINDS: [(MappingKind, &str); 10] = [
    (MappingKind::Program, "program"),
    (MappingKind::Library, "library"),
    (MappingKind::File, "file"),
    (MappingKind::SharedMemory, "shared_memory"),
    (MappingKind::Heap, "heap"),
    (MappingKind::Stack, "stack"),
    (MappingKind::ThreadStack, "thread_stack"),
    (MappingKind::Anonymous, "anonymous"),
    (MappingKind::Reserved, "reserved"),
    (MappingKind::Kernel, "kernel"),
];
