//! Computations of oracles on cells.

use std::cmp::Ordering;

use ort_tensor::DType;

use super::Cell;
use super::draw::bounds;

impl Cell {
    /// A float as an integer.
    #[expect(clippy::cast_possible_truncation, reason = "checked")]
    pub(super) fn whole(value: f64) -> Cell {
        let integer = value as i128;
        assert!((integer as f64) == value, "{value} is no integer");
        Cell::Int(integer)
    }

    /// A number in a type: for integers the nearest one, ties to even, saturated.
    pub(super) fn saturated(dtype: DType, value: f64) -> Cell {
        if !dtype.is_integer() {
            return Cell::Float(value);
        }
        let (least, most) = bounds(dtype);
        let value = value.round_ties_even();
        if value.is_nan() {
            Cell::Int(0)
        } else {
            Cell::whole(value.clamp(least as f64, most as f64))
        }
    }

    /// How two cells of one type compare; NaN has no order.
    pub(super) fn order(&self, other: &Cell) -> Option<Ordering> {
        match (self, other) {
            (Cell::Int(a), Cell::Int(b)) => Some(a.cmp(b)),
            (Cell::Bool(a), Cell::Bool(b)) => Some(a.cmp(b)),
            (Cell::Text(a), Cell::Text(b)) => Some(a.cmp(b)),
            (a, b) => a.float().partial_cmp(&b.float()),
        }
    }

    /// The first of the largest cells, or of the smallest ones, and its position; the first NaN, if there is one.
    pub(super) fn extreme<'a>(
        wanted: Ordering,
        cells: impl IntoIterator<Item = &'a Cell>,
    ) -> Option<(usize, &'a Cell)> {
        cells.into_iter().enumerate().reduce(|best, next| {
            let is_nan = |cell: &Cell| cell.order(cell).is_none();
            let is_better = next.1.order(best.1) == Some(wanted) || is_nan(next.1);
            if is_better && !is_nan(best.1) { next } else { best }
        })
    }

    /// The sum of cells of a type; integers keep all their bits.
    pub(super) fn sum(dtype: DType, cells: &[&Cell]) -> Cell {
        match dtype.is_float() {
            true => Cell::Float(cells.iter().map(|x| x.float()).sum()),
            false => Cell::Int(cells.iter().map(|x| x.int()).sum()),
        }
    }

    /// The product of cells of a type; integers keep their low bits.
    pub(super) fn product(dtype: DType, cells: &[&Cell]) -> Cell {
        match dtype.is_float() {
            true => Cell::Float(cells.iter().map(|x| x.float()).product()),
            false => Cell::Int(cells.iter().fold(1, |all: i128, x| all.wrapping_mul(x.int()))),
        }
    }
    /// A number as a cell of a type: for integers its integral value.
    pub(super) fn number(dtype: DType, value: f64) -> Cell {
        if dtype.is_float() { Cell::Float(value) } else { Cell::whole(value) }
    }

    /// The sum of products of cells of a type; integers keep their low bits.
    pub(super) fn sum_of_products<T: AsRef<[Cell]>>(
        dtype: DType,
        terms: impl Iterator<Item = T>,
    ) -> Cell {
        if dtype.is_integer() {
            let product = |term: T| {
                term.as_ref().iter().fold(1, |product: i128, cell| product.wrapping_mul(cell.int()))
            };
            return Cell::Int(terms.map(product).fold(0, i128::wrapping_add));
        }
        let product = |term: T| term.as_ref().iter().map(Cell::float).product::<f64>();
        Cell::Float(terms.map(product).fold(0.0, |sum, term| sum + term))
    }
}
