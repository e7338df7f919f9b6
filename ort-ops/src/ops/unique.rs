//! Unique: each element, or each slice along an axis, once.

use std::cmp::Ordering;
use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    Bool, Complex, DType, Inputs, Output, Pace, Room, Shape, TensorView, bf16, collected, f16,
    filled, move_elements, n_elements, sort, with_dtype,
};

use crate::infer::{dims_product, normalize_axis};
use crate::ops::gather::gather;
use crate::order::{Sortable, is_comparable};

mod keyed;
mod table;

use keyed::{Keyed, sorted};
use table::{FEW, Table};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Unique",
        versions: (11, 28),
        types: is_comparable,
        build: Unique::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "Unique",
        versions: (1, 1),
        types: is_comparable,
        build: |_| Ok(Arc::new(Unique { axis: None, is_sorted: false, has_first: false })),
    },
];

/// Unique: the elements of the flattened input, or its slices along `axis`, each once: in ascending
/// order or in that of their first occurrence. The other outputs (int64) are the index of each
/// first occurrence, for each element of the input its index in the output, and the count of each. NaN equals NaN and
/// comes last.
///
/// The version of com.microsoft keeps the order of a vector and has no output for the first occurrence. ONNX Runtime
/// has it only for float, and treats NaNs as different.
///
/// Source: ONNX operator set, Unique-28; com.microsoft, Unique-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unique {
    /// The axis, `−rank..rank`; none to flatten.
    pub axis: Option<i64>,
    /// Whether the output is sorted.
    pub is_sorted: bool,
    /// Whether output 1 is the index of each first occurrence; if not, the input is a vector.
    pub has_first: bool,
}

impl Unique {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let (axis, is_sorted) = (spec.int("axis")?, spec.flag("sorted", true)?);
        Ok(Arc::new(Self { axis, is_sorted, has_first: true }))
    }

    fn check_rank(self, rank: usize) -> Result<(), OpError> {
        if self.has_first || rank == 1 {
            return Ok(());
        }
        Err(OpError::InputRank { index: 0, expected: "1", found: rank })
    }
}

/// The input as `[_, n, run]`, of which the `n` slices are compared.
#[derive(Clone, Copy)]
struct Slices {
    n: usize,
    run: usize,
}

/// The groups of equal slices, as in the last three outputs.
struct Groups {
    first: Vec<usize>,
    place: Vec<usize>,
    count: Vec<usize>,
}

impl Slices {
    /// Compares the slices `a` and `b`, element by element.
    fn order<T: Sortable>(self, x: &[T], a: usize, b: usize) -> Ordering {
        let Slices { n, run } = self;
        if n * run == 0 {
            return Ordering::Equal;
        }
        if x.len() == n {
            return x[a].order(&x[b]);
        }
        let slice =
            |i: usize| x.chunks_exact(n * run).flat_map(move |x| &x[i * run..(i + 1) * run]);
        let mut orders = slice(a).zip(slice(b)).map(|(a, b)| a.order(b));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn groups<T: Sortable>(self, x: &[T], is_sorted: bool) -> Result<Groups, OpError> {
        let mut sorted = collected(0..self.n)?;
        let order = |&a: &usize, &b: &usize| self.order(x, a, b);
        sort(&mut sorted, &order)?;
        let is_same = |a: &usize, b: &usize| order(a, b).is_eq();
        Groups::of_sorted(&sorted, |&slice| slice, is_same, is_sorted)
    }

    /// [`Slices::groups`] of plain elements: slices of one are hashed, or sorted by their bytes if there are many groups.
    fn plain_groups<T: Keyed>(self, x: &[T], is_sorted: bool) -> Result<Groups, OpError> {
        if x.len() != self.n {
            return self.groups(x, is_sorted);
        }
        if let Some(groups) = Groups::few(x)? {
            return if is_sorted { groups.sorted(x) } else { Ok(groups) };
        }
        let is_same = |a: &(T::Key, usize), b: &(T::Key, usize)| a.0 == b.0;
        Groups::of_sorted(&sorted(x)?, |&(_, slice)| slice, is_same, is_sorted)
    }
}

impl Groups {
    /// The groups of elements, in the order of their first occurrence; `None` if they are not few.
    fn few<T: Keyed>(x: &[T]) -> Result<Option<Self>, OpError> {
        let mut table = Table::new(x.len())?;
        let (mut place, mut count) = (filled(0, x.len())?, filled(0, FEW.min(x.len()))?);
        let mut pace = Pace::new();
        for (i, place) in place.iter_mut().enumerate() {
            pace.go(1)?;
            let Some(group) = table.group(x, i) else { return Ok(None) };
            *place = group;
            count[group] += 1;
        }
        let first = table.into_first();
        count.truncate(first.len());
        Ok(Some(Self { first, place, count }))
    }

    /// The same groups of elements, in ascending order of those.
    fn sorted<T: Keyed>(mut self, x: &[T]) -> Result<Self, OpError> {
        let mut groups = collected(0..self.first.len())?;
        sort(&mut groups, &|&a: &usize, &b| x[self.first[a]].order(&x[self.first[b]]))?;
        let mut ranks = filled(0, groups.len())?;
        groups.iter().enumerate().for_each(|(rank, &group)| ranks[group] = rank);
        self.place.iter_mut().for_each(|place| *place = ranks[*place]);
        let first = collected(groups.iter().map(|&group| self.first[group]))?;
        let count = collected(groups.iter().map(|&group| self.count[group]))?;
        Ok(Self { first, count, ..self })
    }

    /// The groups of equal items, of which equal ones are in the order of their slices: the first of a group is the
    /// first that occurs.
    fn of_sorted<I>(
        sorted: &[I],
        slice: impl Fn(&I) -> usize,
        is_same: impl Fn(&I, &I) -> bool,
        is_sorted: bool,
    ) -> Result<Self, OpError> {
        let (mut first, mut count) = (Room::new(), Room::new());
        let (mut place, mut pace) = (filled(0, sorted.len())?, Pace::new());
        for (i, group) in sorted.chunk_by(is_same).enumerate() {
            pace.go(group.len())?;
            group.iter().for_each(|item| place[slice(item)] = i);
            first.push(slice(&group[0]))?;
            count.push(group.len())?;
        }
        let groups = Self { first: first.into_vec(), place, count: count.into_vec() };
        if is_sorted { Ok(groups) } else { groups.by_occurrence() }
    }

    /// The same groups, in the order of their first occurrence.
    fn by_occurrence(mut self) -> Result<Self, OpError> {
        let n = self.first.len();
        let (mut ranks, mut rank, mut pace) = (filled(0, n)?, 0, Pace::new());
        let (mut first, mut count) = (filled(0, n)?, filled(0, n)?);
        for (i, place) in self.place.iter_mut().enumerate() {
            pace.go(1)?;
            let group = *place;
            if self.first[group] == i {
                (ranks[group], first[rank], count[rank]) = (rank, i, self.count[group]);
                rank += 1;
            }
            *place = ranks[group];
        }
        Ok(Self { first, count, ..self })
    }
}

fn groups(x: TensorView<'_>, slices: Slices, is_sorted: bool) -> Result<Groups, OpError> {
    if x.dtype() == DType::String {
        return slices.groups(x.as_strings()?, is_sorted);
    }
    with_dtype!(x.dtype(), [f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, Bool,
            Complex<f32>, Complex<f64>],
        T => slices.plain_groups(x.as_slice::<T>()?, is_sorted),
        else => Err(OpError::Unsupported { what: "Unique of this element type" }))
}

impl Operator for Unique {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_comparable)?;
        let x = inputs.fact(0)?.dims();
        x.map_or(Ok(()), |x| self.check_rank(x.len()))?;
        let (y, n) = match (self.axis, x) {
            (None, x) => {
                let n = x.map_or(Dim::Unknown, dims_product);
                (Fact::tensor(dtype, [Dim::Unknown]), n)
            }
            (Some(_), None) => (Fact::unranked(dtype), Dim::Unknown),
            (Some(axis), Some(x)) => {
                let axis = normalize_axis(axis, x.len())?;
                let mut dims: Dims = x.into();
                let n = std::mem::replace(&mut dims[axis], Dim::Unknown);
                (Fact::tensor(dtype, dims), n)
            }
        };
        let ints = |n: Dim| Fact::tensor(DType::I64, [n]);
        let (first, place, count) = (ints(Dim::Unknown), ints(n), ints(Dim::Unknown));
        Ok(if self.has_first { vec![y, first, place, count] } else { vec![y, place, count] })
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        self.check_rank(x.shape().len())?;
        let (mut shape, axis) = match self.axis {
            Some(axis) => (Shape::from_slice(x.shape()), normalize_axis(axis, x.shape().len())?),
            None => (Shape::from_slice(&[x.len()]), 0),
        };
        let run = n_elements(&shape[axis + 1..]).ok_or(OpError::TooLarge)?;
        let slices = Slices { n: shape[axis], run };
        let groups = groups(x, slices, self.is_sorted)?;
        shape[axis] = groups.first.len();
        if outputs[0].is_wanted() {
            let y = outputs[0].tensor(x.dtype(), &shape)?;
            let Slices { n, run } = slices;
            move_elements!(x => y, |src, dst| gather(src, n, run, &groups.first, dst))?;
        }
        let lists = [&groups.first, &groups.place, &groups.count];
        let lists = lists.into_iter().skip(usize::from(!self.has_first));
        for (i, values) in lists.enumerate() {
            let Some(output) = outputs.get_mut(i + 1).filter(|output| output.is_wanted()) else {
                continue;
            };
            let y = output.tensor(DType::I64, &[values.len()])?.into_slice::<i64>()?;
            for (y, &value) in y.iter_mut().zip(values) {
                *y = i64::try_from(value).map_err(|_| OpError::TooLarge)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use super::*;
    use crate::case::{Case, tensor};

    fn unique(case: Case, x: Tensor) -> [Tensor; 4] {
        let values = case.outputs(4).run(&[x]).unwrap();
        [0, 1, 2, 3].map(|i: usize| values[i].as_tensor().unwrap().clone())
    }

    fn ints(values: &[i64]) -> Tensor {
        tensor(&[values.len()], values)
    }

    #[test]
    fn elements_occur_once() {
        let x = tensor(&[2, 3], &[2_f32, 1.0, 1.0, 3.0, f32::NAN, f32::NAN]);
        let [y, first, place, count] = unique(Case::new("Unique", 11), x.clone());
        assert_eq!(y, tensor(&[4], &[1_f32, 2.0, 3.0, f32::NAN]));
        assert_eq!(first, ints(&[1, 0, 3, 4]));
        assert_eq!(place, ints(&[1, 0, 0, 2, 3, 3]));
        assert_eq!(count, ints(&[2, 1, 1, 2]));
        let case = Case::new("Unique", 28).attr("sorted", Attr::Int(0));
        let [y, first, place, count] = unique(case, x);
        assert_eq!(y, tensor(&[4], &[2_f32, 1.0, 3.0, f32::NAN]));
        assert_eq!(first, ints(&[0, 1, 3, 4]));
        assert_eq!(place, ints(&[0, 1, 1, 2, 3, 3]));
        assert_eq!(count, ints(&[1, 2, 1, 2]));
    }

    #[test]
    fn groups_few_and_many_are_the_same_as_by_sorting() {
        for n_groups in [1, 300, FEW, FEW + 1] {
            let x: Vec<i64> =
                (0..3 * n_groups).map(|i| ((i * 7919 % n_groups) as i64) << 40).collect();
            let slices = Slices { n: x.len(), run: 1 };
            assert_eq!(Groups::few(&x).unwrap().is_some(), n_groups <= FEW);
            for is_sorted in [false, true] {
                let found = slices.plain_groups(&x, is_sorted).unwrap();
                let expected = slices.groups(&x, is_sorted).unwrap();
                assert_eq!(found.first, expected.first, "{n_groups}");
                assert_eq!(found.place, expected.place, "{n_groups}");
                assert_eq!(found.count, expected.count, "{n_groups}");
            }
        }
        let x = [0.0_f32, f32::NAN, -0.0, -f32::NAN, 1.0];
        let groups = Groups::few(&x).unwrap().unwrap();
        assert_eq!(groups.place, [0, 1, 0, 1, 2]);
    }

    #[test]
    fn every_type_with_an_order_occurs_once() {
        for &dtype in DType::ALL {
            let x = |n: usize| Tensor::zeros(dtype, &[n]).unwrap();
            let y = Case::new("Unique", 28).tensor(&[x(2)]);
            assert_eq!(y.ok(), is_comparable(dtype).then(|| x(1)), "{dtype}");
        }
    }

    #[test]
    fn slices_occur_once() {
        let x = tensor(&[2, 4, 1], &[1_u8, 0, 2, 0, 1, 1, 1, 1]);
        let case = || Case::new("Unique", 11).attr("axis", Attr::Int(1));
        let [y, first, place, count] = unique(case(), x);
        assert_eq!(y, tensor(&[2, 3, 1], &[0_u8, 1, 2, 1, 1, 1]));
        assert_eq!(first, ints(&[1, 0, 2]));
        assert_eq!(place, ints(&[1, 0, 2, 0]));
        assert_eq!(count, ints(&[2, 1, 1]));
        let [y, first, ..] = unique(case(), Tensor::zeros(DType::String, &[2, 0, 3]).unwrap());
        assert_eq!((y.shape(), first), (&[2, 0, 3][..], ints(&[])));
        // Slices without elements are all equal.
        let [y, .., count] = unique(case(), Tensor::zeros(DType::Bool, &[0, 3]).unwrap());
        assert_eq!((y.shape(), count), (&[0, 1][..], ints(&[3])));
    }
    #[test]
    fn vectors_of_com_microsoft_keep_their_order() {
        let unique = |x| Case::new("Unique", 1).domain("com.microsoft").outputs(3).run(&[x]);
        let values = unique(tensor(&[6], &[2_f32, 1.0, 1.0, 3.0, 4.0, 3.0])).unwrap();
        let expected =
            [tensor(&[4], &[2_f32, 1.0, 3.0, 4.0]), ints(&[0, 1, 1, 2, 3, 2]), ints(&[1, 2, 2, 1])];
        assert_eq!(values, expected.map(Into::into));
        assert!(unique(tensor(&[1, 1], &[1_f32])).is_err());
    }
}
