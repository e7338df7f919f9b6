//! Shapes that change between runs: results equal those of a new session, whatever was planned before.

use ort_session::{ModelBytes, RunLimits, RunOptions, Session, Tensor, Value};
use ort_testing::Rng;

use crate::model::of_text;

/// Sizes that follow from symbols, from shapes as data, and through views.
const MASKED: &str = "graph(x: float[b,n,4], past: float[b,p,4]) -> (y, all, tail) {
  all = Concat-13 [axis: 1] (past, x)
  shape = Shape-15 [start: 1, end: 2] (all)
  n_past = Shape-15 [start: 1, end: 2] (past)
  zero = const int64[1] [0]
  one = const int64[1] [1]
  tail = Slice-13 (all, n_past, shape, one)
  minus = const int64[1] [-1]
  four = const int64[1] [4]
  flat = Concat-13 [axis: 0] (minus, four)
  rows = Reshape-14 (all, flat)
  w = const float[4,4] fill 0.25
  h = MatMul-13 (rows, w)
  r = Relu-14 (h)
  e = Exp-13 (r)
  s = ReduceSum-13 [keepdims: 1] (e, one)
  f = Div-14 (e, s)
  back = Concat-13 [axis: 0] (minus, shape, four)
  z = Reshape-14 (f, back)
  t = Transpose-13 [perm: [0, 2, 1]] (z)
  u = MatMul-13 (x, t)
  y = Softmax-13 [axis: -1] (u)
}";

/// Data-dependent outputs, and a branch that depends on a flag.
const DYNAMIC: &str = "graph(x: float[n,4], past: float[p,4]) -> (y, z) {
  all = Concat-13 [axis: 0] (past, x)
  r = Relu-14 (all)
  i = NonZero-13 (r)
  t = Transpose-13 [perm: [1, 0]] (i)
  y = GatherND-13 (r, t)
  z = Mul-14 (all, all)
}";

/// Images, whose sizes affect the choice of kernels.
const IMAGES: &str = "graph(x: float[b,3,h,w], past: float[1]) -> (y) {
  k = const float[8,3,3,3] fill 0.1
  a = Conv-11 [pads: [1, 1, 1, 1]] (x, k)
  c = Relu-14 (a)
  m = MaxPool-12 [kernel_shape: [2, 2], strides: [2, 2]] (c)
  g = GlobalAveragePool-1 (m)
  y = Mul-14 (m, g)
}";

fn session(text: &str) -> Session {
    Session::builder().threads(1).commit(ModelBytes::from_vec(of_text(text))).unwrap()
}

fn tensor(rng: &mut Rng, shape: &[usize]) -> Tensor {
    Tensor::from_slice(shape, &rng.uniforms(shape.iter().product())).unwrap()
}

/// Runs the model on inputs of these shapes in sequence, on one session and on new ones.
fn check(text: &str, shapes: &[[Vec<usize>; 2]]) {
    let (kept, mut rng) = (session(text), Rng::new(8));
    for (i, [x, past]) in shapes.iter().enumerate() {
        let (x, past) = (tensor(&mut rng, x), tensor(&mut rng, past));
        let run = |session: &Session| {
            let outputs = session.run([("x", &x), ("past", &past)]);
            outputs.map(|outputs| outputs.into_values()).map_err(|error| error.to_string())
        };
        let expected: Result<Vec<Value>, String> = run(&session(text));
        assert_eq!(run(&kept), expected, "run {i}: {:?} after {:?}", x.shape(), past.shape());
    }
}

/// Lengths that mostly grow by one, with others in between.
fn lengths() -> impl Iterator<Item = (usize, usize)> {
    let steady = (0..70).map(|p| (1, p));
    let jumps = [(7, 70), (1, 77), (1, 0), (3, 0), (1, 500), (1, 501), (0, 9), (1, 9), (2, 1000)];
    steady.chain(jumps).chain((60..64).map(|p| (1, p)))
}

#[test]
fn sizes_that_follow_from_symbols_and_shapes() {
    let shapes: Vec<_> = lengths().map(|(n, p)| [vec![1, n, 4], vec![1, p, 4]]).collect();
    check(MASKED, &shapes);
    let batches = [(1, 5), (2, 6), (3, 7), (1, 8), (0, 8), (4, 8)];
    let shapes: Vec<_> = batches.map(|(b, p)| [vec![b, 2, 4], vec![b, p, 4]]).into();
    check(MASKED, &shapes);
}

#[test]
fn steps_that_depend_on_data() {
    let shapes: Vec<_> = lengths().map(|(n, p)| [vec![n, 4], vec![p, 4]]).collect();
    check(DYNAMIC, &shapes);
}

#[test]
fn images_and_batches() {
    let sizes = [[1, 8, 8], [1, 9, 8], [1, 10, 9], [2, 10, 9], [1, 64, 64], [1, 65, 65], [1, 4, 4]];
    let shapes: Vec<_> = sizes.map(|[b, h, w]| [vec![b, 3, h, w], vec![1]]).into();
    check(IMAGES, &shapes);
}

#[test]
fn a_sufficient_limit_stays_sufficient_after_other_sizes() {
    let (kept, mut rng) = (session(MASKED), Rng::new(9));
    for p in (100..120).chain([90, 100]) {
        let (x, past) = (tensor(&mut rng, &[1, 1, 4]), tensor(&mut rng, &[1, p, 4]));
        let run = |session: &Session, n: usize| {
            let limits = RunLimits { max_bytes: Some(n), ..RunLimits::default() };
            let options = RunOptions::new().limits(limits);
            session.run_with([("x", &x), ("past", &past)], &options).map(drop)
        };
        let (mut too_few, mut enough) = (0_usize, 1_usize << 20);
        while enough - too_few > 1 {
            let n = too_few.midpoint(enough);
            match run(&session(MASKED), n) {
                Ok(()) => enough = n,
                Err(_) => too_few = n,
            }
        }
        // Planned without a limit first, with room to grow.
        assert!(kept.run([("x", &x), ("past", &past)]).is_ok());
        assert_eq!(run(&kept, enough), Ok(()), "{p}");
    }
}

#[test]
fn wrong_shapes_are_reported_as_by_a_new_session() {
    let row = |n: usize| vec![1, n, 4];
    check(MASKED, &[[row(1), row(3)], [row(1), vec![2, 4, 4]], [row(1), row(5)], [row(1), row(6)]]);
}
