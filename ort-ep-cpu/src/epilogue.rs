//! What a product or a convolution does to its results at the end.

use ort_kernels::{Activation, Isa};
use ort_ops::activation::Activation as Function;

/// The activation at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Epilogue {
    /// On the results while they are in registers.
    Fused(Activation),
    /// One by one afterwards: rare functions.
    After(Function),
}

impl Epilogue {
    /// What the kernel itself applies.
    pub(crate) const fn fused(self) -> Activation {
        match self {
            Self::Fused(activation) => activation,
            Self::After(_) => Activation::None,
        }
    }

    /// The activation times `scale`, plus `shift`, with the bits of all three in turn, if results
    /// can have that while they are in registers.
    pub(crate) fn scaled(self, scale: f32, shift: f32) -> Option<Self> {
        match self {
            Self::Fused(activation) => activation.scaled(scale, shift).map(Self::Fused),
            Self::After(_) => None,
        }
    }

    /// Applies to finished results what the kernel did not.
    pub(crate) fn finish(self, results: &mut [f32]) {
        if let Self::After(function) = self {
            #[expect(clippy::cast_possible_truncation, reason = "rounding is what is meant")]
            results.iter_mut().for_each(|y| *y = function.apply(f64::from(*y)) as f32);
        }
    }

    /// Applies the whole activation to results that no kernel has touched.
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
