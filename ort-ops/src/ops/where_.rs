//! Where: `y = condition ? a : b`, broadcast, any element type.

use std::sync::Arc;
use std::{iter, mem};

use ort_graph::{Behaviour, Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{
    Bool, DType, Inputs, Output, Shape, TensorError, TensorView, TensorViewMut, move_elements,
};

use crate::broadcast::{Operand, Runs, common_shape};
use crate::elementwise::only;
use crate::infer::{broadcast_facts, folded};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Where",
    versions: (9, 16),
    types: DType::is_any,
    build: |_| Ok(Arc::new(Where)),
}];

/// Where: `y = condition ? a : b`; the three broadcast against each other. Can run in place of
/// `a` or `b`.
///
/// Source: ONNX operator set, Where-16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Where;

impl Operator for Where {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.fact(0)?;
        inputs.expect_dtype(0, DType::Bool)?;
        let dtype = inputs.dtype(1, DType::is_any)?;
        inputs.fact(2)?;
        inputs.expect_dtype(2, dtype)?;
        Ok(folded(self, inputs, vec![broadcast_facts(inputs, dtype)?]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        let condition = Operand::<Bool>::new(inputs.tensor(0)?)?;
        let (shape, dtype) = match output.in_place_tensor() {
            Some((_, view)) => (Shape::from_slice(view.shape()), view.dtype()),
            None => {
                let (a, b) = (inputs.tensor(1)?, inputs.tensor(2)?);
                (common_shape([condition.shape, a.shape(), b.shape()])?, a.dtype())
            }
        };
        let in_place = output.in_place_of();
        let mut y = output.tensor(dtype, &shape)?;
        match in_place {
            Some(1) => choose(condition, false, inputs.tensor(2)?, y),
            Some(2) => choose(condition, true, inputs.tensor(1)?, y),
            _ => {
                copy(inputs.tensor(2)?, y.reborrow())?;
                choose(condition, true, inputs.tensor(1)?, y)
            }
        }
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(1, 0), (2, 0)], ..Behaviour::default() }
    }
}

/// `y = x` where `condition` is `side`; the rest of `y` is unchanged.
fn choose(
    condition: Operand<'_, Bool>,
    side: bool,
    x: TensorView<'_>,
    y: TensorViewMut<'_>,
) -> Result<(), OpError> {
    let runs = Runs::new(y.shape(), [condition.shape, x.shape()])?;
    Ok(move_elements!(x => y, |src, dst| choose_runs(&runs, condition.data, side, src, dst))?)
}

fn choose_runs<T: Clone>(
    runs: &Runs<2>,
    condition: &[Bool],
    side: bool,
    x: &[T],
    y: &mut [T],
) -> Result<(), TensorError> {
    let [condition_advances, x_advances] = runs.advances();
    runs.for_each(|piece, [i, j]| {
        let (n, y) = (piece.len(), &mut y[piece]);
        if !condition_advances {
            if condition[i].get() != side {
                return;
            }
            if x_advances {
                y.clone_from_slice(&x[j..j + n]);
            } else {
                y.fill(x[j].clone());
            }
            return;
        }
        let condition = &condition[i..i + n];
        match (x_advances, side) {
            (true, true) => pick(y, condition, x[j..j + n].iter(), |is_true| is_true),
            (true, false) => pick(y, condition, x[j..j + n].iter(), |is_true| !is_true),
            (false, true) => pick(y, condition, iter::repeat(&x[j]), |is_true| is_true),
            (false, false) => pick(y, condition, iter::repeat(&x[j]), |is_true| !is_true),
        }
    })
}

/// `y[k] = x[k]` where `is_chosen(condition[k])`.
#[inline(always)]
fn pick<'a, T: Clone + 'a>(
    y: &mut [T],
    condition: &[Bool],
    x: impl Iterator<Item = &'a T>,
    is_chosen: impl Fn(bool) -> bool,
) {
    for ((y, condition), x) in y.iter_mut().zip(condition).zip(x) {
        let is_chosen = is_chosen(condition.get());
        if mem::needs_drop::<T>() {
            if is_chosen {
                y.clone_from(x);
            }
        } else {
            // Both are read before the selection, so that the loop needs no branch.
            let (x, old) = (x.clone(), y.clone());
            *y = if is_chosen { x } else { old };
        }
    }
}

/// `y = x`, broadcast.
fn copy(x: TensorView<'_>, y: TensorViewMut<'_>) -> Result<(), OpError> {
    let runs = Runs::new(y.shape(), [x.shape()])?;
    Ok(move_elements!(x => y, |src, dst| copy_runs(&runs, src, dst))?)
}

fn copy_runs<T: Clone>(runs: &Runs<1>, x: &[T], y: &mut [T]) -> Result<(), TensorError> {
    let [advances] = runs.advances();
    runs.for_each(|piece, [from]| match advances {
        true => y[piece.clone()].clone_from_slice(&x[from..from + piece.len()]),
        false => y[piece].fill(x[from].clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_tensor::{Tensor, pack};

    fn run(condition: &Tensor, a: Tensor, b: Tensor) -> Result<Tensor, String> {
        Case::new("Where", 16).tensor(&[condition.clone(), a, b])
    }

    #[test]
    fn all_three_broadcast() {
        let bools = |shape: &[usize], values: &[bool]| {
            tensor(shape, &values.iter().map(|&b| Bool::from(b)).collect::<Vec<_>>())
        };
        let row = bools(&[3], &[true, false, true]);
        let column = bools(&[2, 1], &[true, false]);
        let full = || tensor(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        let nine = || Tensor::scalar(9);
        assert_eq!(run(&row, full(), nine()), Ok(tensor(&[2, 3], &[1, 9, 3, 4, 9, 6])));
        assert_eq!(run(&row, nine(), full()), Ok(tensor(&[2, 3], &[9, 2, 9, 9, 5, 9])));
        assert_eq!(run(&column, full(), nine()), Ok(tensor(&[2, 3], &[1, 2, 3, 9, 9, 9])));
        assert_eq!(run(&column, nine(), full()), Ok(tensor(&[2, 3], &[9, 9, 9, 4, 5, 6])));
        let (a, b) = (tensor(&[3], &[1, 2, 3]), tensor(&[1], &[0]));
        assert_eq!(run(&column, a, b), Ok(tensor(&[2, 3], &[1, 2, 3, 0, 0, 0])));
        assert!(run(&row, tensor(&[2], &[1, 2]), nine()).is_err());
        assert!(run(&row, tensor(&[3], &[1.0_f32; 3]), nine()).is_err());
    }

    #[test]
    fn every_type_is_chosen_from() {
        let condition = tensor(&[3], &[true, false, true].map(Bool::from));
        for &dtype in DType::ALL {
            let zeros = || Tensor::zeros(dtype, &[3]).unwrap();
            assert_eq!(run(&condition, zeros(), zeros()), Ok(zeros()), "{dtype}");
        }
        let texts = |texts: [&str; 3]| {
            Tensor::from_strings(&[3], texts.map(str::to_owned).to_vec()).unwrap()
        };
        let y = run(&condition, texts(["a", "b", "c"]), texts(["d", "e", "f"]));
        assert_eq!(y, Ok(texts(["a", "e", "c"])));
        let packed = |elements: [u8; 3]| {
            let mut tensor = Tensor::zeros(DType::I4, &[3]).unwrap();
            pack(&elements, 4, tensor.view_mut().into_bytes().unwrap());
            tensor
        };
        assert_eq!(run(&condition, packed([1, 2, 3]), packed([4, 5, 6])), Ok(packed([1, 5, 3])));
    }
}
