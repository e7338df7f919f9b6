//! Element-wise functions that a product or a convolution applies to its results while they are
//! in cache.

use crate::Isa;
use crate::epilogue::Epilogue;
use crate::vec;

/// `y = f(x)` for every element.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Activation {
    /// `x`.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `x` if `x ≥ 0`, else `alpha·x`.
    LeakyRelu {
        /// The slope below zero.
        alpha: f32,
    },
    /// `min(max(x, min), max)`.
    Clip {
        /// The least result.
        min: f32,
        /// The greatest result.
        max: f32,
    },
    /// `min(max(alpha·x + beta, 0), 1)`.
    HardSigmoid {
        /// The slope.
        alpha: f32,
        /// The value at zero.
        beta: f32,
    },
    /// `x·min(max(x/6 + 1/2, 0), 1)`.
    HardSwish,
    /// `scale·max(x, 0) + shift`.
    ScaledRelu {
        /// The factor of the result.
        scale: f32,
        /// The summand of the result.
        shift: f32,
    },
    /// `scale·HardSwish(x) + shift`.
    ScaledHardSwish {
        /// The factor of the result.
        scale: f32,
        /// The summand of the result.
        shift: f32,
    },
    /// `1 / (1 + exp(−x))`.
    Sigmoid,
    /// `tanh(x)`.
    Tanh,
    /// `x/2·(1 + erf(x/√2))`.
    Gelu,
    /// `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
    GeluTanh,
    /// `x / (1 + exp(−alpha·x))`: SiLU for `alpha = 1`, QuickGelu for 1.702.
    Silu {
        /// The factor inside the sigmoid.
        alpha: f32,
    },
}

impl Activation {
    /// The bounds of a function that only clamps. NaN stays NaN.
    #[must_use]
    pub fn as_clamp(self) -> Option<(f32, f32)> {
        match self {
            Self::None => Some((f32::NEG_INFINITY, f32::INFINITY)),
            Self::Relu => Some((0.0, f32::INFINITY)),
            Self::Clip { min, max } => Some((min, max)),
            _ => None,
        }
    }

    /// The epilogue of a register tile that applies this function before storing results.
    pub(crate) fn as_epilogue(self) -> Option<Epilogue> {
        let clamp = |(min, max)| Epilogue::Clamp { min, max };
        match self {
            Self::HardSwish => Some(Epilogue::HardSwish),
            Self::ScaledRelu { scale, shift } => Some(Epilogue::ScaledRelu { scale, shift }),
            Self::ScaledHardSwish { scale, shift } => {
                Some(Epilogue::ScaledHardSwish { scale, shift })
            }
            _ => self.as_clamp().map(clamp),
        }
    }

    /// `scale·f(x) + shift`, with the bits of the function, a product and a sum in sequence,
    /// if there is a function for it.
    #[must_use]
    pub fn scaled(self, scale: f32, shift: f32) -> Option<Self> {
        match self {
            Self::Relu => Some(Self::ScaledRelu { scale, shift }),
            Self::HardSwish => Some(Self::ScaledHardSwish { scale, shift }),
            _ => None,
        }
    }

    /// Applies the function to every element. NaN stays NaN; error bounds are those of the functions in
    /// [`vec`](mod@vec).
    pub fn apply(self, isa: Isa, x: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Relu => vec::clip(isa, x, 0.0, f32::INFINITY),
            Self::Clip { min, max } => vec::clip(isa, x, min, max),
            Self::LeakyRelu { alpha } => vec::leaky_relu(isa, x, alpha),
            Self::HardSigmoid { alpha, beta } => vec::hard_sigmoid(isa, x, alpha, beta),
            Self::HardSwish => vec::hard_swish(isa, x),
            Self::ScaledRelu { scale, shift } => vec::scaled_relu(isa, x, scale, shift),
            Self::ScaledHardSwish { scale, shift } => {
                vec::scaled_hard_swish(isa, x, scale, shift);
            }
            Self::Sigmoid => vec::sigmoid(isa, x),
            Self::Tanh => vec::tanh(isa, x),
            Self::Gelu => vec::gelu(isa, x),
            Self::GeluTanh => vec::gelu_tanh(isa, x),
            Self::Silu { alpha } => vec::silu(isa, x, alpha),
        }
    }
}
