//! What is applied to the results of a product or a convolution.

use ort_kernels::{Activation, Isa};
use ort_ops::activation::Activation as Function;

/// The activation of the epilogue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Epilogue {
    /// Applied while the results are in registers.
    Fused(Activation),
    /// Applied element by element afterwards: rare functions.
    After(Function),
}

impl Epilogue {
    /// The part that the kernel itself applies.
    pub(crate) const fn fused(self) -> Activation {
        match self {
            Self::Fused(activation) => activation,
            Self::After(_) => Activation::None,
        }
    }

    /// The activation times `scale`, plus `shift`, with the same bits as three separate operations, if
    /// kernels can fuse that.
    pub(crate) fn scaled(self, scale: f32, shift: f32) -> Option<Self> {
        match self {
            Self::Fused(activation) => activation.scaled(scale, shift).map(Self::Fused),
            Self::After(_) => None,
        }
    }

    /// Applies what the kernel did not fuse to finished results.
    pub(crate) fn finish(self, results: &mut [f32]) {
        if let Self::After(function) = self {
            #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
            results.iter_mut().for_each(|y| *y = function.apply(f64::from(*y)) as f32);
        }
    }

    /// Applies the whole activation to results of a kernel that fused none of it.
    pub(crate) fn apply(self, isa: Isa, results: &mut [f32]) {
        self.fused().apply(isa, results);
        self.finish(results);
    }
}

impl From<Function> for Epilogue {
    fn from(function: Function) -> Self {
        Self::Fused(match function {
            Function::None => Activation::None,
            Function::Relu => Activation::Relu,
            Function::LeakyRelu { alpha } => Activation::LeakyRelu { alpha },
            Function::Tanh => Activation::Tanh,
            Function::Sigmoid => Activation::Sigmoid,
            Function::Clip { min, max } => Activation::Clip { min, max },
            Function::HardSigmoid { alpha, beta } => Activation::HardSigmoid { alpha, beta },
            Function::HardSwish => Activation::HardSwish,
            Function::QuickGelu { alpha } => Activation::Silu { alpha },
            _ => return Self::After(function),
        })
    }
}
