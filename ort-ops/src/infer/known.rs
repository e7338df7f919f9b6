//! Facts from what is known of a tensor, and shapes from facts that are fully known.

// collects are bounded: by the rank, MAX_INTS and the operands

use ort_graph::{Dim, Dims, Fact, Facts, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Shape, TensorError, TensorView, Value, ValueView, collected,
};

/// Up to this many elements the contents of an output are computed as soon as its inputs are
/// constant: enough for shapes, axes and what is computed from them.
const N_FOLDED: usize = 64;

/// The dimensions of an actual tensor.
pub fn known_dims(shape: &[usize]) -> Dims {
    shape.iter().map(|&n| Dim::Known(n)).collect()
}

/// The shape, for dimensions that follow from shapes that are known.
///
/// # Errors
/// If a dimension is not known, because what it was computed from is too large, or there are too many elements.
pub fn known_shape(dims: &[Dim]) -> Result<Shape, OpError> {
    let shape = dims.iter().map(Dim::known).collect::<Option<Shape>>();
    shape.filter(|shape| ort_tensor::n_elements(shape).is_some()).ok_or(OpError::TooLarge)
}

/// A tensor with these dimensions, or of unknown rank.
pub fn tensor_fact(dtype: DType, dims: Option<Dims>) -> Fact {
    dims.map_or_else(|| Fact::unranked(dtype), |dims| Fact::tensor(dtype, dims))
}

/// More dimensions than any computed tensor has. A file may claim any number of them.
pub(crate) const MAX_RANK: usize = 64;

/// A tensor of this rank, of which no dimension is known; of unknown rank if it exceeds 64.
pub fn ranked_fact(dtype: DType, rank: Option<usize>) -> Fact {
    let rank = rank.filter(|&rank| rank <= MAX_RANK);
    // bounded: MAX_RANK
    tensor_fact(dtype, rank.map(|rank| Dims::from_elem(Dim::Unknown, rank)))
}

/// `Π dims`: known if all are, or if one is zero; a symbol if all others are 1.
pub fn dims_product(dims: &[Dim]) -> Dim {
    if dims.contains(&Dim::Known(0)) {
        return Dim::Known(0);
    }
    dims.iter().fold(Dim::Known(1), |product, dim| match (product, dim) {
        (Dim::Known(1), dim) => dim.clone(),
        (product, Dim::Known(1)) => product,
        (product, dim) => product.zip(dim, usize::checked_mul),
    })
}

/// How many elements the vector at `index` has, if that is known.
///
/// # Errors
/// If it is not a vector.
pub fn vector_len(inputs: &Facts<'_>, index: usize) -> Result<Option<usize>, OpError> {
    match inputs.get(index).and_then(Fact::dims) {
        None => Ok(None),
        Some([n]) => Ok(n.known()),
        Some(dims) => Err(OpError::InputRank { index, expected: "1", found: dims.len() }),
    }
}

/// The elements of an int64 or int32 tensor.
///
/// # Errors
/// If they are of another type.
pub fn int_values(x: TensorView<'_>) -> Result<Vec<i64>, TensorError> {
    if x.dtype() == DType::I32 {
        return collected(x.as_slice::<i32>()?.iter().copied().map(i64::from));
    }
    collected(x.as_slice::<i64>()?.iter().copied())
}

/// Checks that there are no more values in the input at `index` than a tensor may have axes.
///
/// # Errors
/// If there are.
pub(crate) fn expect_few(index: usize, values: &[i64]) -> Result<(), OpError> {
    let what = "has more values than a tensor may have axes";
    if values.len() > Fact::MAX_INTS { Err(OpError::InputValue { index, what }) } else { Ok(()) }
}

/// Values of the input at `index` as sizes, one per axis.
///
/// # Errors
/// If one is below zero, or there are more than a tensor may have axes.
pub(crate) fn sizes(index: usize, values: &[i64]) -> Result<Shape, OpError> {
    expect_few(index, values)?;
    let sizes: Option<Shape> = values.iter().map(|&n| n.try_into().ok()).collect();
    sizes.ok_or(OpError::InputValue { index, what: "a size is below zero" })
}

/// The facts with their contents, if the inputs are constant and the outputs are small.
/// A failing evaluation is ignored here: it will fail again when the node runs.
pub fn folded(op: &dyn Operator, inputs: &Facts<'_>, mut facts: Vec<Fact>) -> Vec<Fact> {
    let is_small = |fact: &Fact| {
        let shape = fact.shape();
        shape.is_some_and(|shape| ort_tensor::n_elements(&shape).is_some_and(|n| n <= N_FOLDED))
    };
    let present = (0..inputs.len()).map(|i| inputs.get(i));
    let constants: Option<Vec<_>> =
        present.map(|fact| fact.map_or(Some(None), |f| f.constant.as_ref().map(Some))).collect();
    let Some(constants) = constants.filter(|_| facts.iter().all(is_small)) else { return facts };
    let views: Vec<_> =
        constants.iter().map(|t| t.map(|tensor| ValueView::Tensor(tensor.view()))).collect();
    let mut outputs: Vec<_> = facts.iter().map(|_| Output::free()).collect();
    if op.eval(Inputs::new(&views), &mut outputs).is_err() {
        return facts;
    }
    for (fact, output) in facts.iter_mut().zip(outputs) {
        if let Some(Value::Tensor(tensor)) = output.into_value() {
            fact.constant = Some(tensor);
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_survives_a_product_with_ones_only() {
        let n = || Dim::Symbol("n".into());
        let cases = [
            (vec![], Dim::Known(1)),
            (vec![Dim::Known(2), Dim::Known(3)], Dim::Known(6)),
            (vec![Dim::Known(1), n(), Dim::Known(1)], n()),
            (vec![Dim::Known(2), n()], Dim::Unknown),
            (vec![Dim::Unknown, Dim::Known(0)], Dim::Known(0)),
            (vec![Dim::Known(usize::MAX), Dim::Known(2)], Dim::Unknown),
        ];
        for (dims, expected) in cases {
            assert_eq!(dims_product(&dims), expected, "{dims:?}");
        }
    }
}
