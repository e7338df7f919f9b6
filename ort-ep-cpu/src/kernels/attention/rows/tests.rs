//! MultiHeadAttention, its form for a step of a decoder, and Attention of projections against their `eval`.

use ort_graph::Attr;
use ort_tensor::Tensor;

use crate::case::{Case, bytes, floats, integers, within};

/// Operands are at most 4. A score of up to 9 terms of at most 16, times a half, is good to 10
/// units of 72; so is the exponential of it, relatively, and the sum and the weights that are
/// made of it to twice that; results are means of values.
const ERROR: f32 = 4.0 * 2.0 * 10.0 * 72.0 * f32::EPSILON;

/// What is projected is at most 4·4·9 + 4 = 148 and good to 10 units of that; scores of 5 products of
/// such by 1/1024, at most 107, to 26 of that; exponentials as far, weights to twice as much.
const PROJECTED: f32 = 148.0 * 2.0 * 26.0 * 107.0 * f32::EPSILON;

fn case(heads: i64) -> Case {
    let case = Case::new("MultiHeadAttention", 1).domain("com.microsoft");
    case.attr("num_heads", Attr::Int(heads)).attr("scale", Attr::Float(0.5))
}

#[test]
fn heads_of_any_number_and_size_attend_to_each_other() {
    // Heads, batch, queries, keys, sizes of keys and of values.
    for [n, b, s, t, d, e] in [
        [1, 1, 1, 1, 1, 1],
        [2, 1, 3, 5, 4, 4],
        [3, 2, 17, 17, 8, 8],
        [4, 2, 300, 40, 9, 5],
        [2, 3, 1, 33, 8, 16],
        [2, 0, 3, 3, 4, 4],
        [2, 2, 0, 3, 4, 4],
        [2, 2, 3, 0, 4, 4],
    ] {
        let operands = |case: Case| {
            case.input(floats(&[b, s, n * d])).input(floats(&[b, t, n * d])).input(floats(&[
                b,
                t,
                n * e,
            ]))
        };
        let heads = i64::try_from(n).unwrap();
        operands(case(heads)).check(within(ERROR));
        for [of_batch, of_heads] in [[b, n], [1, n], [b, 1], [1, 1]] {
            let case = operands(case(heads)).absent().absent();
            case.input(floats(&[of_batch, of_heads, s, t])).check(within(ERROR));
        }
    }
}

#[test]
fn queries_may_see_no_later_keys() {
    for [s, t] in [[5, 5], [1, 4], [4, 6], [7, 3]] {
        let case = case(2).attr("unidirectional", Attr::Int(1));
        let case = case.input(floats(&[2, s, 8])).input(floats(&[2, t, 8]));
        case.input(floats(&[2, t, 8])).check(within(ERROR));
    }
}

#[test]
fn what_is_hidden_does_not_count() {
    let (s, t) = (3, 4);
    let mut bias = vec![0.0_f32; s * t];
    bias[1] = f32::NEG_INFINITY;
    bias[t..2 * t].fill(f32::NEG_INFINITY);
    bias[2 * t..].fill(f32::MIN);
    let bias = Tensor::from_slice(&[1, 1, s, t], &bias).unwrap();
    let case = case(2).input(floats(&[1, s, 8])).input(floats(&[1, t, 8]));
    case.input(floats(&[1, t, 8])).absent().absent().input(bias).check(within(ERROR));
}

#[test]
fn flags_hide_keys() {
    let (b, s, t) = (2, 3, 4);
    let flags = Tensor::from_slice(&[b, t], &[1, 1, 0, 1, 0, 0, 1, 0]).unwrap();
    let case = case(2).attr("mask_filter_value", Attr::Float(-3.0)).input(floats(&[b, s, 8]));
    let case = case.input(floats(&[b, t, 8])).input(floats(&[b, t, 8])).absent().input(flags);
    case.clone().check(within(ERROR));
    case.input(floats(&[1, 1, s, t])).check(within(ERROR));
}

#[test]
fn queries_keys_and_values_are_projections() {
    // Heads, batch, length, depth, sizes of keys and of values.
    for [n, b, s, i, d, e] in
        [[1, 1, 1, 1, 1, 1], [2, 2, 5, 7, 4, 4], [3, 1, 140, 9, 2, 5], [2, 0, 3, 4, 2, 2]]
    {
        let width = n * (d + d + e);
        let ints = |sizes: [usize; 3]| {
            Attr::Ints(sizes.iter().map(|&n| i64::try_from(n).unwrap()).collect())
        };
        let case = Case::new("Attention", 1).domain("com.microsoft");
        let case = case
            .attr("num_heads", Attr::Int(i64::try_from(n).unwrap()))
            .attr("scale", Attr::Float(1.0 / 1024.0))
            .attr("unidirectional", Attr::Int(i64::from(b == 2)))
            .attr("qkv_hidden_sizes", ints([n * d, n * d, n * e]))
            .input(floats(&[b, s, i]))
            .weight(floats(&[i, width]));
        case.clone().check(within(PROJECTED));
        let case = case.weight(floats(&[width]));
        case.clone().check(within(PROJECTED));
        let flags: Vec<i32> = (0..b * s).map(|i| i32::from(i % 3 != 1)).collect();
        let flags = Tensor::from_slice(&[b, s], &flags).unwrap();
        case.input(flags).check(within(PROJECTED));
    }
}

/// Sizes of a call: batch, queries, keys and the past's, heads, sizes of keys and of values.
type Call = [usize; 7];

const CALLS: [Call; 5] = [
    [1, 1, 1, 0, 1, 4, 4],
    [2, 5, 5, 7, 2, 8, 6],
    [2, 1, 1, 300, 3, 16, 16],
    [1, 130, 130, 33, 2, 4, 4],
    [2, 3, 40, 0, 2, 5, 5],
];

#[test]
fn a_past_comes_before_what_is_new_and_each_has_a_bias() {
    for [b, s, l, past, n, d, e] in CALLS {
        for (is_causal, has_bias) in [(0, false), (1, true)] {
            let case = case(i64::try_from(n).unwrap()).attr("unidirectional", Attr::Int(is_causal));
            let case = case.outputs(3).input(floats(&[b, s, n * d])).input(floats(&[b, l, n * d]));
            let case = case.input(floats(&[b, l, n * e]));
            let bias = || floats(&[2 * n * d + n * e]);
            let case = if has_bias { case.input(bias()) } else { case.absent() };
            let case = case.absent().absent();
            let case = case.input(floats(&[b, n, past, d])).input(floats(&[b, n, past, e]));
            case.clone().check(within(16.0 * ERROR));
            case.unwanted(&[1, 2]).check(within(16.0 * ERROR));
        }
    }
}

#[test]
fn masks_have_many_forms() {
    let flags = |shape: &[usize]| bytes(shape, |byte| i32::from(byte) % 3);
    for [b, s, l, past, n, d, e] in CALLS {
        let t = l + past;
        let of_batch = |of: fn(usize, usize) -> usize, n: usize| {
            let ends = (0..n).map(|i| i32::try_from(of(i, n)).unwrap()).collect::<Vec<_>>();
            Tensor::from_slice(&[n], &ends).unwrap()
        };
        let masks = [
            flags(&[b, t]),
            flags(&[b, s, t]),
            flags(&[b, 1, t + 3, t + 3]),
            flags(&[1, 1]),
            of_batch(|i, n| n - i, b),
            of_batch(|i, n| if i < n / 2 { 3 + i } else { i - n / 2 }, 2 * b),
            of_batch(|i, _| 2 + i, 3 * b + 2),
        ];
        for (mask, has_biases) in masks.iter().flat_map(|mask| [(mask, false), (mask, true)]) {
            let case = case(i64::try_from(n).unwrap()).attr("mask_filter_value", Attr::Float(-5.0));
            let case = case.input(floats(&[b, s, n * d])).input(floats(&[b, l, n * d]));
            let case = case.input(floats(&[b, l, n * e])).absent().input(mask.clone());
            let case = if has_biases { case.input(floats(&[1, n, s, t])) } else { case.absent() };
            let case = case.input(floats(&[b, n, past, d])).input(floats(&[b, n, past, e]));
            case.check(within(ERROR));
        }
    }
}

#[test]
fn operands_come_by_head_and_packed() {
    for [b, s, l, _, n, d, e] in CALLS {
        let case = || case(i64::try_from(n).unwrap());
        let q = || floats(&[b, s, n * d]);
        let heads = case().input(q()).input(floats(&[b, n, l, d])).input(floats(&[b, n, l, e]));
        heads.check(within(ERROR));
        let bias = || floats(&[3 * n * d]);
        let keys = case().input(q()).input(floats(&[b, l, n, 2, d])).absent();
        keys.clone().check(within(ERROR));
        keys.input(bias()).check(within(16.0 * ERROR));
        let all = case().outputs(3).input(floats(&[b, s, n, 3, d])).absent().absent();
        all.clone().check(within(ERROR));
        all.input(bias()).check(within(16.0 * ERROR));
    }
}

#[test]
fn a_step_of_a_decoder_goes_into_the_buffer() {
    for (n, d, capacity, used) in [(2, 8, 5, 0), (3, 16, 700, 600), (1, 4, 9, 8)] {
        for (is_packed, is_shared) in [(false, false), (false, true), (true, true), (true, false)] {
            let case = Case::new("DecoderMaskedMultiHeadAttention", 1).domain("com.microsoft");
            let case = case
                .outputs(3)
                .attr("num_heads", Attr::Int(i64::try_from(n).unwrap()))
                .attr("scale", Attr::Float(0.5))
                .attr("past_present_share_buffer", Attr::Int(i64::from(is_shared)));
            let row = || floats(&[2, 1, n * d]);
            let case = match is_packed {
                true => case.input(floats(&[2, 1, 3 * n * d])).absent().absent(),
                false => case.input(row()).input(row()).input(row()),
            };
            let total = if is_shared { used + 1 } else { capacity + 1 };
            let mask = bytes(&[2, total], |byte| i32::from(byte) % 3);
            let past = || floats(&[2, n, capacity, d]);
            let case = case.input(mask).absent().input(past()).input(past());
            let used = Tensor::from_slice(&[1], &[i32::try_from(used).unwrap()]).unwrap();
            let case = case.input(used).absent().absent().input(floats(&[3 * n * d]));
            case.check(within(16.0 * ERROR));
        }
    }
}

#[test]
fn projections_have_a_past() {
    for (is_shared, capacity, used) in [(false, 7, 7), (true, 30, 7), (false, 0, 0)] {
        let (n, d, i, s) = (2, 4, 5, 3);
        let case = Case::new("Attention", 1).domain("com.microsoft").outputs(2);
        let case = case
            .attr("num_heads", Attr::Int(2))
            .attr("scale", Attr::Float(1.0 / 1024.0))
            .attr("unidirectional", Attr::Int(1))
            .attr("past_present_share_buffer", Attr::Int(i64::from(is_shared)))
            .input(floats(&[2, s, i]))
            .weight(floats(&[i, 3 * n * d]))
            .weight(floats(&[3 * n * d]))
            .input(bytes(&[2, used + s], |byte| i32::from(byte) % 3))
            .input(floats(&[2, 2, n, capacity, d]))
            .absent()
            .input(Tensor::from_slice(&[1], &[i32::try_from(used).unwrap()]).unwrap());
        case.check(within(PROJECTED));
    }
}

#[test]
fn projections_of_bytes_are_scaled() {
    let (signed, unsigned) = (Tensor::scalar(-3_i8), Tensor::scalar(131_u8));
    let given = |is_signed: bool, shape: &[usize]| match is_signed {
        true => bytes(shape, u8::cast_signed),
        false => bytes(shape, |byte| byte),
    };
    // Batch, length, depth, heads, size and past.
    for [b, s, i, n, d, past] in
        [[1, 1, 1, 1, 1, 0], [2, 5, 7, 2, 4, 3], [1, 140, 33, 3, 8, 0], [2, 3, 64, 2, 40, 9]]
    {
        for (form, [is_x_signed, is_w_signed]) in
            [[false, true], [true, false], [true, true]].into_iter().enumerate()
        {
            let width = 3 * n * d;
            // Sums of at most 64 products of 256·256, times this: a projection is at most 4.
            let w_scales = bytes(&[width], |byte| f32::from(byte) * 2_f32.powi(-22));
            let one = Tensor::scalar(2_f32.powi(-14));
            let zero = |is_signed: bool| if is_signed { signed.clone() } else { unsigned.clone() };
            let case = Case::new("QAttention", 1)
                .domain("com.microsoft")
                .outputs(2)
                .attr("num_heads", Attr::Int(i64::try_from(n).unwrap()))
                .attr("unidirectional", Attr::Int(i64::from(form == 1)))
                .input(given(is_x_signed, &[b, s, i]))
                .constant(given(is_w_signed, &[i, width]))
                .input(integers(&[width]))
                .input(Tensor::scalar(0.25_f32))
                .input(if form == 0 { one } else { w_scales })
                .input(bytes(&[b, past + s], |byte| i32::from(byte) % 3))
                .input(zero(is_x_signed));
            let zeros = match form {
                0 => given(is_w_signed, &[width]),
                _ => zero(is_w_signed),
            };
            let case = case.constant(zeros);
            let case = match past {
                0 => case.unwanted(&[1]),
                _ => case.input(floats(&[2, b, n, past, d])),
            };
            case.check(within(PROJECTED));
        }
    }
}
