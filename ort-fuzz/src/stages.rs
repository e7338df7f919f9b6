//! What a program does with a model: load, run, save, load again, under limits.

use std::time::Duration;

use bytes::Bytes;
use ort_session::{
    DType, Dim, Level, LoadLimits, ModelBytes, RunError, RunLimits, RunOptions, Session,
    SessionBuilder, SessionError, Tensor, Type,
};
use ort_testing::Rng;

use crate::attack::Outcome;
use crate::model;

/// The memory limit of loading and of a run.
pub(crate) const LIMIT: usize = 64 << 20;
const MAX_TIME: Duration = Duration::from_millis(500);
/// Memory allowed in all: the limits, and as much again, since some allocations are counted afterwards.
pub(crate) const MAX_BYTES: usize = 2 * LIMIT;
/// Processor time allowed in all: a load, a run, and 2 s.
pub(crate) const MAX_PROCESSOR_TIME: Duration = Duration::from_secs(3);
/// Elements of a generated input.
const MAX_ELEMENTS: usize = 1 << 16;

/// The optimization levels.
pub(crate) const LEVELS: [Level; 5] =
    [Level::Disable, Level::Basic, Level::Extended, Level::Layout, Level::All];

/// A session with limits.
pub(crate) fn builder(level: Level) -> SessionBuilder {
    let limits =
        LoadLimits { max_bytes: Some(LIMIT), max_time: Some(MAX_TIME), ..LoadLimits::default() };
    Session::builder().level(level).threads(1).load_limits(limits)
}

/// A run with limits.
pub(crate) fn options() -> RunOptions {
    RunOptions::new().limits(RunLimits {
        max_bytes: Some(LIMIT),
        max_time: Some(MAX_TIME),
        max_iterations: Some(1000),
    })
}

/// Loads, saves, loads again and runs.
pub(crate) fn stages(
    builder: impl Fn(Level) -> SessionBuilder,
    bytes: Vec<u8>,
    rng: &mut Rng,
) -> Outcome {
    let level = LEVELS[rng.index(LEVELS.len())];
    let model = ModelBytes::from_owner(Bytes::from(bytes));
    let Ok(optimized) = builder(level).optimize(model) else { return Outcome::Rejected };
    // A saved model loads again, unless it was only just within the limits.
    let saved = if level < Level::All { optimized.to_bytes().ok() } else { None };
    let Ok(session) = optimized.commit() else { return Outcome::Rejected };
    if let Some(saved) = saved
        && let Err(error) = builder(Level::Disable).commit(ModelBytes::from_vec(saved))
        && !matches!(error, SessionError::Limit(_))
    {
        return Outcome::Found(format!("saved at level {level}, it does not load: {error}"));
    }
    match run(&session, rng) {
        Some(Ok(())) => Outcome::Accepted,
        _ => Outcome::Rejected,
    }
}

/// A run on small inputs; `None` if they cannot be generated.
pub(crate) fn run(session: &Session, rng: &mut Rng) -> Option<Result<(), RunError>> {
    let descriptions = session.inputs();
    let mut inputs = Vec::new();
    for input in &descriptions {
        let Type::Tensor(tensor) = &input.ty else { return None };
        inputs.push((input.name.as_str(), generated(tensor.dtype, tensor.dims.as_deref(), rng)?));
    }
    let inputs: Vec<_> = inputs.iter().map(|(name, tensor)| (*name, tensor)).collect();
    Some(session.run_with(inputs, &options()).map(drop))
}

/// A tensor of this type: free dimensions are small, elements are numbers of any size.
pub(crate) fn generated(dtype: DType, dims: Option<&[Dim]>, rng: &mut Rng) -> Option<Tensor> {
    let free = [0, 1, 2, 3];
    let dims = dims.unwrap_or_default().iter();
    let shape: Vec<usize> =
        dims.map(|dim| dim.known().unwrap_or_else(|| free[rng.index(4)])).collect();
    let n = shape.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
    let n = n.filter(|&n| n <= MAX_ELEMENTS)?;
    if dtype == DType::String {
        let texts = ["", "a", "1.5", "\u{e4}", "NaN"];
        let texts = (0..n).map(|_| texts[rng.index(texts.len())].to_owned());
        return Tensor::from_strings(&shape, texts.collect()).ok();
    }
    if dtype == DType::I64 {
        let numbers: Vec<i64> = (0..n).map(|_| model::extreme(rng)).collect();
        return Tensor::from_slice(&shape, &numbers).ok();
    }
    let mut tensor = Tensor::zeros(dtype, &shape).ok()?;
    if let Some(bytes) = tensor.view_mut().into_bytes() {
        bytes.iter_mut().for_each(|byte| *byte = rng.next_u64().to_le_bytes()[0]);
    }
    Some(tensor)
}
