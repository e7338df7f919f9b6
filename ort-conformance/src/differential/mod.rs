//! The differential test: random graphs of real sizes, on every kernel, instruction set, number of threads
//! and level, against the operators' own `eval`.
//!
//! Strips, tails of tiles, splits between threads and transformed filters only come into play when tensors
//! have 10^4 to 10^6 elements and channels are odd. A family draws such graphs, a [`Case`] is one of them, [`check`]
//! runs it, and failures are reduced. Two programs use it: the test `differential`, for two minutes with a fixed
//! seed, and the example `soak`, for hours (`cargo xtask soak`).

mod adversity;
mod case;
mod check;
mod coverage;
mod data;
mod draw;
mod families;
mod net;
mod shrink;

pub use self::adversity::{Unusual, check_unusual};
pub use self::case::Case;
pub(crate) use self::case::{Filling, Model};
pub(crate) use self::data::{is_constant, repeated};
use bytes::Bytes;
use ort_tensor::Tensor;

pub use self::check::{Failure, Setting, Ways, check};
pub use self::coverage::Coverage;
pub use self::draw::Draw;

use self::families::{FAMILIES, case_of};

/// A case that was drawn and run.
#[derive(Debug)]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// The largest ratio of error to bound, or what went wrong.
    pub result: Result<f64, Failure>,
    script: Vec<u64>,
    family: usize,
    budget: usize,
}

/// The names of the families.
pub fn families() -> Vec<&'static str> {
    FAMILIES.iter().map(|family| family.name).collect()
}

/// Draws a case of a family that takes about `budget` multiply-adds, and runs it in all configurations.
pub fn run_one(family: usize, seed: u64, budget: usize, coverage: &Coverage) -> Outcome {
    let family = family % FAMILIES.len();
    let mut draw = Draw::random(seed, budget);
    let case = case_of(&FAMILIES[family], &mut draw);
    let result = check(&case, Ways::All, coverage);
    Outcome { case, result, script: draw.taken().to_vec(), family, budget }
}

/// The `.ort` file of a case of a family, and inputs for it.
///
/// # Errors
/// The message of the error in the case.
pub fn drawn(
    family: usize,
    seed: u64,
    budget: usize,
) -> Result<(Bytes, Vec<(String, Tensor)>), String> {
    let mut draw = Draw::random(seed, budget);
    let model = case_of(&FAMILIES[family % FAMILIES.len()], &mut draw).model()?;
    Ok((model.bytes, model.inputs))
}

impl Outcome {
    /// The smallest case like this one that still fails, and how.
    pub fn shrunk(&self) -> Option<(Case, Failure)> {
        let failure = self.result.as_ref().err()?;
        shrink::shrink(&FAMILIES[self.family], (&self.script, self.budget), failure.setting)
    }
}
