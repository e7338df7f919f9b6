//! DynamicTimeWarping: the cheapest path through a cost matrix.
//!
//! ```text
//! total[0, 0] = 0, total[0, j] = total[i, 0] = ∞
//! total[i, j] = cost[i, j] + min(total[i−1, j−1], total[i−1, j], total[i, j−1])
//! the path back from the last element follows the minimum
//! ```

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Number, Output, Pace, Room, TensorError, filled, with_dtype, with_room,
};

use crate::elementwise::unsupported;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "DynamicTimeWarping",
    versions: (1, 1),
    types: DType::is_float,
    build: |_| Ok(Arc::new(DynamicTimeWarping)),
}];

/// DynamicTimeWarping: `y: [2, L]` int32, the rows and columns of the cheapest path from the first element of `x: [M,
/// N]` or `[1, M, N]`, floats, to the last, each step one down, one right, or both. Of paths of equal cost the one
/// whose last step is to the right is chosen.
///
/// Source: com.microsoft, DynamicTimeWarping-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicTimeWarping;

/// The last step of the cheapest path to an element.
#[derive(Clone, Copy)]
enum Step {
    Both,
    Down,
    Right,
}

const fn wrong_rank(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "2, or 3 with one matrix", found }
}

impl Operator for DynamicTimeWarping {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_float)?;
        match inputs.fact(0)?.dims() {
            None | Some([_, _]) => {}
            Some([one, _, _]) if one.unify(&Dim::Known(1)).is_some() => {}
            Some(dims) => return Err(wrong_rank(dims.len())),
        }
        Ok(vec![Fact::tensor(DType::I32, [Dim::Known(2), Dim::Unknown])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let (&[n_rows, n_columns] | &[1, n_rows, n_columns]) = x.shape() else {
            return Err(wrong_rank(x.shape().len()));
        };
        let steps = with_dtype!(x.dtype(), float,
            T => steps(x.as_slice::<T>()?, n_columns)?,
            else => return Err(unsupported(0, x.dtype())));
        let way = way(&steps, n_rows, n_columns)?;
        let y = outputs[0].tensor(DType::I32, &[2, way.len()])?.into_slice::<i32>()?;
        let (rows, columns) = y.split_at_mut(way.len());
        let int = |n: usize| i32::try_from(n).map_err(|_| OpError::TooLarge);
        for ((row, column), &(i, j)) in rows.iter_mut().zip(columns).zip(way.iter().rev()) {
            (*row, *column) = (int(i)?, int(j)?);
        }
        Ok(())
    }
}

/// The last step to each element. Totals are rounded to the type of the costs, which decides ties.
fn steps<T: Number>(cost: &[T], n_columns: usize) -> Result<Vec<Step>, OpError> {
    let mut steps = with_room(cost.len())?;
    // The totals of the row above, preceded by that of the column before the first.
    let mut above = filled(f64::INFINITY, n_columns.saturating_add(1))?;
    above[0] = 0.0;
    let mut pace = Pace::new();
    for row in cost.chunks_exact(n_columns.max(1)) {
        let (mut both, mut right) = (above[0], f64::INFINITY);
        above[0] = f64::INFINITY;
        for (&cost, total) in row.iter().zip(&mut above[1..]) {
            pace.go(1)?;
            let down = *total;
            let (step, least) = if both < down && both < right {
                (Step::Both, both)
            } else if down < both && down < right {
                (Step::Down, down)
            } else {
                (Step::Right, right)
            };
            steps.push(step);
            *total = T::from_f64(least + cost.to_f64()).to_f64();
            (both, right) = (down, *total);
        }
    }
    Ok(steps)
}

/// The path, from the last element back until a step leaves the matrix.
fn way(
    steps: &[Step],
    n_rows: usize,
    n_columns: usize,
) -> Result<Room<(usize, usize)>, TensorError> {
    let mut way = Room::new();
    let mut at = n_rows.checked_sub(1).zip(n_columns.checked_sub(1));
    while let Some((i, j)) = at {
        way.push((i, j))?;
        let (up, left) = (i.checked_sub(1), j.checked_sub(1));
        at = match steps[i * n_columns + j] {
            Step::Both => up.zip(left),
            Step::Down => up.map(|up| (up, j)),
            Step::Right => left.map(|left| (i, left)),
        };
    }
    Ok(way)
}

#[cfg(test)]
mod tests {
    use ort_tensor::f16;

    use crate::case::{Case, tensor};

    #[test]
    fn the_cheapest_way_is_taken() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let cases: [(&[usize], &[f32], &[i32]); 9] = [
            (&[3, 3], &[0.0; 9], &[0, 1, 2, 2, 2, 0, 0, 0, 1, 2]),
            (&[2, 4], &[0.0; 8], &[0, 1, 1, 1, 1, 0, 0, 1, 2, 3]),
            (&[2, 3], &[1., 2., 3., 3., 1., 2.], &[0, 1, 1, 0, 1, 2]),
            (&[1, 2, 2], &[1., 2., 0., 1.], &[0, 1, 1, 0, 0, 1]),
            (&[1, 3], &[0.0; 3], &[0, 0, 0, 0, 1, 2]),
            (&[3, 1], &[0.0; 3], &[0, 1, 2, 0, 0, 0]),
            (&[0, 3], &[], &[]),
            (&[2, 2], &[1., nan, 1., 1.], &[0, 1, 1, 0, 0, 1]),
            (&[2, 2], &[inf, 1., 1., 1.], &[1, 1, 0, 1]),
        ];
        for (shape, x, y) in cases {
            let found = Case::new("DynamicTimeWarping", 1)
                .domain("com.microsoft")
                .tensor(&[tensor(shape, x)]);
            assert_eq!(found, Ok(tensor(&[2, y.len() / 2], y)), "{x:?}");
            let half: Vec<f16> = x.iter().copied().map(f16::from_f32).collect();
            let case = Case::new("DynamicTimeWarping", 1).domain("com.microsoft");
            assert_eq!(case.tensor(&[tensor(shape, &half)]), found);
        }
    }

    #[test]
    fn only_one_matrix_is_taken() {
        for shape in [&[2, 1, 1][..], &[2], &[]] {
            let x = tensor(shape, &vec![0_f32; shape.iter().product()]);
            let case = Case::new("DynamicTimeWarping", 1).domain("com.microsoft");
            assert!(case.tensor(&[x]).is_err());
        }
    }
}
