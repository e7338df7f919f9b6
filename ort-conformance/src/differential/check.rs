//! Runs a case in every configuration and compares with the operators' own `eval`.

use std::collections::HashSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ort_ep::Reference;
use ort_session::{
    CpuOptions, CpuProvider, IsaChoice, Level, ModelBytes, Outputs, Session, SessionBuilder,
};
use ort_tensor::{DType, Number, Tensor, Value, with_dtype};

use super::case::{Case, Model};
use super::coverage::{Counted, Coverage};

const ISAS: [IsaChoice; 4] =
    [IsaChoice::Amx, IsaChoice::Avx512, IsaChoice::Avx2, IsaChoice::Generic];
const N_THREADS: [usize; 3] = [1, 2, 3];

/// One way to run a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The instruction set of the kernels.
    pub isa: IsaChoice,
    /// The optimization level.
    pub level: Level,
    /// The number of threads.
    pub n_threads: usize,
}

/// What went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The configuration that failed; `None` for `Reference`.
    pub setting: Option<Setting>,
    /// The message.
    pub what: String,
}

/// The configurations to run.
#[derive(Clone, Copy, Debug)]
pub enum Ways {
    /// All that this machine supports.
    All,
    /// One.
    Only(Setting),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.setting {
            None => f.write_str("reference")?,
            Some(Setting { isa, level, n_threads }) => {
                write!(f, "{isa:?}, level {level}, {n_threads} threads")?;
            }
        }
        write!(f, ": {}", self.what)
    }
}

/// Runs a case, and returns the largest ratio of error to bound.
///
/// # Errors
/// The first failure.
pub fn check(case: &Case, ways: Ways, coverage: &Coverage) -> Result<f64, Failure> {
    let plain = |what| Failure { setting: None, what };
    let model = case.model().map_err(plain)?;
    let builder = Session::builder().provider(Arc::new(Reference)).level(Level::Disable).threads(1);
    let expected = caught(|| {
        let session = builder.commit(ModelBytes::from_owner(model.bytes.clone()));
        run(&session.map_err(|error| error.to_string())?, &model)
    });
    let expected = expected.map_err(plain)?;
    let mut most = 0.0_f64;
    for isa in ISAS.into_iter().filter(|isa| isa.resolve().is_ok()) {
        // Levels that give the same graph are run once.
        let mut seen = HashSet::new();
        for level in Level::ALL.iter().copied() {
            let settings = N_THREADS.map(|n_threads| Setting { isa, level, n_threads });
            let is_run = |setting: &Setting| match ways {
                Ways::All => true,
                Ways::Only(only) => only == *setting,
            };
            let settings: Vec<Setting> = settings.into_iter().filter(is_run).collect();
            let mut alike = SameBits { model: &model, coverage, seen: &mut seen, first: None };
            for setting in settings {
                let failure = |what| Failure { setting: Some(setting), what };
                let found = caught(|| alike.results(setting)).map_err(failure)?;
                let Some(found) = found else { break };
                most = most.max(compare(case, &found, &expected).map_err(failure)?);
            }
        }
    }
    Ok(most)
}

/// Runs that differ only in the number of threads, so that their results are equal bit by bit.
struct SameBits<'a> {
    model: &'a Model,
    coverage: &'a Coverage,
    /// The graphs that were run.
    seen: &'a mut HashSet<String>,
    first: Option<Vec<Value>>,
}

impl SameBits<'_> {
    /// The result of a session that runs twice, the second time in memory used by the first; `None` if its graph was
    /// run before.
    fn results(&mut self, setting: Setting) -> Result<Option<Vec<Value>>, String> {
        let optimized = setting.builder(self.coverage)?;
        let optimized = optimized.optimize(ModelBytes::from_owner(self.model.bytes.clone()));
        let optimized = optimized.map_err(|error| error.to_string())?;
        if self.first.is_none() && !self.seen.insert(optimized.text()) {
            return Ok(None);
        }
        let session = optimized.commit().map_err(|error| error.to_string())?;
        for _ in 0..2 {
            let found = run(&session, self.model)?;
            match &self.first {
                None => self.first = Some(found),
                Some(first) => same_bits(first, &found)?,
            }
        }
        Ok(self.first.clone())
    }
}

impl Setting {
    fn builder(self, coverage: &Coverage) -> Result<SessionBuilder, String> {
        let mut options = CpuOptions::default();
        (options.isa, options.max_threads) = (self.isa, Some(self.n_threads));
        let cpu = CpuProvider::new(options).map_err(|error| error.to_string())?;
        let watched = Counted { cpu, coverage: coverage.clone() };
        let builder = Session::builder().level(self.level).isa(self.isa).threads(self.n_threads);
        Ok(builder.provider(Arc::new(watched)))
    }
}

/// The result of `body`; a panic is an error.
fn caught<T>(body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}

fn run(session: &Session, model: &Model) -> Result<Vec<Value>, String> {
    let inputs: Vec<(&str, &Tensor)> =
        model.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    session.run(inputs).map(Outputs::into_values).map_err(|error| error.to_string())
}

fn same_bits(first: &[Value], found: &[Value]) -> Result<(), String> {
    for (i, (first, found)) in first.iter().zip(found).enumerate() {
        let bits =
            |value: &Value| value.as_tensor().map(|t| t.view().as_bytes().map(<[u8]>::to_vec));
        match (bits(first), bits(found)) {
            (Ok(a), Ok(b)) if a == b => {}
            _ => {
                return Err(format!(
                    "output {i}: not the same bits as with one thread, or in a second run"
                ));
            }
        }
    }
    Ok(())
}

/// The largest ratio of error to bound.
fn compare(case: &Case, found: &[Value], expected: &[Value]) -> Result<f64, String> {
    let mut most = 0.0_f64;
    for (i, ((found, expected), &bound)) in found.iter().zip(expected).zip(&case.bounds).enumerate()
    {
        let tensors = found.as_tensor().ok().zip(expected.as_tensor().ok());
        let (found, expected) = tensors.ok_or_else(|| format!("output {i} is no tensor"))?;
        if (found.dtype(), found.shape()) != (expected.dtype(), expected.shape()) {
            return Err(format!("output {i} is {:?}, not {:?}", found.shape(), expected.shape()));
        }
        let pairs = numbers(found)?.into_iter().zip(numbers(expected)?).enumerate();
        let (mut n_wrong, mut worst) = (0, (0.0, 0, 0.0, 0.0));
        for (at, (found, expected)) in pairs {
            let is_same = found == expected || found.is_nan() && expected.is_nan();
            let off = if is_same { 0.0 } else { (found - expected).abs() };
            // A difference to NaN is always an error.
            let is_close = off <= bound;
            n_wrong += usize::from(!is_close);
            if off > worst.0 || !is_close && n_wrong == 1 {
                worst = (off, at, found, expected);
            }
        }
        let (off, at, found, expected) = worst;
        if n_wrong > 0 {
            return Err(format!(
                "output {i}: {n_wrong} elements are off by more than {bound:e}; element {at} is \
                 {found}, not {expected}"
            ));
        }
        most = most.max(if bound > 0.0 { off / bound } else { 0.0 });
    }
    Ok(most)
}

pub(super) fn numbers(tensor: &Tensor) -> Result<Vec<f64>, String> {
    if tensor.dtype() == DType::Bool {
        let bytes = tensor.view().as_bytes().unwrap_or_default();
        return Ok(bytes.iter().copied().map(f64::from).collect());
    }
    with_dtype!(tensor.dtype(), number,
        T => Ok(tensor.as_slice::<T>().map_err(|error| error.to_string())?
            .iter().map(|&x| Number::to_f64(x)).collect()),
        else => Err(format!("no comparison of {}", tensor.dtype())))
}
