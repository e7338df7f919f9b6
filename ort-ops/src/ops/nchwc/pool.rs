//! MaxPool, AveragePool, GlobalMaxPool and GlobalAveragePool in NCHWc.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use super::detour;
use crate::infer::WindowAttrs;
use crate::ops::average_pool::AveragePool;
use crate::ops::global_pool::GlobalPool;
use crate::ops::max_pool::MaxPool;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("MaxPool", |spec| {
        let is_column_major = spec.flag("storage_order", false)?;
        pool(spec, MaxPool { window: read_window(spec)?, is_column_major })
    }),
    def("AveragePool", |spec| {
        let counts_padding = spec.flag("count_include_pad", false)?;
        pool(spec, AveragePool { window: read_window(spec)?, counts_padding })
    }),
    def("GlobalMaxPool", |spec| pool(spec, GlobalPool::Max)),
    def("GlobalAveragePool", |spec| pool(spec, GlobalPool::Average)),
];

type Build = fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>;

const fn def(name: &'static str, build: Build) -> OpDef {
    OpDef { domain: "com.microsoft.nchwc", name, versions: (1, 1), types: is_allowed, build }
}

/// A pool in NCHWc: [`MaxPool`] (without indices), [`AveragePool`] or
/// [`GlobalPool`]. `x`: `[N, C, H, W]` f32, in NCHWc, as is `y`.
///
/// Source: com.microsoft.nchwc, MaxPool-1, AveragePool-1, GlobalMaxPool-1 and GlobalAveragePool-1
/// (ONNX Runtime 1.31).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool<P> {
    /// The same pool in NCHW.
    pub plain: P,
    /// The block size, if stated.
    pub block_size: Option<usize>,
}

fn pool<P: Operator>(spec: &NodeSpec<'_>, plain: P) -> Result<Arc<dyn Operator>, OpError> {
    Ok(Arc::new(Pool { plain, block_size: detour::read_block_size(spec)? }))
}

fn read_window(spec: &NodeSpec<'_>) -> Result<WindowAttrs, OpError> {
    let is_ceil = spec.flag("ceil_mode", false)?;
    let window = WindowAttrs { is_ceil, ..WindowAttrs::read(spec)? };
    if window.kernel.is_none() {
        return Err(OpError::MissingAttribute { name: "kernel_shape" });
    }
    Ok(window)
}

impl<P: Operator> Operator for Pool<P> {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_allowed)?;
        let mut facts = self.plain.infer(inputs)?;
        facts.truncate(1);
        Ok(facts)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        detour::compute(&self.plain, self.block_size, inputs, &mut outputs[0])
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        self.plain.flops(inputs, outputs)
    }
}

fn is_allowed(dtype: DType) -> bool {
    dtype == DType::F32
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::blocked::blocked;
    use crate::case::{Case, tensor};

    #[test]
    fn every_pool_gives_what_the_plain_one_gives() {
        let x: Vec<f32> = (0..2 * 4 * 5 * 3).map(|i| (i * 7 % 31) as f32).collect();
        let x = tensor(&[2, 4, 5, 3], &x);
        let window = |case: Case| {
            let case = case.attr("kernel_shape", Attr::Ints(vec![3, 2]));
            let case = case.attr("pads", Attr::Ints(vec![1, 0, 1, 1]));
            case.attr("strides", Attr::Ints(vec![2, 1]))
        };
        let alike: fn(Case) -> Case = |case| case;
        let windowed: &dyn Fn(Case) -> Case = &window;
        for (name, version, attrs) in [
            ("MaxPool", 12, windowed),
            ("AveragePool", 19, windowed),
            ("GlobalMaxPool", 1, &alike),
            ("GlobalAveragePool", 1, &alike),
        ] {
            let plain = attrs(Case::new(name, version));
            let y = plain.tensor(std::slice::from_ref(&x)).unwrap();
            let case = attrs(Case::new(name, 1).domain("com.microsoft.nchwc"));
            let in_blocks = blocked(x.view(), 2).unwrap();
            let error = case.tensor(std::slice::from_ref(&in_blocks)).unwrap_err();
            assert_eq!(error, "attribute `block_size` is missing", "{name}");
            let found = case.attr("block_size", Attr::Int(2)).tensor(&[in_blocks]);
            assert_eq!(found, Ok(blocked(y.view(), 2).unwrap()), "{name}");
        }
    }

    #[test]
    fn a_pool_without_a_window_is_refused() {
        let case = Case::new("MaxPool", 1).domain("com.microsoft.nchwc");
        let error = case.tensor(&[tensor(&[1, 2, 1, 1], &[1_f32, 2.0])]).unwrap_err();
        assert_eq!(error, "attribute `kernel_shape` is missing");
    }
}
