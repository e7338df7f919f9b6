//! Cases of the differential test with unusual numbers among their operands: a kernel gives what `eval` gives.
//!
//! ```text
//! operands:     one element in a hundred is NaN, an infinity, a denormal number, −0 or the largest number
//! NaN of eval → NaN        ±∞ of eval → ±∞        a number of eval → within the bound of the case, or flushed to zero
//! ```
//! So a NaN does not spread to results that do not depend on it, by padding, a transformed filter or a tail, and none
//! disappears.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ort_ep::Reference;
use ort_session::{IsaChoice, Level, ModelBytes, Outputs, Session, SessionBuilder, Value};
use ort_tensor::{DType, Element, Number, Tensor, TensorError, with_dtype};

use super::case::{Filling, Model};
use super::check::numbers;
use super::data;
use super::draw::Draw;
use super::families::{FAMILIES, case_of};

/// An unusual number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unusual {
    /// Not a number.
    Nan,
    /// Positive infinity.
    Infinity,
    /// Negative infinity.
    NegativeInfinity,
    /// A denormal number of f32.
    Denormal,
    /// Negative zero.
    NegativeZero,
}

impl Unusual {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Nan, Self::Infinity, Self::NegativeInfinity, Self::Denormal, Self::NegativeZero];

    /// Whether it is a finite number.
    pub const fn is_finite(self) -> bool {
        self.number().is_finite()
    }

    const fn number(self) -> f64 {
        match self {
            Self::Nan => f64::NAN,
            Self::Infinity => f64::INFINITY,
            Self::NegativeInfinity => f64::NEG_INFINITY,
            Self::Denormal => 1e-40,
            Self::NegativeZero => -0.0,
        }
    }

    const fn filling(self) -> Filling {
        let tensor = match self {
            Self::Nan => filled::<0>,
            Self::Infinity => filled::<1>,
            Self::NegativeInfinity => filled::<2>,
            Self::Denormal => filled::<3>,
            Self::NegativeZero => filled::<4>,
        };
        Filling { tensor, is_constant: data::is_constant }
    }
}

/// The distance of unusual elements, a prime.
const STEP: usize = 101;

/// The tensor of this name, with some elements replaced.
fn filled<const KIND: usize>(
    name: &str,
    dtype: DType,
    shape: &[usize],
) -> Result<Tensor, TensorError> {
    let plain = data::tensor(name, dtype, shape)?;
    if !dtype.is_float() {
        return Ok(plain);
    }
    let number = Unusual::ALL[KIND].number();
    with_dtype!(dtype, number, T => replaced::<T>(&plain, number), else => Ok(plain))
}

fn replaced<T: Element + Number>(plain: &Tensor, number: f64) -> Result<Tensor, TensorError> {
    let mut elements = plain.as_slice::<T>()?.to_vec();
    // A short list, of scales for example, has one as well.
    let first = STEP.min(elements.len()) / 2;
    elements.iter_mut().skip(first).step_by(STEP).for_each(|x| *x = T::from_f64(number));
    Tensor::from_slice(plain.shape(), &elements)
}

/// Sessions may flush denormal numbers to zero, and do not say where: the smallest number that stays.
const FLUSHED: f64 = f32::MIN_POSITIVE as f64;

/// Runs a case of a family with unusual numbers on the best instruction set and without one, at the lowest and the
/// highest level.
///
/// # Errors
/// The first difference from `eval`, and the graph.
pub fn check_unusual(
    family: usize,
    seed: u64,
    budget: usize,
    unusual: Unusual,
) -> Result<(), String> {
    let case = case_of(&FAMILIES[family % FAMILIES.len()], &mut Draw::random(seed, budget));
    let model = case.filled(&unusual.filling())?;
    let reference = Session::builder().provider(Arc::new(Reference)).level(Level::Disable);
    // A number that is an index may be out of range.
    let Ok(expected) = outputs(reference, &model) else { return Ok(()) };
    for level in [Level::Disable, Level::All] {
        for isa in [IsaChoice::Best, IsaChoice::Generic] {
            let found = outputs(Session::builder().level(level).isa(isa), &model);
            let difference = found.and_then(|found| same(&found, &expected, &case.bounds));
            difference
                .map_err(|what| format!("{unusual:?}, {isa:?}, level {level}: {what}\n{case}"))?;
        }
    }
    Ok(())
}

fn outputs(builder: SessionBuilder, model: &Model) -> Result<Vec<Value>, String> {
    let run = || {
        let session = builder.threads(1).commit(ModelBytes::from_owner(model.bytes.clone()));
        let session = session.map_err(|error| error.to_string())?;
        let inputs: Vec<(&str, &Tensor)> =
            model.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        session.run(inputs).map(Outputs::into_values).map_err(|error| error.to_string())
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("panicked".to_owned()))
}

fn same(found: &[Value], expected: &[Value], bounds: &[f64]) -> Result<(), String> {
    for (i, ((found, expected), bound)) in found.iter().zip(expected).zip(bounds).enumerate() {
        let (found, expected) = match (found.as_tensor(), expected.as_tensor()) {
            (Ok(found), Ok(expected)) => (numbers(found)?, numbers(expected)?),
            _ => continue,
        };
        let is_off = |(found, expected): &(&f64, &f64)| {
            let is_same = found == expected || found.is_nan() && expected.is_nan();
            // A difference to NaN or to an infinity is never within the bound.
            let is_close = (*found - *expected).abs() <= bound + FLUSHED;
            !is_same && !is_close
        };
        let wrong = || found.iter().zip(&expected).filter(is_off);
        if let Some((at, _)) =
            found.iter().zip(&expected).enumerate().find(|(_, pair)| is_off(pair))
        {
            let (n, of) = (wrong().count(), found.len());
            return Err(format!(
                "output {i}: {n} of {of} elements differ; element {at} is {}, not {}",
                found[at], expected[at]
            ));
        }
    }
    Ok(())
}
