//! EngramGate: values multiplied by a gate computed from a key and a query.

// collects are bounded: into checked allocations

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, with_room};

use crate::floats;
use crate::infer::expect_dims;
use crate::ops::layer_normalization::standardize_rows;
use crate::ops::unary::sigmoid;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "EngramGate",
    versions: (1, 1),
    types: DType::is_float,
    build: EngramGate::build,
}];

/// EngramGate: `y = gate · value` with `gate = sigmoid(sign(dot) · √max(|dot|, 1e-6))` and `dot =
/// rms_norm(key) · rms_norm(query) / √H`.
///
/// Inputs: `key` and `query: [B, S, M, H]`, `value: [B, S, H]`, and the scales `[M, H]` of the norms
/// of keys, queries, and, for the second output, of `y`.
///
/// Source: com.microsoft, EngramGate-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngramGate {
    /// What is added to the means of squares.
    pub epsilon: f32,
}

impl EngramGate {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { epsilon: spec.float("epsilon")?.unwrap_or(1e-5) }))
    }

    fn normed(
        &self,
        mut x: Vec<f64>,
        inputs: Inputs<'_>,
        index: usize,
        [heads, size]: [usize; 2],
    ) -> Result<Vec<f64>, OpError> {
        let n = heads.checked_mul(size).ok_or(OpError::TooLarge)?;
        standardize_rows(&mut x, size, self.epsilon, false)?;
        let scale = floats::read_parameter(inputs, index, n)?;
        floats::with_period(&mut x, &scale, |x, scale| *x *= scale)?;
        Ok(x)
    }
}

impl Operator for EngramGate {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        (1..6).try_for_each(|i| inputs.expect_dtype(i, dtype))?;
        expect_dims(inputs, 0, &[const { Dim::Unknown }; 4])?;
        if let Some([batch, len, heads, size]) = inputs.fact(0)?.dims() {
            expect_dims(inputs, 1, &[batch, len, heads, size].map(Dim::clone))?;
            expect_dims(inputs, 2, &[batch, len, size].map(Dim::clone))?;
            (3..6).try_for_each(|i| expect_dims(inputs, i, &[heads, size].map(Dim::clone)))?;
        }
        // bounded: a constant
        Ok(vec![inputs.fact(0)?.ty.clone().into(); 2])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (key, query, value) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let &[batch, len, heads, size] = key.shape() else {
            let found = key.shape().len();
            return Err(OpError::InputRank { index: 0, expected: "4", found });
        };
        if query.shape() != key.shape() || value.shape() != [batch, len, size] {
            let (left, right) = (key.shape().to_vec(), value.shape().to_vec());
            return Err(OpError::Shapes { what: "keys, queries and values", left, right });
        }
        let key_norm = self.normed(floats::read(key)?, inputs, 3, [heads, size])?;
        let query_norm = self.normed(floats::read(query)?, inputs, 4, [heads, size])?;
        let value = floats::read(value)?;
        let (mut y, mut pace) = (with_room(key_norm.len())?, Pace::new());
        let rows = key_norm.chunks_exact(size.max(1)).zip(query_norm.chunks_exact(size.max(1)));
        for (i, (key, query)) in rows.enumerate() {
            pace.go(size)?;
            let dot: f64 = key.iter().zip(query).map(|(k, q)| k * q).sum();
            let dot = dot / (size as f64).sqrt();
            let sign = if dot == 0.0 { 0.0 } else { dot.signum() };
            let gate = sigmoid(sign * dot.abs().max(1e-6).sqrt());
            y.extend(value[i / heads * size..][..size].iter().map(|value| gate * value));
        }
        floats::write(outputs, 0, key.dtype(), key.shape(), &y)?;
        if !outputs.get(1).is_some_and(Output::is_wanted) {
            return Ok(());
        }
        let y = self.normed(y, inputs, 5, [heads, size])?;
        floats::write(outputs, 1, key.dtype(), key.shape(), &y)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn keys_that_fit_the_query_open_the_gate() {
        let case = |n| Case::new("EngramGate", 1).domain("com.microsoft").outputs(n);
        let case = |n| case(n).attr("epsilon", Attr::Float(0.0));
        // The first key is orthogonal to the query; the second is parallel to it.
        let key = tensor(&[1, 1, 2, 1], &[0_f32, 3.0]);
        let query = tensor(&[1, 1, 2, 1], &[1_f32, 1.0]);
        let value = tensor(&[1, 1, 1], &[8_f32]);
        let ones = tensor(&[2, 1], &[1_f32, 1.0]);
        let far = tensor(&[2, 1], &[1_f32, 1e6]);
        let key = [tensor(&[1, 1, 2, 1], &[1_f32, 3.0]), key];
        let inputs =
            |i: usize| [key[i].clone(), query.clone(), value.clone(), far.clone(), ones.clone()];
        let y = case(1).tensor(&inputs(0)).unwrap();
        assert_eq!(y.as_slice::<f32>().unwrap()[1], 8.0);
        let both = [&inputs(0)[..], &[tensor(&[2, 1], &[2_f32, -2.0])]].concat();
        let found = case(2).run(&both).unwrap();
        assert_eq!(found[1].as_tensor(), Ok(&tensor(&[1, 1, 2, 1], &[2_f32, -2.0])));
        assert!(case(2).run(&inputs(1)).is_err());
    }
}
