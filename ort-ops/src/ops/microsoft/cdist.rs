//! CDist: the distances between the rows of two matrices.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace};

use crate::floats::{read, write};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "CDist",
    versions: (1, 1),
    types: DType::is_float,
    build: CDist::build,
}];

/// CDist: `y[m, k] = Σ (a[m, n] − b[k, n])²`, or its square root; `a`: `[M, N]` and `b`: `[K, N]` of
/// one float type. Summed in double precision and rounded once.
///
/// Source: com.microsoft, CDist-1 (ONNX Runtime 1.31), whose kernels support only these two
/// metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CDist {
    /// Whether distances are squared.
    pub is_squared: bool,
}

impl CDist {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let is_squared = match spec.string("metric")? {
            None | Some("sqeuclidean") => true,
            Some("euclidean") => false,
            Some(found) => {
                let found = found.to_owned();
                return Err(OpError::AttributeValue { name: "metric", found });
            }
        };
        Ok(Arc::new(Self { is_squared }))
    }
}

impl Operator for CDist {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, dtype)?;
        // bounded: a constant
        let mut rows = Vec::with_capacity(2);
        // bounded: a constant
        let mut columns = Vec::with_capacity(2);
        for index in 0..2 {
            match inputs.fact(index)?.dims() {
                // bounded: a constant
                None => return Ok(vec![Fact::tensor(dtype, vec![ort_graph::Dim::Unknown; 2])]),
                Some([m, n]) => {
                    rows.push(m.clone());
                    columns.push(n);
                }
                Some(dims) => return Err(no_matrix(index, dims.len())),
            }
        }
        match columns[..] {
            [a, b] if a.unify(b).is_none() => {
                Err(different(a.known().unwrap_or(0), b.known().unwrap_or(0)))
            }
            _ => Ok(vec![Fact::tensor(dtype, rows)]),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let &[m, n] = a.shape() else { return Err(no_matrix(0, a.shape().len())) };
        let &[k, b_columns] = b.shape() else { return Err(no_matrix(1, b.shape().len())) };
        if n != b_columns {
            return Err(different(n, b_columns));
        }
        let n_distances = m.checked_mul(k).ok_or(OpError::TooLarge)?;
        let mut y = crate::accumulate::zeros::<f64>(n_distances)?;
        let (a_data, b_data) = (read(a)?, read(b)?);
        // Rows without columns leave no distance between them.
        let a_rows = a_data.chunks_exact(n.max(1));
        let mut pace = Pace::new();
        for (a, y) in a_rows.zip(y.chunks_exact_mut(k.max(1))) {
            for (b, y) in b_data.chunks_exact(n.max(1)).zip(y) {
                pace.go(n)?;
                let squared: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
                *y = if self.is_squared { squared } else { squared.sqrt() };
            }
        }
        write(outputs, 0, a.dtype(), &[m, k], &y)
    }
}

fn no_matrix(index: usize, found: usize) -> OpError {
    OpError::InputRank { index, expected: "2", found }
}

fn different(left: usize, right: usize) -> OpError {
    OpError::Shapes { what: "columns of two matrices", left: vec![left], right: vec![right] }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn run(metric: &str, a: Tensor, b: Tensor) -> Result<Tensor, String> {
        let case = Case::new("CDist", 1).domain("com.microsoft");
        case.attr("metric", Attr::String(metric.into())).tensor(&[a, b])
    }

    #[test]
    fn every_row_has_a_distance_to_every_other() {
        let a = || tensor(&[2, 2], &[0_f32, 0.0, 3.0, 4.0]);
        let b = || tensor(&[3, 2], &[0_f32, 0.0, 0.0, 8.0, 6.0, 0.0]);
        let squared = [0_f32, 64.0, 36.0, 25.0, 25.0, 25.0];
        assert_eq!(run("sqeuclidean", a(), b()), Ok(tensor(&[2, 3], &squared)));
        let distances = squared.map(f32::sqrt);
        assert_eq!(run("euclidean", a(), b()), Ok(tensor(&[2, 3], &distances)));
        assert!(run("cosine", a(), b()).is_err());
    }

    #[test]
    fn empty_rows_are_at_the_same_place() {
        let empty = |n: usize| tensor::<f64>(&[n, 0], &[]);
        assert_eq!(run("euclidean", empty(2), empty(1)), Ok(tensor(&[2, 1], &[0_f64; 2])));
        assert_eq!(run("euclidean", empty(2), empty(0)), Ok(tensor::<f64>(&[2, 0], &[])));
        assert!(run("euclidean", empty(2), tensor(&[1, 1], &[1_f64])).is_err());
        assert!(run("euclidean", empty(2), tensor(&[1], &[1_f64])).is_err());
    }
}
