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

/// More threads than this are assumed to be a typing error.
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
    ("neon", IsaChoice::Neon),
    ("simd128", IsaChoice::Simd128),
    ("generic", IsaChoice::Generic),
];

const PROVIDERS: Words<Provider> = &[("cpu", Provider::Cpu), ("reference", Provider::Reference)];

/// The execution provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    /// The fast kernels.
    Cpu,
    /// The reference implementation of each operator.
    Reference,
}

pub(crate) type Words<T> = &'static [(&'static str, T)];

/// The options of a session.
#[derive(Args, Clone, Debug)]
pub(crate) struct SessionOptions {
    /// The optimization level [default: all]
    #[arg(long, value_parser = words(LEVELS), help_heading = "Session")]
    level: Option<Level>,
    /// The number of threads that compute [default: the number of cores that this process may use,
    /// at most OMP_NUM_THREADS]
    #[arg(long, value_name = "N", value_parser = threads, help_heading = "Session")]
    threads: Option<usize>,
    /// Whether independent branches of the graph run in parallel [default: sequential]
    #[arg(long, value_parser = words(MODES), help_heading = "Session")]
    execution_mode: Option<ExecutionMode>,
    /// The number of branches that run at once in parallel mode [default: the number of threads]
    #[arg(long, value_name = "N", value_parser = threads, help_heading = "Session")]
    inter_op_threads: Option<usize>,
    /// How many µs threads spin without work during a run [default: 1000]
    #[arg(long, value_name = "US", help_heading = "Session")]
    spinning: Option<u32>,
    /// Let threads sleep as soon as they have no work, like --spinning 0
    #[arg(long, conflicts_with = "spinning", help_heading = "Session")]
    no_spinning: bool,
    /// The processors of each thread but the caller, counted from 1, such as `1;2,3;5-8`
    #[arg(long, value_name = "LIST", help_heading = "Session")]
    affinities: Option<Affinities>,
    /// How the file is loaded [default: mapped]
    #[arg(long, value_parser = words(LOADS), help_heading = "Session")]
    load: Option<Load>,
    /// Prefault all pages of a mapped file first
    #[arg(long, help_heading = "Session")]
    populate: bool,
    /// What happens to a run's arena afterwards: it is kept, kept as long as it is needed, or released
    /// [default: shrink]
    #[arg(long, value_parser = words(ARENAS), help_heading = "Session")]
    arena: Option<Arena>,
    /// Whether denormal numbers are flushed to zero [default: flush]
    #[arg(long, value_parser = words(DENORMALS), help_heading = "Session")]
    denormals: Option<Denormals>,
    /// The instruction set [default: the best available]
    #[arg(long, value_parser = words(ISAS), help_heading = "Session")]
    isa: Option<IsaChoice>,
    /// The execution provider: fast kernels, or the reference implementation of each operator [default: cpu]
    #[arg(long, value_parser = words(PROVIDERS), help_heading = "Session")]
    provider: Option<Provider>,
    /// An optimizer pass to disable, such as GeluFusionL2
    #[arg(long, value_name = "PASS", help_heading = "Session")]
    disable: Vec<String>,
    /// An approximate optimizer pass to enable, such as GeluApproximation
    #[arg(long, value_name = "PASS", help_heading = "Session")]
    enable: Vec<String>,
    /// The size of a free dimension, such as batch=1; the graph is optimized for it
    #[arg(long, value_name = "NAME=N", help_heading = "Session")]
    dim: Vec<NamedSize>,
    /// A session key of ONNX Runtime or of this runtime, such as ep.cpu.winograd=0; options take precedence
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Session")]
    config: Vec<Setting>,
    /// A cache folder for models packed for this machine, which later starts map
    #[arg(long, value_name = "DIR", help_heading = "Session")]
    cache_dir: Option<PathBuf>,
    /// Do not verify the checksum of a packed file, so that loading need not read all of it
    #[arg(long, help_heading = "Session")]
    skip_sums: bool,
    #[command(flatten)]
    limits: LimitOptions,
    /// Print decisions to standard error: how many threads compute, and why
    #[arg(short, long, help_heading = "Session")]
    verbose: bool,
}

/// The inputs of a model.
#[derive(Args, Clone, Debug)]
pub(crate) struct InputOptions {
    /// A folder with input_0.pb, input_1.npy, …
    #[arg(long, value_name = "DIR", help_heading = "Inputs")]
    pub(crate) inputs: Option<PathBuf>,
    /// A file for one input, .pb or .npy
    #[arg(long, value_name = "NAME=FILE", help_heading = "Inputs")]
    pub(crate) input: Vec<NamedFile>,
    /// The shape of a random input, such as x=1x3x640x640
    #[arg(long, value_name = "NAME=SHAPE", help_heading = "Inputs")]
    pub(crate) shape: Vec<NamedShape>,
}

impl SessionOptions {
    /// These options, overridden by those in `matches`. A flag that is set stays set.
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

    /// The same, with the session's own error.
    pub(crate) fn session(&self, path: &Path) -> Result<Session, SessionError> {
        built(self.reporting_builder(), path)
    }

    /// A session that collects a trace.
    pub(crate) fn open_traced(&self, path: &Path) -> Result<Session, Failure> {
        let session = built(self.reporting_builder().collect_trace(), path);
        session.map_err(|source| Failure::model(path, source))
    }

    /// The model at `path`, optimized with at most `stop_after` rewrites.
    pub(crate) fn optimize(
        &self,
        path: &Path,
        stop_after: Option<usize>,
    ) -> Result<Optimized, Failure> {
        let builder = match stop_after {
            Some(n_rewrites) => self.reporting_builder().stop_after(n_rewrites),
            None => self.reporting_builder(),
        };
        let optimized = builder.optimize_from_file(path);
        let optimized = optimized.map_err(|source| Failure::model(path, source))?;
        warn(path, optimized.report().assumed_block_size.iter());
        warn(path, optimized.packing_warnings());
        Ok(optimized)
    }

    /// The same for a conversion: not optimized unless a level is given, at most up to `most`, without the `disabled` passes.
    pub(crate) fn convert(
        &self,
        path: &Path,
        most: Level,
        disabled: &[&str],
    ) -> Result<Optimized, Failure> {
        let level = self.level.unwrap_or(Level::Disable).min(most);
        let builder =
            self.reporting_builder().level(level).disable_optimizers(disabled.iter().copied());
        let optimized = builder.optimize_from_file(path);
        let optimized = optimized.map_err(|source| Failure::model(path, source))?;
        warn(path, optimized.packing_warnings());
        Ok(optimized)
    }

    /// The name of the level.
    pub(crate) fn level(&self) -> &'static str {
        let level = self.builder().chosen_level();
        LEVELS.iter().find(|(_, known)| *known == level).map_or("", |(word, _)| word)
    }

    /// The name of the instruction set that a session uses.
    pub(crate) fn isa(&self) -> &'static str {
        CpuProvider::new(self.builder().cpu_options()).map_or("", |provider| provider.isa().name())
    }

    /// The machine's peak performance with this instruction set.
    pub(crate) fn peak(&self, n_threads: usize) -> PeakPerformance {
        PeakPerformance::measure(self.isa.unwrap_or_default(), n_threads)
    }

    /// A session's settings: those of `--config`, overridden by those that have options.
    /// A pass that either disables is disabled.
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

    /// The same; prints its decisions if requested.
    fn reporting_builder(&self) -> SessionBuilder {
        let builder = self.builder();
        if self.verbose {
            print::detail(Omp::of_environment().decision(&builder.thread_count()));
        }
        builder
    }
}

/// Sets an option that was given.
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

/// Parses one of these words; any other is an error that lists them.
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
