//! Runs of operands of all shapes, whole and in pieces, joined and not.

use super::*;
use ort_tensor::{n_elements, row_major_strides};
use proptest::prelude::*;

#[test]
fn dimensions_walked_alike_become_one_run() {
    let cases: [([&[usize]; 3], usize, usize); 6] = [
        ([&[2, 3, 4], &[2, 3, 4], &[2, 3, 4]], 24, 1),
        ([&[2, 3, 4], &[2, 3, 4], &[]], 24, 1),
        ([&[2, 3, 4, 5], &[2, 3, 4, 5], &[3, 1, 1]], 20, 6),
        ([&[2, 3, 4], &[4], &[2, 3, 4]], 4, 6),
        ([&[1, 1], &[1, 1], &[]], 1, 1),
        ([&[2, 0], &[2, 0], &[1]], 0, 0),
    ];
    for ([shape, a, b], len, n_runs) in cases {
        let runs = Runs::new(shape, [a, b]).unwrap();
        let mut n = 0;
        runs.for_each(|_, _| n += 1).unwrap();
        assert_eq!((runs.len, n), (len, n_runs), "{a:?} with {b:?}");
    }
}

#[test]
fn an_operand_that_does_not_broadcast_is_rejected() {
    assert!(Runs::new(&[2, 3], [&[2]]).is_err());
    assert!(Runs::new(&[3], [&[1, 3]]).is_err());
}

#[test]
fn pieces_of_runs_are_where_they_are_in_the_whole() {
    let shape = [2, 3, 4, 5];
    let runs = Runs::new(&shape, [&[3, 1, 5], &[2, 1, 4, 1]]).unwrap();
    let places = |range| {
        let mut places = Vec::new();
        runs.for_each_within(range, |piece, starts| {
            let step = |at: usize, i: usize| {
                if runs.advances()[i] { at - piece.start } else { 0 }
            };
            let place = |at| (at, [starts[0] + step(at, 0), starts[1] + step(at, 1)]);
            places.extend(piece.clone().map(place));
        });
        places
    };
    let whole = places(0..120);
    for (start, end) in [(0, 0), (0, 120), (3, 4), (7, 33), (59, 120), (60, 61), (120, 120)] {
        assert_eq!(places(start..end), whole[start..end], "{start}..{end}");
    }
}

#[test]
fn joined_runs_repeat_a_row() {
    use Walk::{Advances, Repeats, Stays, Stretches};
    let cases: [([&[usize]; 3], usize, [Walk; 2]); 9] = [
        ([&[2, 3, 4], &[2, 3, 4], &[4]], 24, [Advances, Repeats]),
        ([&[2, 3, 4], &[2, 1, 4], &[2, 3, 4]], 12, [Repeats, Advances]),
        ([&[2, 3, 4, 5], &[2, 3, 1, 5], &[2, 1, 1, 1]], 20, [Repeats, Stays]),
        ([&[2, 3, 4], &[2, 3, 4], &[]], 24, [Advances, Stays]),
        ([&[3, 4], &[3, 1], &[4]], 12, [Stretches, Repeats]),
        ([&[2, 3, 4], &[3, 1], &[2, 3, 4]], 12, [Stretches, Advances]),
        ([&[2, 3, 4], &[2, 1, 1], &[3, 4]], 12, [Stays, Advances]),
        // Neither continues, or the one that only advances does so for too long.
        ([&[2, 3, 4], &[2, 1, 4], &[3, 1]], 12, [Repeats, Stretches]),
        ([&[3, 5], &[3, 1], &[5]], 5, [Stays, Advances]),
    ];
    for ([shape, a, b], len, walks) in cases {
        let runs = Runs::new(shape, [a, b]).unwrap().joined(4);
        assert_eq!((runs.len, runs.walks()), (len, walks), "{a:?} with {b:?}");
    }
    let repeated = vec![(6..12, [6, 2]), (12..24, [12, 4])];
    for (b, expected) in [(&[2, 1, 4], repeated), (&[2, 3, 1], vec![(6..24, [6, 6])])] {
        let runs = Runs::new(&[2, 3, 4], [&[2, 3, 4], b]).unwrap().joined(4);
        let mut pieces = Vec::new();
        runs.for_each_within(6..24, |piece, starts| pieces.push((piece, starts)));
        assert_eq!(pieces, expected);
    }
}

/// A shape, and which of its dimensions two operands stretch along (bits of a mask).
fn shapes() -> impl Strategy<Value = (Vec<usize>, u8, u8)> {
    (prop::collection::vec(0_usize..4, 0..6), any::<u8>(), any::<u8>())
}

proptest! {
    #[test]
    fn every_element_meets_those_its_index_names((shape, a_mask, b_mask) in shapes()) {
        let squeeze = |mask: u8| -> Vec<usize> {
            let dim = |(i, &dim): (usize, &usize)| if mask >> i & 1 == 1 { 1 } else { dim };
            shape.iter().enumerate().map(dim).skip(usize::from(mask >> 7)).collect()
        };
        let (a_shape, b_shape) = (squeeze(a_mask), squeeze(b_mask));
        let target = common_shape([&a_shape[..], &b_shape]).unwrap();
        let data = |shape: &[usize]| (0..n_elements(shape).unwrap()).collect::<Vec<_>>();
        let (a, b) = (data(&a_shape), data(&b_shape));
        let mut y = vec![(0, 0); n_elements(&target).unwrap()];
        let operand = |shape, data| Operand { shape, data };
        zip((&target, &mut y), operand(&a_shape, &a), operand(&b_shape, &b), &|&a, &b| (a, b))
            .unwrap();
        let strides = row_major_strides(&target);
        let offset = |at: usize, shape: &[usize]| -> usize {
            let walked = broadcast_strides(shape, &target);
            (0..target.len()).map(|i| at / strides[i] % target[i] * walked[i]).sum()
        };
        for (at, &found) in y.iter().enumerate() {
            prop_assert_eq!(found, (offset(at, &a_shape), offset(at, &b_shape)));
        }
    }
}
