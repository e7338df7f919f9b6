//! Einsum: sums of products of tensors, over indices that an equation names.

// collects are bounded: by the rank and the letters of the equation

use std::slice;
use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, collected, with_dtype};

use crate::accumulate::Accumulate;
use crate::elementwise::{only, unsupported};
use crate::infer::{broadcast_dims, known_dims, known_shape, ranked_fact};

mod contract;
mod equation;

use contract::{Factor, contract, stride};
use equation::Label;
pub use equation::{Equation, Symbol};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Einsum",
    versions: (12, 28),
    types: DType::is_number,
    build: Einsum::build,
}];

/// Einsum: `y[output] = Σ Π xᵢ[termᵢ]` over all indices that the output does not name. Any number
/// of operands of one number type; dimensions of 1 broadcast. Floats are summed in double precision
/// and rounded once, integers wrap.
///
/// Operands are multiplied from left to right, each index summed as soon as no later operand needs
/// it.
///
/// Source: ONNX operator set, Einsum-28.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Einsum {
    /// The equation, read.
    pub equation: Equation,
}

/// An index of two operands' sum of products: its extent, and its strides, 0 where an operand lacks it or broadcasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its extent.
    pub len: usize,
    /// Its stride in each operand.
    pub strides: [usize; 2],
    /// Whether the result lacks it.
    pub is_summed: bool,
}

impl Einsum {
    /// The shape of the result and the indices of a sum of products of two operands: those of the result in its
    /// order, then the summed ones.
    ///
    /// # Errors
    /// If there are not two operands, or their shapes do not fit the equation.
    pub fn indices_of_pair(&self, shapes: [&[usize]; 2]) -> Result<(Shape, Vec<Index>), OpError> {
        if self.equation.inputs.len() != 2 {
            let found = self.equation.inputs.len();
            return Err(OpError::InputCount { expected: "two", found });
        }
        let dims = shapes.map(known_dims);
        let (labels, extents) = self.indices(&[&dims[0], &dims[1]])?;
        let result = self.equation.output_labels(&labels);
        let len = |label: Label| {
            let dim = extents.iter().find(|(other, _)| *other == label).map(|(_, dim)| dim);
            dim.and_then(Dim::known).unwrap_or(1)
        };
        let index = |label: Label, is_summed| Index {
            len: len(label),
            strides: [0, 1].map(|operand| stride(&labels[operand], shapes[operand], label)),
            is_summed,
        };
        let shape = result.iter().map(|&label| len(label)).collect();
        let summed = extents.iter().map(|(label, _)| *label).filter(|l| !result.contains(l));
        let of_result = result.iter().map(|&label| index(label, false));
        Ok((shape, of_result.chain(summed.map(|label| index(label, true))).collect()))
    }

    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        const NAME: &str = "equation";
        let text = spec.string(NAME)?.ok_or(OpError::MissingAttribute { name: NAME })?;
        let wrong = || OpError::AttributeValue { name: NAME, found: text.to_owned() };
        let equation = Equation::parse(text).ok_or_else(wrong)?;
        if equation.inputs.len() != spec.inputs.len() {
            let found = spec.inputs.len();
            return Err(OpError::InputCount { expected: "as many as terms", found });
        }
        Ok(Arc::new(Self { equation }))
    }

    /// The indices of each operand and the extent of each index.
    fn indices(&self, shapes: &[&[Dim]]) -> Result<(Vec<Vec<Label>>, Vec<(Label, Dim)>), OpError> {
        // bounded: as many as the node has
        let mut labels = Vec::with_capacity(shapes.len());
        let mut extents: Vec<(Label, Dim)> = Vec::new();
        for (index, (term, dims)) in self.equation.inputs.iter().zip(shapes).enumerate() {
            let wrong =
                || OpError::InputRank { index, expected: "that of its term", found: dims.len() };
            let own = Equation::labels(term, dims.len()).ok_or_else(wrong)?;
            for (&label, dim) in own.iter().zip(*dims) {
                match extents.iter_mut().find(|(other, _)| *other == label) {
                    Some((_, extent)) => {
                        let common = broadcast_dims(slice::from_ref(extent), slice::from_ref(dim))?;
                        *extent = common.into_iter().next().unwrap_or(Dim::Unknown);
                    }
                    None => extents.push((label, dim.clone())),
                }
            }
            labels.push(own);
        }
        Ok((labels, extents))
    }

    fn run<T: Accumulate>(
        &self,
        inputs: Inputs<'_>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let n = self.equation.inputs.len();
        let shapes: Result<Vec<Dims>, OpError> =
            (0..n).map(|i| Ok(known_dims(inputs.tensor(i)?.shape()))).collect();
        let shapes = shapes?;
        let (labels, extents) = self.indices(&shapes.iter().map(|s| &s[..]).collect::<Vec<_>>())?;
        let result = self.equation.output_labels(&labels);
        let dims: Vec<Dim> = extents.iter().map(|(_, dim)| dim.clone()).collect();
        let extents: Vec<(Label, usize)> =
            extents.iter().map(|(label, _)| *label).zip(known_shape(&dims)?).collect();
        let mut product =
            Factor { labels: vec![], shape: Shape::new(), data: vec![T::from_f64(1.0).widen()] };
        for (i, own) in labels.iter().enumerate() {
            let x = inputs.tensor(i)?;
            let data = collected(x.as_slice::<T>()?.iter().map(|x| x.widen()))?;
            let shape = Shape::from_slice(x.shape());
            let factor = Factor { labels: own.clone(), shape, data };
            let keep = if i + 1 == n {
                result.clone()
            } else {
                let later = || result.iter().chain(labels[i + 1..].iter().flatten());
                kept(&product.labels, own, |label| later().any(|other| *other == label))
            };
            product = contract(&product, &factor, keep, &extents)?;
        }
        let y = output.tensor(T::DTYPE, &product.shape)?.into_slice::<T>()?;
        for (y, sum) in y.iter_mut().zip(product.data) {
            *y = T::narrow(sum);
        }
        Ok(())
    }
}

impl Operator for Einsum {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_number)?;
        // bounded: rank
        let mut shapes = Vec::with_capacity(inputs.len());
        for i in 0..self.equation.inputs.len() {
            inputs.fact(i)?;
            inputs.expect_dtype(i, dtype)?;
            shapes.push(inputs.fact(i)?.dims());
        }
        let Some(shapes) = shapes.into_iter().collect::<Option<Vec<_>>>() else {
            let output = &self.equation.output;
            let rank = (!output.contains(&Symbol::Ellipsis)).then_some(output.len());
            return Ok(vec![ranked_fact(dtype, rank)]);
        };
        let (labels, extents) = self.indices(&shapes)?;
        let extent = |label: Label| {
            let found = extents.iter().find(|(other, _)| *other == label);
            found.map_or(Dim::Known(1), |(_, dim)| dim.clone())
        };
        let result = self.equation.output_labels(&labels);
        Ok(vec![Fact::tensor(dtype, result.into_iter().map(extent))])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (output, dtype) = (only(outputs)?, inputs.tensor(0)?.dtype());
        with_dtype!(dtype, number,
            T => self.run::<T>(inputs, output),
            else => Err(unsupported(0, dtype)))
    }

    fn flops(&self, inputs: &Facts<'_>, _outputs: &[Fact]) -> u64 {
        let shapes: Option<Vec<&[Dim]>> =
            (0..inputs.len()).map(|i| inputs.get(i).and_then(Fact::dims)).collect();
        let indices = shapes.and_then(|shapes| self.indices(&shapes).ok());
        let Some((_, extents)) = indices else { return 0 };
        let times =
            |n: u64, (_, dim): &(Label, Dim)| n.checked_mul(u64::try_from(dim.known()?).ok()?);
        extents.iter().try_fold(2, times).unwrap_or(0)
    }
}

/// The indices of either factor that are needed later, each once.
fn kept(a: &[Label], b: &[Label], is_needed: impl Fn(Label) -> bool) -> Vec<Label> {
    // bounded: rank
    let mut kept = Vec::with_capacity(a.len() + b.len());
    for &label in a.iter().chain(b) {
        if is_needed(label) && !kept.contains(&label) {
            kept.push(label);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, tensor};
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor, f16};

    fn einsum(equation: &str, inputs: &[Tensor]) -> Result<Tensor, String> {
        Case::new("Einsum", 12).attr("equation", Attr::String(equation.to_owned())).tensor(inputs)
    }

    /// `0, 1, 2, …` in this shape.
    fn iota(shape: &[usize]) -> Tensor {
        let n = i64::try_from(shape.iter().product::<usize>()).unwrap();
        tensor(shape, &(0..n).collect::<Vec<_>>())
    }

    #[test]
    fn equations_mean_what_they_say() {
        let (a, b) = (iota(&[2, 3]), iota(&[3, 2]));
        let cases: [(&str, Vec<Tensor>, Tensor); 14] = [
            ("ij->ji", vec![a.clone()], tensor(&[3, 2], &[0_i64, 3, 1, 4, 2, 5])),
            ("ij->", vec![a.clone()], Tensor::scalar(15_i64)),
            ("ij->i", vec![a.clone()], tensor(&[2], &[3_i64, 12])),
            ("ii->i", vec![iota(&[3, 3])], tensor(&[3], &[0_i64, 4, 8])),
            ("ii", vec![iota(&[3, 3])], Tensor::scalar(12_i64)),
            ("ij,jk", vec![a.clone(), b.clone()], tensor(&[2, 2], &[10_i64, 13, 28, 40])),
            ("ij,jk->ki", vec![a.clone(), b.clone()], tensor(&[2, 2], &[10_i64, 28, 13, 40])),
            ("i,i->", vec![iota(&[3]), iota(&[3])], Tensor::scalar(5_i64)),
            ("i,j->ij", vec![iota(&[2]), iota(&[3])], tensor(&[2, 3], &[0_i64, 0, 0, 0, 1, 2])),
            ("ij,ij->ij", vec![a.clone(), a.clone()], tensor(&[2, 3], &[0_i64, 1, 4, 9, 16, 25])),
            ("...ij->...i", vec![iota(&[1, 2, 2])], tensor(&[1, 2], &[1_i64, 5])),
            ("i...,i...", vec![a.clone(), a.clone()], tensor(&[3], &[9_i64, 17, 29])),
            ("ij,j,jk->k", vec![a, iota(&[3]), b], tensor(&[2], &[66_i64, 85])),
            ("i,i->i", vec![iota(&[1]), iota(&[3])], tensor(&[3], &[0_i64, 0, 0])),
        ];
        for (equation, inputs, y) in cases {
            assert_eq!(einsum(equation, &inputs), Ok(y), "{equation}");
        }
    }

    #[test]
    fn half_floats_are_summed_wider() {
        let x = tensor(&[3], &[2048.0, 1.0, 1.0].map(f16::from_f32));
        assert_eq!(einsum("i->", &[x]), Ok(Tensor::scalar(f16::from_f32(2050.0))));
        let y = einsum("i,i->", &[tensor(&[1], &[200_u8]), tensor(&[1], &[3_u8])]);
        assert_eq!(y, Ok(Tensor::scalar(88_u8)));
    }

    #[test]
    fn sums_over_nothing_are_zero() {
        let (a, b) = (
            Tensor::zeros(DType::F32, &[2, 0]).unwrap(),
            Tensor::zeros(DType::F32, &[0, 2]).unwrap(),
        );
        assert_eq!(
            einsum("ij,jk->ik", &[a, b]),
            Tensor::zeros(DType::F32, &[2, 2]).map_err(|e| e.to_string())
        );
    }

    #[test]
    fn operands_must_fit_their_terms() {
        assert!(einsum("ij->i", &[iota(&[2])]).is_err());
        assert!(einsum("i,j->ij", &[iota(&[2])]).is_err());
        assert!(einsum("ij,jk->ik", &[iota(&[2, 3]), iota(&[2, 3])]).is_err());
        assert!(einsum("ij,jk->iz", &[iota(&[2, 3]), iota(&[3, 2])]).is_err());
        assert!(einsum("...i->i", &[iota(&[])]).is_err());
    }
}
