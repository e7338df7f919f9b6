//! The epilogue of a register tile: the activations that are cheaper
//! before results are stored than in another pass.

use crate::isa::GENERIC_FMA;
use crate::vec::{clamp, hard_swish_of};

/// A function of each result. NaN stays NaN, and the bits are those of [`Activation`](crate::Activation).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Epilogue {
    /// `min(max(x, min), max)`.
    Clamp { min: f32, max: f32 },
    /// `x·min(max(x/6 + 1/2, 0), 1)`.
    HardSwish,
    /// `scale·max(x, 0) + shift`, rounded after each.
    ScaledRelu { scale: f32, shift: f32 },
    /// `scale·HardSwish(x) + shift`, rounded after each.
    ScaledHardSwish { scale: f32, shift: f32 },
}

impl Epilogue {
    /// The identity.
    pub(crate) const NONE: Self = Self::Clamp { min: f32::NEG_INFINITY, max: f32::INFINITY };

    /// Applies it to one result, with baseline instructions only.
    #[inline(always)]
    pub(crate) fn of(self, x: f32) -> f32 {
        let hard_swish = hard_swish_of::<GENERIC_FMA>;
        match self {
            Self::Clamp { min, max } => clamp(x, min, max),
            Self::HardSwish => hard_swish(x),
            Self::ScaledRelu { scale, shift } => clamp(x, 0.0, f32::INFINITY) * scale + shift,
            Self::ScaledHardSwish { scale, shift } => hard_swish(x) * scale + shift,
        }
    }
}

/// Expands `$each!($args, x => …)` once for each function, where `x` is a register of results and `…`
/// its function; runs the one that `$epilogue` selects.
///
/// The invocation must provide the instructions `splat`, `zero`, `add`, `mul`, `fmadd`, `min` and `max`, of
/// which the last two return their second operand when either is NaN, so that it passes through.
macro_rules! by_epilogue {
    ($epilogue:expr, $each:ident! $args:tt) => {
        match $epilogue {
            Epilogue::Clamp { min: low, max: high } => {
                let (low, high) = (splat(low), splat(high));
                $each!($args, x => min(high, max(low, x)));
            }
            Epilogue::HardSwish => {
                let (sixth, half, one) = (splat(1.0 / 6.0), splat(0.5), splat(1.0));
                $each!($args, x => mul(x, min(one, max(zero(), fmadd(x, sixth, half)))));
            }
            Epilogue::ScaledRelu { scale, shift } => {
                let (scale, shift) = (splat(scale), splat(shift));
                $each!($args, x => add(mul(max(zero(), x), scale), shift));
            }
            Epilogue::ScaledHardSwish { scale, shift } => {
                let (sixth, half, one) = (splat(1.0 / 6.0), splat(0.5), splat(1.0));
                let (scale, shift) = (splat(scale), splat(shift));
                $each!($args, x => {
                    let hard_swish = mul(x, min(one, max(zero(), fmadd(x, sixth, half))));
                    add(mul(hard_swish, scale), shift)
                });
            }
        }
    };
}
