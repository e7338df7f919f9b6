//! Trilu: the upper or lower triangle of a matrix.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, move_elements};

use crate::infer::{folded, read_scalar};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Trilu",
        versions: (14, 14),
        types: DType::is_any,
        build: Trilu::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "Trilu",
        versions: (1, 1),
        types: DType::is_any,
        build: Trilu::build,
    },
];

/// Trilu: `y[…, i, j] = x[…, i, j]` where `j ≥ i + k` (upper) or `j ≤ i + k` (lower), else zero.
/// The diagonal `k` is the optional input 1, and 0 without it.
///
/// Source: ONNX operator set, Trilu-14; com.microsoft, Trilu-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trilu {
    /// Whether the upper triangle is kept.
    pub is_upper: bool,
}

impl Trilu {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { is_upper: spec.flag("upper", true)? }))
    }

    /// The columns of row `i` that are kept for the diagonal `k`.
    pub fn kept(self, i: usize, k: i64, n_columns: usize) -> std::ops::Range<usize> {
        let diagonal = i64::try_from(i).unwrap_or(i64::MAX).saturating_add(k);
        let clamp =
            |column: i64| usize::try_from(column.max(0)).map_or(n_columns, |c| c.min(n_columns));
        if self.is_upper {
            clamp(diagonal)..n_columns
        } else {
            0..clamp(diagonal.saturating_add(1))
        }
    }
}

impl Operator for Trilu {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_any)?;
        inputs.expect_dtype(1, DType::I64)?;
        let x = inputs.fact(0)?;
        if let Some(found @ 0..2) = x.rank() {
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found });
        }
        Ok(folded(self, inputs, vec![Fact { constant: None, ..x.clone() }]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let k = read_scalar(inputs, 1)?.unwrap_or(0);
        let &[.., rows, columns] = x.shape() else {
            let found = x.shape().len();
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found });
        };
        let y = outputs[0].tensor(x.dtype(), x.shape())?;
        if x.is_empty() {
            return Ok(());
        }
        Ok(move_elements!(x => y, |src, dst| {
            let pairs = src.chunks_exact(columns).zip(dst.chunks_exact_mut(columns));
            let mut pace = Pace::new();
            for (i, (from, to)) in pairs.enumerate() {
                pace.go(columns)?;
                let kept = self.kept(i % rows, k, columns);
                to.fill(Default::default());
                to[kept.clone()].clone_from_slice(&from[kept]);
            }
            Ok(())
        })?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn one_triangle_is_kept() {
        let x = tensor(&[2, 3], &[1_i8, 2, 3, 4, 5, 6]);
        let cases = [
            (1, 0, [1_i8, 2, 3, 0, 5, 6]),
            (1, 1, [0, 2, 3, 0, 0, 6]),
            (1, -1, [1, 2, 3, 4, 5, 6]),
            (1, i64::MAX, [0; 6]),
            (1, i64::MIN, [1, 2, 3, 4, 5, 6]),
            (0, 0, [1, 0, 0, 4, 5, 0]),
            (0, -1, [0, 0, 0, 4, 0, 0]),
            (0, i64::MAX, [1, 2, 3, 4, 5, 6]),
            (0, i64::MIN, [0; 6]),
        ];
        for (upper, k, expected) in cases {
            for domain in ["", "com.microsoft"] {
                let version = if domain.is_empty() { 14 } else { 1 };
                let case = Case::new("Trilu", version).domain(domain);
                let y =
                    case.attr("upper", Attr::Int(upper)).tensor(&[x.clone(), Tensor::scalar(k)]);
                assert_eq!(y, Ok(tensor(&[2, 3], &expected)), "upper {upper}, k {k}");
            }
        }
        let batches = tensor(&[2, 1, 2], &[1_i8, 2, 3, 4]);
        let y = Case::new("Trilu", 14).attr("upper", Attr::Int(0)).tensor(&[batches]);
        assert_eq!(y, Ok(tensor(&[2, 1, 2], &[1_i8, 0, 3, 0])));
        let empty = tensor::<i8>(&[0, 2, 2], &[]);
        assert_eq!(Case::new("Trilu", 14).tensor(std::slice::from_ref(&empty)), Ok(empty));
        assert!(Case::new("Trilu", 14).tensor(&[tensor(&[1], &[1_i8])]).is_err());
    }
}
