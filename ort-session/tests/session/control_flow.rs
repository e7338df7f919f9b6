//! Loops compute the same as separate runs of their bodies on copies.

use ort_session::{Bool, Level, ModelBytes, RunInputs, Session, Tensor, Value};
use ort_testing::Rng;

use crate::model::of_text;

/// The kinds of states: fixed, growing along either axis, a sequence, and one number.
const STATES: [&str; 5] = ["a", "b", "g", "k", "s"];

const CONSTANTS: &str = "
    two = const int64[1] [2]
    first = const int64[] 0
    last = const int64[] -1
    axes = const int64[1] [0]
    rows = const int64[2] [3, 2]
    flat = const int64[2] [2, 3]";

/// Operations of a body on its states, which are named `_in` and `_out`; `v` is captured.
const STEPS: [&[&str]; 5] = [
    &[
        "a_out = Identity-16 (b_in)",
        "a_out = Identity-16 (a_in)",
        "a_out = Add-14 (a_in, v)",
        "r1 = Reshape-14 (a_in, rows) r2 = Neg-13 (r1) a_out = Reshape-14 (r2, flat)",
        "w1 = Identity-16 (a_in) a_out = Identity-16 (w1)",
        "a_out = SequenceAt-11 (s_in, last)",
        "u1 = Slice-13 (g_in, axes, two, axes) a_out = Mul-14 (u1, v)",
    ],
    &[
        "b_out = Identity-16 (a_in)",
        "b_out = Mul-14 (a_in, b_in)",
        "b_out = Reshape-14 (b_in, flat)",
        "b_out = Sub-14 (v, a_in)",
    ],
    &[
        "g_out = Concat-13 [axis: 0] (g_in, a_in)",
        "g_out = Concat-13 [axis: 0] (g_in, g_in)",
        "g_out = Concat-13 [axis: 0] (a_in, g_in, b_in)",
        "n1 = Neg-13 (g_in) g_out = Concat-13 [axis: 0] (n1, v)",
        "g_out = Concat-13 [axis: -2] (g_in, v) n2 = Identity-16 (g_in)",
        "g_out = Identity-16 (g_in)",
    ],
    &[
        "k_out = Concat-13 [axis: 1] (k_in, a_in)",
        "k_out = Concat-13 [axis: 1] (k_in, a_in, v)",
        "p1 = Concat-13 [axis: 1] (k_in, v) k_out = Concat-13 [axis: 1] (p1, b_in)",
        "k_out = Abs-13 (k_in)",
    ],
    &[
        "s_out = SequenceInsert-11 (s_in, a_in)",
        "s_out = SequenceInsert-11 (s_in, k_in, first)",
        "q1 = SequenceInsert-11 (s_in, g_in, last) s_out = SequenceErase-11 (q1, first)",
        "q2 = SequenceInsert-11 (s_in, b_in) s_out = SequenceInsert-11 (q2, v)",
        "s_out = Identity-16 (s_in)",
    ],
];

/// A body, from its opening brace; it continues while `i` is below `limit`.
fn body(rng: &mut Rng, limit: usize) -> String {
    let mut text = String::from("{");
    text.push_str(CONSTANTS);
    text.push_str(&format!("\n    limit = const int64[] {limit}\n    on = Less-13 (i, limit)"));
    for steps in STEPS {
        let step = steps[rng.index(steps.len())];
        text.push_str(&format!("\n    {step}"));
    }
    let extra = ["x = Neg-13 (a_out)", "x = Identity-16 (b_in)", "x = Identity-16 (v)"];
    text.push_str(&format!("\n    {}\n    y = Add-14 (a_in, b_in)\n  }}", extra[rng.index(3)]));
    text
}

const INPUTS: &str = "a_in: float[2,3], b_in: float[2,3], g_in: float[?,3], k_in: float[2,?], \
                      s_in: seq(float[...])";
const OUTPUTS: &str = "on, a_out, b_out, g_out, k_out, s_out, x, y";

fn session(text: &str, level: Level, n_threads: usize) -> Session {
    let builder = Session::builder().level(level).threads(n_threads);
    builder.commit(ModelBytes::from_vec(of_text(text))).unwrap()
}

fn run(session: &Session, inputs: &[Value]) -> Vec<Value> {
    session.run(RunInputs::positional(inputs)).unwrap().into_values()
}

/// The result of the loop if each iteration is a separate run.
fn iterated(body: &Session, states: &[Value], v: &Value, trips: i64) -> Vec<Value> {
    let (mut states, mut kept) = (states.to_vec(), [Vec::new(), Vec::new()]);
    for i in 0..trips {
        let mut inputs = vec![Tensor::scalar(i).into(), Tensor::scalar(Bool::from(true)).into()];
        inputs.extend(states.iter().cloned().chain([v.clone()]));
        let mut made = run(body, &inputs);
        let stacked = made.split_off(1 + STATES.len());
        kept.iter_mut().zip(stacked).for_each(|(all, one)| all.push(one));
        states = made.split_off(1);
        if !made[0].as_tensor().unwrap().as_slice::<Bool>().unwrap()[0].get() {
            break;
        }
    }
    states.into_iter().chain(kept.iter().map(|all| stacked(all))).collect()
}

fn stacked(values: &[Value]) -> Value {
    let floats = values.iter().flat_map(|value| value.as_tensor().unwrap().as_slice().unwrap());
    let floats: Vec<f32> = floats.copied().collect();
    Tensor::from_slice(&[values.len(), 2, 3], &floats).unwrap().into()
}

fn floats(rng: &mut Rng, shape: &[usize]) -> Tensor {
    let n = shape.iter().product();
    let floats: Vec<f32> = (0..n).map(|_| rng.uniform()).collect();
    Tensor::from_slice(shape, &floats).unwrap()
}

#[test]
fn a_loop_equals_separate_iterations_on_copies() {
    let mut rng = Rng::new(19);
    for round in 0..150 {
        let limit = rng.index(9);
        let body_text = body(&mut rng, limit);
        let alone = format!(
            "graph(i: int64[], go: bool[], {INPUTS}, v: float[2,3]) -> ({OUTPUTS}) {body_text}"
        );
        let looped = format!(
            "graph(m: int64[], {INPUTS}, v: float[2,3]) -> (a, b, g, k, s, xs, ys) {{
               a, b, g, k, s, xs, ys = Loop-16 [
                 body: graph(i: int64[], go: bool[], {INPUTS}) -> ({OUTPUTS}) {body_text}
               ] (m, _, a_in, b_in, g_in, k_in, s_in)
             }}"
        )
        // The names in the body are renamed.
        .replace("(m, _, a_in, b_in, g_in, k_in, s_in)", "(m, _, a0, b0, g0, k0, s0)")
        .replacen(INPUTS, &INPUTS.replace("_in", "0"), 1);
        let tensors: Vec<Tensor> =
            [[2, 3], [2, 3], [2, 3], [2, 1]].iter().map(|shape| floats(&mut rng, shape)).collect();
        let mut states: Vec<Value> = tensors.into_iter().map(Value::from).collect();
        let item = floats(&mut rng, &[2, 3]).into();
        states.push(Value::Sequence(vec![item]));
        let v: Value = floats(&mut rng, &[2, 3]).into();
        let level = [Level::Disable, Level::All][round % 2];
        let (body, looped) =
            (session(&alone, level, 1), session(&looped, level, 1 + round / 2 % 2));
        // Several times, for the state that one run leaves to the next.
        for trips in [rng.index(7), 0, rng.index(7)] {
            let trips = i64::try_from(trips).unwrap();
            let mut inputs = vec![Tensor::scalar(trips).into()];
            inputs.extend(states.iter().cloned().chain([v.clone()]));
            let expected = iterated(&body, &states, &v, trips);
            let mut found = run(&looped, &inputs);
            // Without an iteration, the shape of a stacked output may be unknown.
            for stack in found.iter_mut().skip(STATES.len()).filter(|_| trips == 0) {
                assert!(stack.as_tensor().unwrap().is_empty());
                *stack = stacked(&[]);
            }
            assert_eq!(found, expected, "{trips} trips, limit {limit}\n{alone}");
        }
    }
}

/// `h, ys, zs = Scan(h0; xs, ws)` along these axes, in these directions.
fn scan_text(axes: [i64; 4], reversed: [i64; 4]) -> String {
    let [x, w, y, z] = axes;
    let [rx, rw, ry, rz] = reversed;
    format!(
        "graph(h0: float[2,3], xs: float[?,?,?], ws: float[?,?,?]) -> (h, ys, zs) {{
           h, ys, zs = Scan-16 [
             body: graph(h_in: float[2,3], x: float[2,3], w: float[2,3]) -> (h_out, t, u) {{
               t = Mul-14 (h_in, x)
               h_out = Add-14 (t, w)
               u = Identity-16 (w)
             }},
             num_scan_inputs: 2, scan_input_axes: [{x}, {w}], scan_input_directions: [{rx}, {rw}],
             scan_output_axes: [{y}, {z}], scan_output_directions: [{ry}, {rz}]
           ] (h0, xs, ws)
         }}"
    )
}

/// Element `[i, j]` of slice `t` along `axis` of a tensor of `n` slices of [2, 3].
fn place(axis: usize, n: usize, t: usize, i: usize, j: usize) -> usize {
    match axis {
        0 => (t * 2 + i) * 3 + j,
        1 => (i * n + t) * 3 + j,
        _ => (i * 3 + j) * n + t,
    }
}

#[test]
fn a_scan_reads_and_writes_slices_along_any_axis_in_any_direction() {
    let mut rng = Rng::new(20);
    for _ in 0..40 {
        let n = rng.index(5) + 1;
        let axes = [0; 4].map(|_| rng.index(3));
        let reversed = [0; 4].map(|_| rng.index(2));
        let signed = |axis: usize| i64::try_from(axis).unwrap() - 3 * i64::from(axis == 2);
        let text = scan_text(axes.map(signed), reversed.map(|it| i64::try_from(it).unwrap()));
        let shape = |axis| {
            let mut shape = vec![2, 3];
            shape.insert(axis, n);
            shape
        };
        let h0 = floats(&mut rng, &[2, 3]);
        let (xs, ws) = (floats(&mut rng, &shape(axes[0])), floats(&mut rng, &shape(axes[1])));
        let at = |which: usize, t: usize| if reversed[which] == 1 { n - 1 - t } else { t };
        let mut h = h0.as_slice::<f32>().unwrap().to_vec();
        let (mut ys, mut zs) = (vec![0.0; n * 6], vec![0.0; n * 6]);
        let (x, w) = (xs.as_slice::<f32>().unwrap(), ws.as_slice::<f32>().unwrap());
        for t in 0..n {
            for (i, j) in (0..2).flat_map(|i| (0..3).map(move |j| (i, j))) {
                let w = w[place(axes[1], n, at(1, t), i, j)];
                let product = h[i * 3 + j] * x[place(axes[0], n, at(0, t), i, j)];
                ys[place(axes[2], n, at(2, t), i, j)] = product;
                zs[place(axes[3], n, at(3, t), i, j)] = w;
                h[i * 3 + j] = product + w;
            }
        }
        let expected: [Value; 3] = [
            Tensor::from_slice(&[2, 3], &h).unwrap().into(),
            Tensor::from_slice(&shape(axes[2]), &ys).unwrap().into(),
            Tensor::from_slice(&shape(axes[3]), &zs).unwrap().into(),
        ];
        let session = session(&text, Level::Disable, 1);
        for _ in 0..2 {
            let inputs = [h0.clone().into(), xs.clone().into(), ws.clone().into()];
            assert_eq!(run(&session, &inputs), expected, "{text}");
        }
    }
}

#[test]
fn nested_loops_and_branches_grow_their_states() {
    // Row i of the outer loop appends i + 1 rows to the growing state, but not in its third iteration.
    let text = "graph(m: int64[], g0: float[?,2], v: float[1,2]) -> (g, n) {
        g, n = Loop-16 [
          body: graph(i: int64[], go: bool[], g_in: float[?,2]) -> (go, g_out, rows) {
            one = const int64[] 1
            two = const int64[] 2
            inner = Add-14 (i, one)
            is_third = Equal-13 (i, two)
            g_out = If-16 [
              then_branch: graph() -> (same) { same = Identity-16 (g_in) },
              else_branch: graph() -> (grown) {
                grown = Loop-16 [
                  body: graph(j: int64[], on: bool[], k_in: float[?,2]) -> (on, k_out) {
                    k_out = Concat-13 [axis: 0] (k_in, v)
                  }
                ] (inner, _, g_in)
              }
            ] (is_third)
            rows = Shape-15 (g_out)
          }
        ] (m, _, g0)
      }";
    let session = session(text, Level::All, 1);
    let (g0, v) = ([1.0_f32, 2.0], [3.0_f32, 4.0]);
    for trips in [5_i64, 0, 3, 5] {
        let n_rows: Vec<i64> = (0..trips)
            .scan(1, |rows, i| {
                *rows += if i == 2 { 0 } else { i + 1 };
                Some(*rows)
            })
            .collect();
        let n = n_rows.last().map_or(1, |&n| usize::try_from(n).unwrap());
        let mut expected = g0.to_vec();
        (1..n).for_each(|_| expected.extend(v));
        let inputs = [
            Tensor::scalar(trips).into(),
            Tensor::from_slice(&[1, 2], &g0).unwrap().into(),
            Tensor::from_slice(&[1, 2], &v).unwrap().into(),
        ];
        let made = run(&session, &inputs);
        assert_eq!(made[0], Tensor::from_slice(&[n, 2], &expected).unwrap().into());
        let rows: Vec<i64> = n_rows.iter().flat_map(|&n| [n, 2]).collect();
        let rows = Tensor::from_slice(&[n_rows.len(), 2], &rows).unwrap();
        assert_eq!(made[1], rows.into());
    }
}

#[test]
fn wrong_inputs_of_control_flow_are_typed_errors() {
    for (text, expected) in [
        (
            "graph(x: float[2,2], c: bool[]) -> (y) {
               y = If-16 [
                 then_branch: graph(a: float[2,2]) -> (b) { b = Identity-16 (a) },
                 else_branch: graph(a: float[2,2]) -> (a) { }
               ] (c)
             }",
            ["missing", "not computed"],
        ),
        (
            "graph(x: float[2,2], c: bool[]) -> (y, z) {
               s = const float[1,3,2] [1, 2, 3, 4, 5, 6]
               y, z = Scan-8 [
                 body: graph(a: float[2], b: float[2]) -> (d, e) {
                   d = Add-7 (a, b)
                   e = Identity-1 (d)
                 },
                 num_scan_inputs: 1
               ] (_, x, s)
             }",
            ["has another batch size than input 1"; 2],
        ),
        (
            "graph(x: float[?,2], c: bool[]) -> (y, n) {
               trips = const int64[] 2
               v, y = Loop-16 [
                 body: graph(i: int64[], c_in: bool[], v_in: float[1,2]) -> (c_out, v_out, w) {
                   c_out = Identity-16 (c_in)
                   v_out = Neg-13 (v_in)
                   w = Identity-16 (v_in)
                 }
               ] (trips, _, x)
               n = Shape-15 (y)
             }",
            ["input `v_in`: expected float[1,2], found float[2,2]"; 2],
        ),
    ] {
        let session = Session::builder().level(Level::Disable);
        let session = session.commit(ModelBytes::from_vec(of_text(text))).unwrap();
        for (c, expected) in [true, false].into_iter().zip(expected) {
            let x = Value::Tensor(Tensor::from_slice(&[2, 2], &[1.0_f32; 4]).unwrap());
            let c = Value::Tensor(Tensor::from_slice(&[], &[Bool::from(c)]).unwrap());
            let error = session.run([("x", x), ("c", c)]).map(drop).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("panicked"), "{error}");
        }
    }
}
