//! Cast, CastLike and BitCast: the same numbers, or the same bits, as another element type.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::elementwise::{only, shaped_like_first, unsupported};
use crate::infer::folded;

mod convert;
mod narrow;
mod quick;
mod text;
mod wide;

#[cfg(test)]
mod tests;

pub use narrow::{Narrowing, RoundMode};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "BitCast",
        versions: (26, 26),
        types: has_bits,
        build: BitCast::build,
    },
    OpDef { domain: "", name: "Cast", versions: (6, 28), types: is_castable, build: Cast::build },
    OpDef {
        domain: "",
        name: "CastLike",
        versions: (15, 25),
        types: is_castable,
        build: CastLike::build,
    },
];

/// Cast: `y[i] = x[i]` as the type `to`. Any types except complex.
///
/// - To a float: the nearest value, ties to even; ±∞ beyond the range.
/// - From float to integer: toward zero. Beyond the range the standard leaves the value open; it is that of ONNX
///   Runtime on x86: 32 and 64 bits give the smallest signed value, fewer bits
///   are the low ones of the 32-bit result.
/// - From integer to integer: the low bits.
/// - To bool: whether it is not zero (NaN is not).
/// - From a string: a decimal number, `INF`, `+INF`, `-INF` or `NaN` in any case; others are an
///   error. To a string: floats with eight significant digits, booleans as `0` and `1`.
///
/// Source: ONNX operator set, Cast-28 (without its 6-bit floats); text as ONNX Runtime 1.31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// The type of the result.
    pub to: DType,
    /// The rounding of 8-bit floats.
    pub narrowing: Narrowing,
}

/// CastLike: as [`Cast`] to the type of input 1.
///
/// Source: ONNX operator set, CastLike-25.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastLike {
    /// The rounding of 8-bit floats.
    pub narrowing: Narrowing,
}

/// BitCast: the bits of `x[i]` as an element of the type `to`, which has the same size. Not for strings.
///
/// Source: ONNX operator set, BitCast-26.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitCast {
    /// The type of the result.
    pub to: DType,
}

impl Cast {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let to = target(spec)?;
        if !is_castable(to) {
            return Err(OpError::AttributeValue { name: "to", found: to.to_string() });
        }
        Ok(Arc::new(Self { to, narrowing: Narrowing::of_node(spec)? }))
    }
}

impl Operator for Cast {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_castable)?;
        Ok(folded(self, inputs, vec![shaped_like_first(inputs, self.to)?]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        convert::convert(x, only(outputs)?.tensor(self.to, x.shape())?, self.narrowing)
    }
}

impl CastLike {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { narrowing: Narrowing::of_node(spec)? }))
    }
}

impl Operator for CastLike {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_castable)?;
        Ok(vec![shaped_like_first(inputs, inputs.dtype(1, is_castable)?)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, to) = (inputs.tensor(0)?, inputs.tensor(1)?.dtype());
        convert::convert(x, only(outputs)?.tensor(to, x.shape())?, self.narrowing)
    }
}

impl BitCast {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { to: target(spec)? }))
    }

    fn check(self, from: DType) -> Result<(), OpError> {
        if from.bits() == self.to.bits() && has_bits(from) {
            return Ok(());
        }
        Err(unsupported(0, from))
    }
}

impl Operator for BitCast {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        self.check(inputs.dtype(0, has_bits)?)?;
        Ok(vec![shaped_like_first(inputs, self.to)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        self.check(x.dtype())?;
        let y = only(outputs)?.tensor(self.to, x.shape())?.into_bytes();
        if let (Some(y), Some(x)) = (y, x.as_bytes()) {
            y.copy_from_slice(x);
        }
        Ok(())
    }
}

/// The attribute `to`.
fn target(spec: &NodeSpec<'_>) -> Result<DType, OpError> {
    spec.dtype("to")?.ok_or(OpError::MissingAttribute { name: "to" })
}

pub(super) const fn is_castable(dtype: DType) -> bool {
    !matches!(dtype, DType::Complex64 | DType::Complex128)
}

fn has_bits(dtype: DType) -> bool {
    dtype != DType::String
}
