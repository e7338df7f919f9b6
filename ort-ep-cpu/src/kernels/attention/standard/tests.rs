//! The standard's attention against its `eval`: forms, pasts, and all that hides keys.

use ort_graph::Attr;
use ort_tensor::{Bool, Tensor};

use crate::case::{Case, floats, within};

/// As for com.microsoft's: operands are at most 4, scores of up to 9 terms of at most 16, times a half, are
/// good to 10 units of 72, weights to twice that relatively.
const ERROR: f32 = 4.0 * 2.0 * 10.0 * 72.0 * f32::EPSILON;

/// Sizes of a call.
#[derive(Clone, Copy)]
struct Call {
    batch: usize,
    /// Heads of queries, and of keys and values.
    heads: [usize; 2],
    q_len: usize,
    new_len: usize,
    past: usize,
    /// Elements of a head of keys, and of values.
    size: [usize; 2],
    /// Whether q, and whether k and v have their heads inside the last dimension.
    is_joined: [bool; 2],
}

const CALL: Call = Call {
    batch: 2,
    heads: [4, 2],
    q_len: 5,
    new_len: 5,
    past: 0,
    size: [8, 6],
    is_joined: [true, true],
};

fn int(n: usize) -> Attr {
    Attr::Int(i64::try_from(n).unwrap())
}

impl Call {
    /// A node of this version: q, k and v.
    fn of(self, version: i32) -> Case {
        let Self { batch, heads: [q_heads, kv_heads], q_len, new_len, size: [d, e], .. } = self;
        let shape = |is_joined, [heads, len, size]: [usize; 3]| match is_joined {
            true => vec![batch, len, heads * size],
            false => vec![batch, heads, len, size],
        };
        let [q_joined, kv_joined] = self.is_joined;
        Case::new("Attention", version)
            .attr("q_num_heads", int(q_heads))
            .attr("kv_num_heads", int(kv_heads))
            .attr("scale", Attr::Float(0.5))
            .input(floats(&shape(q_joined, [q_heads, q_len, d])))
            .input(floats(&shape(kv_joined, [kv_heads, new_len, d])))
            .input(floats(&shape(kv_joined, [kv_heads, new_len, e])))
    }

    /// The same with a mask, a past if it has one, and with what is kept as outputs.
    fn masked(self, version: i32, mask: Option<Tensor>) -> Case {
        let Self { batch, heads: [_, kv_heads], past, size, .. } = self;
        let case = self.of(version);
        let case = match mask {
            Some(mask) => case.input(mask),
            None => case.absent(),
        };
        if past == 0 {
            return case.outputs(3);
        }
        let pasts = size.map(|size| floats(&[batch, kv_heads, past, size]));
        pasts.into_iter().fold(case, Case::input).outputs(3)
    }

    fn kv_len(self) -> usize {
        self.past + self.new_len
    }
}

/// What hides every third key, and all from query 1.
fn biases(shape: &[usize]) -> Tensor {
    let (s, t) = (shape[shape.len() - 2], shape[shape.len() - 1]);
    let bias = |i: usize| match (i / t % s, i % t) {
        (1, _) => f32::NEG_INFINITY,
        (_, j) if j % 3 == 2 => f32::NEG_INFINITY,
        (i, j) => ((i * 7 + j) % 5) as f32 * 0.25,
    };
    let n = shape.iter().product();
    Tensor::from_slice(shape, &(0..n).map(bias).collect::<Vec<_>>()).unwrap()
}

fn flags(shape: &[usize]) -> Tensor {
    let seen: Vec<_> =
        biases(shape).as_slice::<f32>().unwrap().iter().map(|&b| Bool::from(b >= 0.0)).collect();
    Tensor::from_slice(shape, &seen).unwrap()
}

#[test]
fn heads_of_any_form_attend_to_past_and_new() {
    for (heads, [q_len, new_len, past], batch) in [
        ([1, 1], [1, 1, 0], 1),
        ([4, 2], [1, 1, 33], 2),
        ([6, 2], [1, 1, 5], 1),
        ([4, 4], [17, 17, 9], 1),
        ([4, 2], [300, 40, 0], 1),
        ([2, 1], [3, 3, 2], 0),
        ([2, 2], [0, 0, 4], 2),
        ([2, 2], [3, 0, 0], 2),
    ] {
        for is_joined in [[true, true], [false, false], [true, false], [false, true]] {
            let call = Call { batch, heads, q_len, new_len, past, is_joined, ..CALL };
            call.masked(23, None).check(within(ERROR));
            call.masked(24, None).attr("is_causal", Attr::Int(1)).check(within(ERROR));
            call.masked(23, None).unwanted(&[1, 2]).check(within(ERROR));
            if past == 0 {
                call.of(24).check(within(ERROR));
            }
        }
    }
}

#[test]
fn masks_of_any_shape_hide_keys() {
    for call in [Call { past: 4, ..CALL }, Call { q_len: 1, new_len: 1, past: 8, ..CALL }] {
        let (s, t) = (call.q_len, call.kv_len());
        for mask in [
            vec![s, t],
            vec![1, t],
            vec![4, s, t],
            vec![2, 1, s, t],
            vec![2, 4, s, t],
            vec![1, 4, 1, t],
            // A short last dimension hides the rest.
            vec![s, t - 2],
        ] {
            for mask in [biases(&mask), flags(&mask)] {
                let case = call.masked(24, Some(mask));
                case.clone().check(within(ERROR));
                case.clone().attr("softcap", Attr::Float(3.0)).check(within(ERROR));
                case.attr("is_causal", Attr::Int(1)).check(within(ERROR));
            }
        }
    }
}

#[test]
fn windows_slide_with_the_queries() {
    for (left, right) in [(0, -1), (2, -1), (-1, 1), (3, 0), (100, 100)] {
        for call in [CALL, Call { past: 3, ..CALL }, Call { q_len: 1, new_len: 1, past: 8, ..CALL }]
        {
            let case = call.masked(25, None);
            let case = case.attr("left_window_size", Attr::Int(left));
            let case = case.attr("right_window_size", Attr::Int(right));
            case.clone().check(within(ERROR));
            case.attr("is_causal", Attr::Int(1)).check(within(ERROR));
        }
    }
}

#[test]
fn keys_beyond_the_length_of_a_batch_are_not_there() {
    let call = Call { q_len: 3, new_len: 12, is_joined: [false, false], ..CALL };
    for lens in [[12, 3], [5, 1], [0, 12]] {
        let lens = Tensor::from_slice(&[2], &lens.map(i64::from)).unwrap();
        let case = call.of(24).absent().absent().absent().input(lens);
        case.clone().check(within(ERROR));
        case.attr("is_causal", Attr::Int(1)).check(within(ERROR));
    }
    let lens = Tensor::from_slice(&[2], &[13_i64, 1]).unwrap();
    let error = call.of(24).absent().absent().absent().input(lens).error();
    assert!(error.to_string().contains("length"), "{error}");
}

#[test]
fn what_is_hidden_may_be_anything() {
    let one = |values: &[f32]| Tensor::from_slice(&[1, values.len(), 1], values).unwrap();
    let lens = Tensor::from_slice(&[1], &[1_i64]).unwrap();
    let case = Case::new("Attention", 24)
        .attr("q_num_heads", int(1))
        .attr("kv_num_heads", int(1))
        .input(one(&[1.0]))
        .input(one(&[1.0, f32::NAN]))
        .input(one(&[5.0, f32::NAN]));
    case.absent().absent().absent().input(lens).check(within(ERROR));
}
