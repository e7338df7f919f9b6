//! Nodes whose output is a formula of the elements at the same position.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::{Array, Cell, Expected, Sample, groups};

impl Sample {
    /// A node whose output has type and shape of the operand, and in it each cell mapped: what is
    /// no float is exact, floats as [`Expected::rounded`] says.
    pub(super) fn mapped(
        x: &Tensor,
        ulps_of_double: f64,
        f: impl Fn(&Cell) -> Cell + 'static,
    ) -> Self {
        let operand = x.clone();
        Self::new(&[x], move || {
            Expected::rounded(operand.dtype(), Array::of(&operand).map(&f), ulps_of_double)
        })
    }

    /// A node whose output has elements of type `dtype`, each made by `f` of those that broadcasting
    /// puts in its place; floats as [`Expected::rounded`] says, within an ULP also as doubles.
    pub(super) fn combined(
        operands: &[Tensor],
        dtype: DType,
        f: impl Fn(&[&Cell]) -> Cell + 'static,
    ) -> Self {
        let arrays: Vec<_> = operands.iter().map(Array::of).collect();
        Self::new(&operands.iter().collect::<Vec<_>>(), move || {
            let shape = groups::broadcast(arrays.iter().map(|array| &array.shape[..]));
            let y = Array::from_fn(&shape, |i| {
                f(&arrays.iter().map(|array| array.at_broadcast(i)).collect::<Vec<_>>())
            });
            Expected::rounded(dtype, y, 1.0)
        })
    }

    /// An attribute that may be absent.
    pub(super) fn maybe(self, name: &str, attr: Option<Attr>) -> Self {
        match attr {
            Some(attr) => self.attr(name, attr),
            None => self,
        }
    }
}
