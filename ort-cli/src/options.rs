//! The options that several commands share.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ort_session::{
    Arena, CpuOptions, CpuProvider, Denormals, IsaChoice, Level, Load, Optimized, Roof, Session,
    SessionBuilder, SessionError,
};

use crate::config::Setting;
use crate::failure::Failure;
use crate::named::{NamedFile, NamedShape};
use crate::print;

/// More threads than this are a slip of the finger.
pub(crate) const MAX_THREADS: usize = 1024;

/// The pass that a key of its own asks for.
const GELU_APPROXIMATION: &str = "GeluApproximation";

const LEVELS: Words<Level> = &[
    ("disable", Level::Disable),
    ("basic", Level::Basic),
    ("extended", Level::Extended),
    ("layout", Level::Layout),
    ("all", Level::All),
];

const LOADS: Words<Load> = &[("mapped", Load::Mapped), ("read", Load::Read)];

const ARENAS: Words<Arena> =
    &[("keep", Arena::Keep), ("shrink", Arena::Shrink), ("off", Arena::Off)];

const DENORMALS: Words<Denormals> =
    &[("flush", Denormals::Flush), ("preserve", Denormals::Preserve)];

const ISAS: Words<IsaChoice> = &[
    ("amx", IsaChoice::Amx),
    ("avx512", IsaChoice::Avx512),
    ("avx2", IsaChoice::Avx2),
    ("generic", IsaChoice::Generic),
];

pub(crate) type Words<T> = &'static [(&'static str, T)];

/// How a model becomes a session.
#[derive(Args, Clone, Debug)]
pub(crate) struct SessionOptions {
    /// How far the graph is optimized [default: all]
    #[arg(long, value_parser = words(LEVELS), help_heading = "Session")]
    level: Option<Level>,
    /// How many threads compute [default: as many cores as this process may use]
    #[arg(long, value_name = "N", value_parser = threads, help_heading = "Session")]
    threads: Option<usize>,
    /// How the file comes into memory [default: mapped]
    #[arg(long, value_parser = words(LOADS), help_heading = "Session")]
    load: Option<Load>,
    /// Bring all of a mapped file into memory before anything else is done
    #[arg(long, help_heading = "Session")]
    populate: bool,
    /// What becomes of a run's memory when it is over: kept, kept as long as it is needed, or
    /// given back [default: shrink]
    #[arg(long, value_parser = words(ARENAS), help_heading = "Session")]
    arena: Option<Arena>,
    /// Whether denormal numbers count as zero [default: flush]
    #[arg(long, value_parser = words(DENORMALS), help_heading = "Session")]
    denormals: Option<Denormals>,
    /// Which instructions are used [default: the best there are]
    #[arg(long, value_parser = words(ISAS), help_heading = "Session")]
    isa: Option<IsaChoice>,
    /// A pass of the optimizer to leave out, say GeluFusionL2
    #[arg(long, value_name = "PASS", help_heading = "Session")]
    disable: Vec<String>,
    /// A pass that is run only when asked for, since it approximates, say GeluApproximation
    #[arg(long, value_name = "PASS", help_heading = "Session")]
    enable: Vec<String>,
    /// One of ONNX Runtime's session keys, or of ours, say ep.cpu.winograd=0; the options above win
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Session")]
    config: Vec<Setting>,
    /// A folder that keeps what becomes of models, packed for this machine: the next start maps it
    #[arg(long, value_name = "DIR", help_heading = "Session")]
    cache_dir: Option<PathBuf>,
    /// Do not check that a packed file is whole: a start does not read all of it then
    #[arg(long, help_heading = "Session")]
    skip_sums: bool,
    /// `--config` alone states this.
    #[arg(skip)]
    cpu_mem_arena: Option<bool>,
    /// Likewise.
    #[arg(skip)]
    mem_pattern: Option<bool>,
    /// Likewise.
    #[arg(skip)]
    nchwc_block_size: Option<usize>,
    /// Likewise.
    #[arg(skip)]
    gelu_approximation: bool,
    /// Likewise.
    #[arg(skip)]
    winograd: Option<bool>,
}

/// What a model runs on.
#[derive(Args, Clone, Debug)]
pub(crate) struct InputOptions {
    /// A folder with input_0.pb, input_1.npy, …
    #[arg(long, value_name = "DIR", help_heading = "Inputs")]
    pub(crate) inputs: Option<PathBuf>,
    /// A file for one input, .pb or .npy
    #[arg(long, value_name = "NAME=FILE", help_heading = "Inputs")]
    pub(crate) input: Vec<NamedFile>,
    /// The shape of a random input, say x=1x3x640x640
    #[arg(long, value_name = "NAME=SHAPE", help_heading = "Inputs")]
    pub(crate) shape: Vec<NamedShape>,
}

impl SessionOptions {
    /// A session of the model at `path`.
    pub(crate) fn open(&self, path: &Path) -> Result<Session, Failure> {
        self.session(path).map_err(|source| Failure::model(path, source))
    }

    /// The same, with what may be wrong in its own words.
    pub(crate) fn session(&self, path: &Path) -> Result<Session, SessionError> {
        built(self.builder(), path)
    }

    /// A session that collects a trace.
    pub(crate) fn open_traced(&self, path: &Path) -> Result<Session, Failure> {
        let session = built(self.builder().collect_trace(), path);
        session.map_err(|source| Failure::model(path, source))
    }

    /// The model at `path` after so many rewrites, or all.
    pub(crate) fn optimize(
        &self,
        path: &Path,
        stop_after: Option<usize>,
    ) -> Result<Optimized, Failure> {
        let builder = match stop_after {
            Some(n_rewrites) => self.builder().stop_after(n_rewrites),
            None => self.builder(),
        };
        let optimized = builder.optimize_from_file(path);
        let optimized = optimized.map_err(|source| Failure::model(path, source))?;
        warn(path, optimized.packing_warnings());
        Ok(optimized)
    }

    /// The word for the level.
    pub(crate) fn level(&self) -> &'static str {
        let level = self.chosen().level.unwrap_or(Level::All);
        LEVELS.iter().find(|(_, known)| *known == level).map_or("", |(word, _)| word)
    }

    /// The name of the instruction set that a session uses.
    pub(crate) fn isa(&self) -> &'static str {
        let chosen = self.chosen();
        let mut options = CpuOptions::default();
        options.isa = chosen.isa.unwrap_or_default();
        options.denormals = chosen.denormals.unwrap_or_default();
        CpuProvider::new(options).map_or("", |provider| provider.isa().name())
    }

    /// What the machine can do at most with these instructions.
    pub(crate) fn roof(&self, n_threads: usize) -> Roof {
        Roof::measure(self.isa.unwrap_or_default(), n_threads)
    }

    /// A session's settings.
    fn builder(&self) -> SessionBuilder {
        let chosen = self.chosen();
        let builder = Session::builder()
            .load(chosen.way_to_load())
            .arena(chosen.arena.unwrap_or_default())
            .denormals(chosen.denormals.unwrap_or_default())
            .isa(chosen.isa.unwrap_or_default())
            .winograd(chosen.winograd.unwrap_or(true))
            .level(chosen.level.unwrap_or(Level::All))
            .disable_optimizers(chosen.disable)
            .enable_optimizers(chosen.gelu_approximation.then_some(GELU_APPROXIMATION))
            .enable_optimizers(chosen.enable);
        let builder = match chosen.nchwc_block_size {
            Some(n_channels) => builder.nchwc_block_size(n_channels),
            None => builder,
        };
        let builder = match chosen.cache_dir {
            Some(folder) => builder.cache_dir(folder),
            None => builder,
        };
        let builder = builder.check_sums(!chosen.skip_sums);
        match chosen.threads {
            Some(n_threads) => builder.threads(n_threads),
            None => builder,
        }
    }

    /// A file that is read is in memory anyway.
    fn way_to_load(&self) -> Load {
        match self.load.unwrap_or_default() {
            Load::Mapped if self.populate => Load::Populated,
            load => load,
        }
    }

    /// These options, with those of `--config` where nothing else was said; its last one counts.
    /// What either leaves out of the optimizer is left out.
    fn chosen(&self) -> Self {
        let Self { level, threads, load, arena, denormals, .. } = self.clone();
        let mut base = Self {
            level: None,
            threads: None,
            load: None,
            arena: None,
            denormals: None,
            ..self.clone()
        };
        for setting in &self.config {
            match setting {
                Setting::Threads(it) => base.threads = *it,
                Setting::Level(it) => base.level = Some(*it),
                Setting::Load(it) => base.load = Some(*it),
                Setting::CpuMemArena(it) => base.cpu_mem_arena = Some(*it),
                Setting::MemPattern(it) => base.mem_pattern = Some(*it),
                Setting::Denormals(it) => base.denormals = Some(*it),
                Setting::NchwcBlockSize(it) => base.nchwc_block_size = Some(*it),
                Setting::GeluApproximation(it) => base.gelu_approximation = *it,
                Setting::Winograd(it) => base.winograd = Some(*it),
                Setting::Disable(names) => base.disable.extend(names.iter().cloned()),
            }
        }
        Self {
            level: level.or(base.level),
            threads: threads.or(base.threads),
            load: load.or(base.load),
            arena: arena.or(arena_of(base.cpu_mem_arena, base.mem_pattern)),
            denormals: denormals.or(base.denormals),
            ..base
        }
    }
}

/// What ONNX Runtime's two switches mean: without its arena it keeps nothing; without patterns it is
/// told that shapes vary; and whoever writes down that there is an arena wants it kept.
fn arena_of(cpu_mem_arena: Option<bool>, mem_pattern: Option<bool>) -> Option<Arena> {
    match (cpu_mem_arena, mem_pattern) {
        (Some(false), _) => Some(Arena::Off),
        (_, Some(false)) => Some(Arena::Shrink),
        (Some(true), _) => Some(Arena::Keep),
        (None, _) => None,
    }
}

fn built(builder: SessionBuilder, path: &Path) -> Result<Session, SessionError> {
    let session = builder.commit_from_file(path)?;
    warn(path, &session.metadata().packing_warnings);
    Ok(session)
}

fn warn(path: &Path, warnings: &[String]) {
    warnings.iter().for_each(|text| print::warning(&format!("{}: {text}", path.display())));
}

/// Reads one of these words; any other is an error that lists them.
pub(crate) fn words<T: Copy + Send + Sync>(words: Words<T>) -> impl TypedValueParser<Value = T> {
    let parser = PossibleValuesParser::new(words.iter().map(|(word, _)| *word));
    parser.map(move |word| {
        let found = words.iter().find(|(known, _)| *known == word);
        found.map(|(_, value)| *value).expect("invariant: only these words pass the parser")
    })
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=MAX_THREADS).contains(&n) => Ok(n),
        _ => Err(format!("expected a number from 1 to {MAX_THREADS}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        session: SessionOptions,
    }

    #[test]
    fn only_what_is_mapped_is_populated() {
        let key = "session.use_memory_mapped_ort_model=0";
        for (arguments, expected) in [
            (&[][..], Load::Mapped),
            (&["--populate"], Load::Populated),
            (&["--populate", "--load", "mapped"], Load::Populated),
            (&["--populate", "--load", "read"], Load::Read),
            (&["--populate", "--config", key], Load::Read),
            (&["--populate", "--config", key, "--load", "mapped"], Load::Populated),
        ] {
            let program = Program::parse_from(["ort-cli"].iter().chain(arguments));
            assert_eq!(program.session.chosen().way_to_load(), expected, "{arguments:?}");
        }
    }
}
