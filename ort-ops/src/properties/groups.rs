//! Arrays by axes: broadcasting, reduction, and slices along axes.

use super::{Array, Cell};

/// The shape that these broadcast to.
pub(super) fn broadcast<'a>(shapes: impl Iterator<Item = &'a [usize]> + Clone) -> Vec<usize> {
    let rank = shapes.clone().map(<[usize]>::len).max().unwrap_or(0);
    let mut result = vec![1; rank];
    for shape in shapes {
        for (dim, &own) in result[rank - shape.len()..].iter_mut().zip(shape) {
            *dim = if *dim == 1 { own } else { *dim };
        }
    }
    result
}

impl Array {
    /// The positions of the cells along these axes, in row-major order, for each index of the other axes; and the
    /// shape in which the axes are 1.
    fn groups(&self, axes: &[usize]) -> (Vec<usize>, Vec<Vec<usize>>) {
        let mut shape = self.shape.clone();
        axes.iter().for_each(|&axis| shape[axis] = 1);
        let mut groups = vec![Vec::new(); shape.iter().product()];
        let mut at = 0;
        Array::from_fn(&self.shape, |index| {
            let group = index.iter().zip(&shape).fold(0, |i, (&j, &n)| i * n + j % n);
            groups[group].push(at);
            at += 1;
            Cell::Bool(true)
        });
        (shape, groups)
    }

    /// `f` of each group of cells along these axes, which become 1.
    pub(super) fn reduced(&self, axes: &[usize], f: impl Fn(&[&Cell]) -> Cell) -> Self {
        let (shape, groups) = self.groups(axes);
        let cells =
            |group: &Vec<usize>| -> Vec<_> { group.iter().map(|&at| &self.cells[at]).collect() };
        Self { shape, cells: groups.iter().map(|group| f(&cells(group))).collect() }
    }

    /// Without these axes, which are 1.
    pub(super) fn without(&self, axes: &[usize]) -> Self {
        let kept = (0..self.shape.len()).filter(|axis| !axes.contains(axis));
        self.reshaped(&kept.map(|axis| self.shape[axis]).collect::<Vec<_>>())
    }

    /// The first `n` along an axis.
    pub(super) fn truncated(&self, axis: usize, n: usize) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] = n;
        Self::from_fn(&shape, |index| self.at(index).clone())
    }

    /// Each group of cells along these axes, replaced by the same number of others.
    pub(super) fn regrouped(&self, axes: &[usize], f: impl Fn(&[&Cell]) -> Vec<Cell>) -> Self {
        let mut regrouped = self.clone();
        for group in self.groups(axes).1 {
            let cells: Vec<_> = group.iter().map(|&at| &self.cells[at]).collect();
            group.into_iter().zip(f(&cells)).for_each(|(at, cell)| regrouped.cells[at] = cell);
        }
        regrouped
    }
}
