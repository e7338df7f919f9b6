//! `SVMClassifier` and `SVMRegressor`: support vector machines.

mod classifier;
mod coupling;
mod kernel;
mod regressor;

use ort_graph::OpDef;

use crate::features::is_feature;

pub use classifier::{Border, Decision, Pairwise, SvmClasses, SvmClassifier};
pub use kernel::{Kernel, KernelKind, SupportVectors};
pub use regressor::{SvmRegressor, SvmTarget};

/// The definitions of this directory.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "ai.onnx.ml",
        name: "SVMClassifier",
        versions: (1, 1),
        types: is_feature,
        build: SvmClassifier::build,
    },
    OpDef {
        domain: "ai.onnx.ml",
        name: "SVMRegressor",
        versions: (1, 1),
        types: is_feature,
        build: SvmRegressor::build,
    },
];

#[cfg(test)]
mod tests;
