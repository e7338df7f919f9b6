//! Tests of GroupQueryAttention.

use ort_graph::Attr;
use ort_tensor::Tensor;

use crate::case::{Case, bytes, floats, within};

/// Operands are at most 4, and 4·√2 once they are rotated. A score of up to 16 terms of at most 32, by
/// 1/4 or less, is good to 20 units of 128; so is the exponential of it, relatively, and the sum and
/// the weights that are made of it to twice that; results are means of values.
const ERROR: f32 = 4.0 * 2.0 * 20.0 * 128.0 * f32::EPSILON;

/// Heads of queries, heads of keys, their size, batch, queries, and the past's capacity.
type Size = [usize; 6];

const SIZES: [Size; 8] = [
    [1, 1, 16, 1, 1, 0],
    [4, 2, 16, 1, 1, 40],
    [8, 2, 16, 2, 1, 300],
    [6, 3, 16, 2, 5, 7],
    [4, 1, 16, 1, 130, 0],
    [4, 2, 16, 2, 70, 33],
    [2, 2, 16, 0, 3, 4],
    [2, 2, 16, 2, 0, 4],
];

fn int(n: usize) -> Attr {
    Attr::Int(i64::try_from(n).unwrap())
}

/// A call behind as much of a past as there is, but for the second batch, whose is shorter by a row.
fn case([n, k, size, batch, len, capacity]: Size, is_packed: bool) -> Case {
    let case = Case::new("GroupQueryAttention", 1)
        .domain("com.microsoft")
        .outputs(3)
        .attr("num_heads", int(n))
        .attr("kv_num_heads", int(k));
    let heads = |heads: usize| floats(&[batch, len, heads * size]);
    let case = match is_packed {
        true => case.input(heads(n + 2 * k)).absent().absent(),
        false => case.input(heads(n)).input(heads(k)).input(heads(k)),
    };
    let past = || floats(&[batch, k, capacity, size]);
    let case = case.input(past()).input(past());
    let total = i32::try_from(capacity + len).unwrap();
    let last = |b: usize| total - 1 - i32::from(b == 1 && capacity > 0);
    let lasts: Vec<i32> = (0..batch).map(last).collect();
    let lasts = Tensor::from_slice(&[batch], &lasts).unwrap();
    case.input(lasts).input(Tensor::scalar(total))
}

/// Cosines and sines for so many positions and pairs.
fn tables(case: Case, rows: usize, pairs: usize) -> Case {
    let table = |of: fn(f32) -> f32| {
        let angles = (0..rows * pairs).map(|i| of(i as f32 * 0.37));
        Tensor::from_slice(&[rows, pairs], &angles.collect::<Vec<_>>()).unwrap()
    };
    case.attr("do_rotary", Attr::Int(1)).weight(table(f32::cos)).weight(table(f32::sin))
}

#[test]
fn groups_attend_to_the_cache_and_extend_it() {
    for size in SIZES {
        for is_packed in [false, true] {
            case(size, is_packed).check(within(ERROR));
            let windowed = case(size, is_packed).attr("local_window_size", Attr::Int(4));
            windowed.check(within(ERROR));
            case(size, is_packed).attr("causal", Attr::Int(0)).check(within(ERROR));
            case(size, is_packed).attr("softcap", Attr::Float(3.0)).check(within(ERROR));
        }
    }
}

#[test]
fn sinks_and_biases_count() {
    for size in SIZES {
        let [n, _, _, batch, len, capacity] = size;
        let bare = || {
            let case = case(size, false).attr("scale", Attr::Float(0.01));
            (0..3).fold(case, |case, _| case.absent())
        };
        bare().attr("smooth_softmax", Attr::Int(1)).check(within(ERROR));
        bare().absent().input(floats(&[n])).check(within(ERROR));
        for shape in [[1, 1], [batch, n]] {
            let bias = floats(&[shape[0], shape[1], len, capacity + len]);
            bare().input(bias).input(floats(&[n])).check(within(ERROR));
        }
    }
}

/// Halves of at most 4 are rounded once.
#[test]
fn caches_are_of_16_bits() {
    const SIZE: Size = [4, 2, 16, 2, 5, 300];
    fn check<T: ort_tensor::Element>(number: fn(u8) -> T, unit: f32) {
        let [n, k, size, batch, len, capacity] = SIZE;
        for len in [1, len] {
            let x = |shape: &[usize]| bytes(shape, number);
            let case = Case::new("GroupQueryAttention", 1).domain("com.microsoft").outputs(3);
            let case = case.attr("num_heads", int(n)).attr("kv_num_heads", int(k));
            let case = case.attr("scale", Attr::Float(0.01)).attr("do_rotary", Attr::Int(1));
            let [row, past] = [&[batch, len, k * size][..], &[batch, k, capacity, size]];
            let case = case.input(x(&[batch, len, n * size])).input(x(row)).input(x(row));
            let case = case.input(x(past)).input(x(past));
            let total = i32::try_from(200 + len).unwrap();
            let lasts = Tensor::from_slice(&[batch], &[total - 1, total - 3]).unwrap();
            let case = case.input(lasts).input(Tensor::scalar(total));
            let table = || bytes(&[capacity, 4], number);
            case.weight(table()).weight(table()).check(within(unit * 64.0));
        }
    }
    check(|b| ort_tensor::f16::from_f32(f32::from(b % 16) / 8.0 - 1.0), 2.0_f32.powi(-11));
    check(|b| ort_tensor::bf16::from_f32(f32::from(b % 16) / 8.0 - 1.0), 2.0_f32.powi(-8));
}

#[test]
fn heads_turn_with_their_positions() {
    for size in SIZES {
        let [.., batch, len, capacity] = size;
        let rows = capacity + len;
        for (pairs, is_interleaved) in [(8, 0), (8, 1), (4, 0), (4, 1)] {
            let case = || {
                let case = case(size, false).attr("rotary_interleaved", Attr::Int(is_interleaved));
                tables(case, rows, pairs)
            };
            case().check(within(ERROR));
            let ids = (0..batch * len).map(|i| i64::try_from((i * 3) % rows.max(1)).unwrap());
            let ids = Tensor::from_slice(&[batch, len], &ids.collect::<Vec<_>>()).unwrap();
            if capacity > 0 {
                case().input(ids).check(within(ERROR));
            }
        }
    }
}

#[test]
fn a_first_call_is_filled_up_and_has_room_to_grow() {
    let size = [4, 2, 16, 2, 9, 20];
    let [_, _, _, batch, len, _] = size;
    let heads = |heads: usize| floats(&[batch, len, heads * 16]);
    let case = Case::new("GroupQueryAttention", 1)
        .domain("com.microsoft")
        .outputs(3)
        .attr("num_heads", Attr::Int(4))
        .attr("kv_num_heads", Attr::Int(2))
        .attr("scale", Attr::Float(0.125))
        .input(heads(4))
        .input(heads(2))
        .input(heads(2))
        .input(floats(&[batch, 2, 20, 16]))
        .input(floats(&[batch, 2, 20, 16]))
        .input(Tensor::from_slice(&[2], &[8_i32, 3]).unwrap())
        .input(Tensor::scalar(9_i32));
    tables(case.clone(), 20, 8).check(within(ERROR));
    tables(case.attr("causal", Attr::Int(0)), 20, 8).check(within(ERROR));
}

#[test]
fn wrong_lengths_and_positions_are_told() {
    let lengths = |last: i32, total: i32, n_positions: usize| {
        let case = Case::new("GroupQueryAttention", 1)
            .domain("com.microsoft")
            .outputs(3)
            .attr("num_heads", Attr::Int(1))
            .attr("kv_num_heads", Attr::Int(1))
            .input(floats(&[1, 1, 16]))
            .input(floats(&[1, 1, 16]))
            .input(floats(&[1, 1, 16]))
            .input(floats(&[1, 1, 4, 16]))
            .input(floats(&[1, 1, 4, 16]))
            .input(Tensor::from_slice(&[1], &[last]).unwrap())
            .input(Tensor::scalar(total));
        tables(case, n_positions, 8).error().to_string()
    };
    for (last, total) in [(3, 9), (9, 4), (-5, 4), (i32::MAX, 4), (3, -1), (i32::MIN, 4)] {
        let error = lengths(last, total, 9);
        assert!(error.contains("no length of the sequences"), "{error}");
    }
    let error = lengths(3, 4, 3);
    assert!(error.contains("the cosines: index 3 is out of range"), "{error}");
}
