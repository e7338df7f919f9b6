//! The options that several commands share.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches};
use ort_session::provider::Reference;
use ort_session::{
    Affinities, Arena, CpuProvider, Denormals, ExecutionMode, IsaChoice, Level, Load, Optimized,
    PeakPerformance, Session, SessionBuilder, SessionError,
};

use crate::config::Setting;
use crate::failure::Failure;
use crate::limits::LimitOptions;
use crate::named::{NamedFile, NamedShape, NamedSize};
use crate::print;
use crate::threads::Omp;

/// More threads than this are a slip of the finger.
pub(crate) const MAX_THREADS: usize = 1024;

const LEVELS: Words<Level> = &[
    ("disable", Level::Disable),
    ("basic", Level::Basic),
    ("extended", Level::Extended),
    ("layout", Level::Layout),
    ("all", Level::All),
];

const LOADS: Words<Load> =
    &[("mapped", Load::Mapped), ("read", Load::Read), ("sealed", Load::Sealed)];

const ARENAS: Words<Arena> =
    &[("keep", Arena::Keep), ("shrink", Arena::Shrink), ("off", Arena::Off)];

const DENORMALS: Words<Denormals> =
    &[("flush", Denormals::Flush), ("preserve", Denormals::Preserve)];

const MODES: Words<ExecutionMode> =
    &[("sequential", ExecutionMode::Sequential), ("parallel", ExecutionMode::Parallel)];

const ISAS: Words<IsaChoice> = &[
    ("amx", IsaChoice::Amx),
    ("avx512", IsaChoice::Avx512),
    ("avx2", IsaChoice::Avx2),
    ("generic", IsaChoice::Generic),
];

const PROVIDERS: Words<Provider> = &[("cpu", Provider::Cpu), ("reference", Provider::Reference)];

/// Who computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    /// The fast kernels.
    Cpu,
    /// The plain meaning of each operator.
    Reference,
}

pub(crate) type Words<T> = &'static [(&'static str, T)];

/// How a model becomes a session.
#[derive(Args, Clone, Debug)]
pub(crate) struct SessionOptions {
    /// How far the graph is optimized [default: all]
    #[arg(long, value_parser = words(LEVELS), help_heading = "Session")]
    level: Option<Level>,
    /// How many threads compute [default: as many cores as this process may use, and at most
    /// OMP_NUM_THREADS]
    #[arg(long, value_name = "N", value_parser = threads, help_heading = "Session")]
    threads: Option<usize>,
    /// Whether steps that do not need each other run side by side [default: sequential]
    #[arg(long, value_parser = words(MODES), help_heading = "Session")]
    execution_mode: Option<ExecutionMode>,
    /// How many branches run side by side in parallel mode [default: as many as threads compute]
    #[arg(long, value_name = "N", value_parser = threads, help_heading = "Session")]
    inter_op_threads: Option<usize>,
    /// How many µs threads wait awake for work while a run is under way [default: 1000]
    #[arg(long, value_name = "US", help_heading = "Session")]
    spinning: Option<u32>,
    /// Let threads sleep as soon as they have no work, as --spinning 0
    #[arg(long, conflicts_with = "spinning", help_heading = "Session")]
    no_spinning: bool,
    /// The processors of each thread but the caller, from 1, say `1;2,3;5-8`
    #[arg(long, value_name = "LIST", help_heading = "Session")]
    affinities: Option<Affinities>,
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
    /// Who computes: fast kernels, or the plain meaning of each operator, to compare with [default: cpu]
    #[arg(long, value_parser = words(PROVIDERS), help_heading = "Session")]
    provider: Option<Provider>,
    /// A pass of the optimizer to leave out, say GeluFusionL2
    #[arg(long, value_name = "PASS", help_heading = "Session")]
    disable: Vec<String>,
    /// A pass that is run only when asked for, since it approximates, say GeluApproximation
    #[arg(long, value_name = "PASS", help_heading = "Session")]
    enable: Vec<String>,
    /// The size of a dimension that the model leaves free, say batch=1: the graph is optimized for it
    #[arg(long, value_name = "NAME=N", help_heading = "Session")]
    dim: Vec<NamedSize>,
    /// One of ONNX Runtime's session keys, or of ours, say ep.cpu.winograd=0; the options above win
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Session")]
    config: Vec<Setting>,
    /// A folder that keeps what becomes of models, packed for this machine: the next start maps it
    #[arg(long, value_name = "DIR", help_heading = "Session")]
    cache_dir: Option<PathBuf>,
    /// Do not check that a packed file is whole: a start does not read all of it then
    #[arg(long, help_heading = "Session")]
    skip_sums: bool,
    #[command(flatten)]
    limits: LimitOptions,
    /// Tell on standard error what was decided: how many threads compute, and why
    #[arg(short, long, help_heading = "Session")]
    verbose: bool,
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
    /// These options, and those of `matches` in their place. A flag that is on stays on.
    pub(crate) fn updated(&self, matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = self.clone();
        options.update_from_arg_matches(matches)?;
        match (options.no_spinning, self.spinning == options.spinning) {
            (true, true) => options.spinning = None,
            (false, true) => options.no_spinning = self.no_spinning,
            (_, false) => {}
        }
        options.populate |= self.populate;
        options.skip_sums |= self.skip_sums;
        options.verbose |= self.verbose;
        Ok(options)
    }

    /// A session of the model at `path`.
    pub(crate) fn open(&self, path: &Path) -> Result<Session, Failure> {
        self.session(path).map_err(|source| Failure::model(path, source))
    }

    /// The same, with what may be wrong in its own words.
    pub(crate) fn session(&self, path: &Path) -> Result<Session, SessionError> {
        built(self.told(), path)
    }

    /// A session that collects a trace.
    pub(crate) fn open_traced(&self, path: &Path) -> Result<Session, Failure> {
        let session = built(self.told().collect_trace(), path);
        session.map_err(|source| Failure::model(path, source))
    }

    /// The model at `path` after so many rewrites, or all.
    pub(crate) fn optimize(
        &self,
        path: &Path,
        stop_after: Option<usize>,
    ) -> Result<Optimized, Failure> {
        let builder = match stop_after {
            Some(n_rewrites) => self.told().stop_after(n_rewrites),
            None => self.told(),
        };
        let optimized = builder.optimize_from_file(path);
        let optimized = optimized.map_err(|source| Failure::model(path, source))?;
        warn(path, optimized.report().assumed_block_size.iter());
        warn(path, optimized.packing_warnings());
        Ok(optimized)
    }

    /// The same of a model that is to stay as it is, unless a level is given; that may be held down, and passes left out.
    pub(crate) fn convert(
        &self,
        path: &Path,
        most: Level,
        disabled: &[&str],
    ) -> Result<Optimized, Failure> {
        let level = self.level.unwrap_or(Level::Disable).min(most);
        let builder = self.told().level(level).disable_optimizers(disabled.iter().copied());
        let optimized = builder.optimize_from_file(path);
        let optimized = optimized.map_err(|source| Failure::model(path, source))?;
        warn(path, optimized.packing_warnings());
        Ok(optimized)
    }

    /// The word for the level.
    pub(crate) fn level(&self) -> &'static str {
        let level = self.builder().chosen_level();
        LEVELS.iter().find(|(_, known)| *known == level).map_or("", |(word, _)| word)
    }

    /// The name of the instruction set that a session uses.
    pub(crate) fn isa(&self) -> &'static str {
        CpuProvider::new(self.builder().cpu_options()).map_or("", |provider| provider.isa().name())
    }

    /// What the machine can do at most with these instructions.
    pub(crate) fn peak(&self, n_threads: usize) -> PeakPerformance {
        PeakPerformance::measure(self.isa.unwrap_or_default(), n_threads)
    }

    /// A session's settings: those of `--config`, and over them those that have an option of their
    /// own. What either leaves out of the optimizer is left out.
    fn builder(&self) -> SessionBuilder {
        let configured = self.config.iter().fold(Session::builder(), |b, entry| entry.apply(b));
        let mut builder = self
            .limits
            .apply(configured)
            .disable_optimizers(&self.disable)
            .enable_optimizers(&self.enable)
            .check_sums(!self.skip_sums);
        builder = { self.dim.iter() }.fold(builder, |b, dim| b.free_dimension(&dim.name, dim.size));
        builder = with(builder, self.level, SessionBuilder::level);
        builder = with(builder, self.threads, SessionBuilder::threads);
        builder = with(builder, self.execution_mode, SessionBuilder::execution_mode);
        builder = with(builder, self.inter_op_threads, SessionBuilder::inter_op_threads);
        builder = with(builder, self.spinning(), SessionBuilder::spinning);
        builder = with(builder, self.affinities.clone(), SessionBuilder::thread_affinities);
        builder = with(builder, self.load, SessionBuilder::load);
        // A file that is read is in memory anyway.
        if self.populate && builder.chosen_load() == Load::Mapped {
            builder = builder.load(Load::Populated);
        }
        builder = with(builder, self.arena, SessionBuilder::arena);
        builder = with(builder, self.denormals, SessionBuilder::denormals);
        builder = with(builder, self.isa, SessionBuilder::isa);
        builder = with(builder, self.cache_dir.clone(), SessionBuilder::cache_dir);
        if self.provider == Some(Provider::Reference) {
            builder = builder.provider(Arc::new(Reference));
        }
        Omp::of_environment().bound(builder)
    }

    fn spinning(&self) -> Option<Duration> {
        let microseconds = self.spinning.or_else(|| self.no_spinning.then_some(0))?;
        Some(Duration::from_micros(microseconds.into()))
    }

    /// The same, with what was decided told to who asked for it.
    fn told(&self) -> SessionBuilder {
        let builder = self.builder();
        if self.verbose {
            print::detail(Omp::of_environment().decision(&builder.thread_count()));
        }
        builder
    }
}

/// Sets what was given.
fn with<T>(
    builder: SessionBuilder,
    given: Option<T>,
    set: impl FnOnce(SessionBuilder, T) -> SessionBuilder,
) -> SessionBuilder {
    match given {
        Some(given) => set(builder, given),
        None => builder,
    }
}

fn built(builder: SessionBuilder, path: &Path) -> Result<Session, SessionError> {
    let session = builder.commit_from_file(path)?;
    let metadata = session.metadata();
    warn(path, metadata.optimized.assumed_block_size.iter());
    warn(path, &metadata.packing_warnings);
    Ok(session)
}

fn warn(path: &Path, warnings: impl IntoIterator<Item = impl Display>) {
    let warning = |text| print::warning(&format!("{}: {text}", path.display()));
    warnings.into_iter().for_each(warning);
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
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    /// The session options of a program with these arguments.
    pub(crate) fn session_options(arguments: &[&str]) -> SessionOptions {
        #[derive(Parser)]
        struct Program {
            #[command(flatten)]
            session: SessionOptions,
        }

        Program::parse_from(["ort-cli"].iter().chain(arguments)).session
    }

    #[test]
    fn options_set_what_methods_set_and_win_over_keys() {
        let parallel = |builder: SessionBuilder| builder.execution_mode(ExecutionMode::Parallel);
        let microseconds = Duration::from_micros;
        let plain = |arguments: &[&str]| format!("{:?}", session_options(arguments).builder());
        let set = |set: &dyn Fn(SessionBuilder) -> SessionBuilder| {
            format!("{:?}", set(session_options(&[]).builder()))
        };
        let off = "session.intra_op.allow_spinning=0";
        let mode = "session.execution_mode=sequential";
        for (arguments, expected) in [
            (&["--execution-mode", "parallel"][..], set(&parallel)),
            (&["--execution-mode", "parallel", "--config", mode], set(&parallel)),
            (&["--inter-op-threads", "3"], set(&|b| b.inter_op_threads(3))),
            (&["--spinning", "20"], set(&|b| b.spinning(microseconds(20)))),
            (&["--spinning", "20", "--config", off], set(&|b| b.spinning(microseconds(20)))),
            (&["--no-spinning"], set(&|b| b.spinning(Duration::ZERO))),
            (&["--affinities", "1;2"], set(&|b| b.thread_affinities("1;2".parse().unwrap()))),
        ] {
            assert_eq!(plain(arguments), expected, "{arguments:?}");
            assert_ne!(expected, plain(&[]));
        }
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
            let session = session_options(arguments);
            assert_eq!(session.builder().chosen_load(), expected, "{arguments:?}");
        }
    }
}
