//! Attention as exporters write it out: one operator, which computes what all of it does.

use ort_session::{
    Bool, Level, ModelBytes, Pack, RunInputs, Session, SessionBuilder, Tensor, Value,
};
use ort_testing::Rng;

use crate::model::of_text;

/// 12 heads of 64 elements by row, and what lies in between as a model writes it.
struct Form {
    name: &'static str,
    /// How many heads keys and values have.
    kv_heads: usize,
    /// What is given beside queries, keys and values, and the past.
    inputs: &'static str,
    /// `o`, of `qh`, `present.0.key` and `present.0.value`, by head.
    nodes: &'static str,
}

/// GPT-2: scores are divided and replaced by the lowest number, and a mask for padding is added.
const GPT2: Form = Form {
    name: "GPT-2",
    kv_heads: 12,
    inputs: "seen: bool[1,1,n,t], mask: float[b,1,1,t]",
    nodes: "
  kt = Transpose-13 [perm: [0, 1, 3, 2]] (present.0.key)
  s = MatMul-13 (qh, kt)
  root = const float[] 8.0
  d = Div-14 (s, root)
  lowest = const float[] -340282350000000000000000000000000000000
  w = Where-16 (seen, d, lowest)
  m = Add-14 (w, mask)
  p = Softmax-13 [axis: -1] (m)
  o = MatMul-13 (p, present.0.value)",
};

/// A causal mask that is cut from a table.
const TABLE: Form = Form {
    name: "a table",
    kv_heads: 12,
    inputs: "table: float[1024,1024]",
    nodes: "
  past = Shape-15 [start: 2, end: 3] (past.0.key)
  new = Shape-15 [start: 1, end: 2] (q)
  total = Add-14 (past, new)
  zero = const int64[1] [0]
  one = const int64[1] [1]
  rows = Slice-13 (table, past, total, zero)
  mask = Slice-13 (rows, zero, total, one)
  kt = Transpose-13 [perm: [0, 1, 3, 2]] (present.0.key)
  s = MatMul-13 (qh, kt)
  root = const float[] 8.0
  d = Div-14 (s, root)
  m = Add-14 (d, mask)
  p = Softmax-13 [axis: -1] (m)
  o = MatMul-13 (p, present.0.value)",
};

/// PyTorch's scaled_dot_product_attention of flags: both operands are scaled, and queries that see nothing have
/// zeros.
const FLAGS: Form = Form {
    name: "scaled_dot_product_attention",
    kv_heads: 12,
    inputs: "seen: bool[b,1,n,t]",
    nodes: "
  kt = Transpose-13 [perm: [0, 1, 3, 2]] (present.0.key)
  root = const float[] 0.35355338
  qs = Mul-14 (qh, root)
  ks = Mul-14 (kt, root)
  s = MatMul-13 (qs, ks)
  zero = const float[1] [0.0]
  none = const float[1] [-inf]
  f = Where-16 (seen, zero, none)
  m = Add-14 (s, f)
  w = Softmax-13 [axis: -1] (m)
  wrong = IsNaN-13 (w)
  p = Where-16 (wrong, zero, w)
  o = MatMul-13 (p, present.0.value)",
};

/// Llama: rotated queries, and keys and values of which 3 heads of queries share each.
const LLAMA: Form = Form {
    name: "Llama",
    kv_heads: 4,
    inputs: "cos: float[1,1,n,64], sin: float[1,1,n,64], mask: float[b,1,n,t]",
    nodes: "
  zero = const int64[1] [0]
  half = const int64[1] [32]
  end = const int64[1] [9223372036854775807]
  last = const int64[1] [3]
  q1 = Slice-13 (qh, zero, half, last)
  q2 = Slice-13 (qh, half, end, last)
  q3 = Neg-13 (q2)
  turned = Concat-13 [axis: -1] (q3, q1)
  qc = Mul-14 (qh, cos)
  qs = Mul-14 (turned, sin)
  rotated = Add-14 (qc, qs)
  two = const int64[1] [2]
  heads = const int64[1] [4]
  times = const int64[1] [3]
  size = const int64[1] [64]
  all = const int64[1] [12]
  shape = Shape-15 (present.0.key)
  batch = Gather-13 [axis: 0] (shape, zero)
  len = Gather-13 [axis: 0] (shape, two)
  wide = Concat-13 [axis: 0] (batch, heads, times, len, size)
  whole = Concat-13 [axis: 0] (batch, all, len, size)
  k1 = Unsqueeze-13 (present.0.key, two)
  k2 = Expand-13 (k1, wide)
  k3 = Reshape-14 (k2, whole)
  v1 = Unsqueeze-13 (present.0.value, two)
  v2 = Expand-13 (v1, wide)
  v3 = Reshape-14 (v2, whole)
  kt = Transpose-13 [perm: [0, 1, 3, 2]] (k3)
  s = MatMul-13 (rotated, kt)
  scale = const float[] 0.125
  d = Mul-14 (s, scale)
  m = Add-14 (d, mask)
  p = Softmax-13 [axis: -1] (m)
  o = MatMul-13 (p, v3)",
};

/// Gemma 2: scores have a cap, and 3 heads of queries share keys and values.
const GEMMA2: Form = Form {
    name: "Gemma 2",
    kv_heads: 4,
    inputs: "mask: float[b,1,n,t]",
    nodes: "
  each = const int64[12] [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
  k3 = Gather-13 [axis: 1] (present.0.key, each)
  v3 = Gather-13 [axis: 1] (present.0.value, each)
  kt = Transpose-13 [perm: [0, 1, 3, 2]] (k3)
  s = MatMul-13 (qh, kt)
  scale = const float[] 0.125
  cap = const float[] 0.5
  d = Mul-14 (s, scale)
  c = Div-14 (d, cap)
  bent = Tanh-13 (c)
  capped = Mul-14 (bent, cap)
  m = Add-14 (capped, mask)
  p = Softmax-13 [axis: -1] (m)
  o = MatMul-13 (p, v3)",
};

impl Form {
    fn bytes(&self) -> ModelBytes {
        let Self { kv_heads, inputs, nodes, .. } = self;
        let width = kv_heads * 64;
        let kept = format!("float[b,{kv_heads}");
        ModelBytes::from_vec(of_text(&format!(
            "graph(q: float[b,n,768], k: float[b,n,{width}], v: float[b,n,{width}], {inputs}, past.0.key: {kept},p,64], past.0.value: {kept},p,64]) -> (y, present.0.key, present.0.value) {{
  split = const int64[4] [0, 0, 12, 64]
  split_kept = const int64[4] [0, 0, {kv_heads}, 64]
  merge = const int64[3] [0, 0, 768]
  q4 = Reshape-14 (q, split)
  k4 = Reshape-14 (k, split_kept)
  v4 = Reshape-14 (v, split_kept)
  qh = Transpose-13 [perm: [0, 2, 1, 3]] (q4)
  kh = Transpose-13 [perm: [0, 2, 1, 3]] (k4)
  vh = Transpose-13 [perm: [0, 2, 1, 3]] (v4)
  present.0.key: {kept},t,64] = Concat-13 [axis: -2] (past.0.key, kh)
  present.0.value: {kept},t,64] = Concat-13 [axis: -2] (past.0.value, vh)
  {nodes}
  r = Transpose-13 [perm: [0, 2, 1, 3]] (o)
  y = Reshape-14 (r, merge)
}}"
        )))
    }

    fn session(&self, level: Level) -> Session {
        self.builder(level).commit(self.bytes()).unwrap()
    }

    fn builder(&self, level: Level) -> SessionBuilder {
        Session::builder().threads(1).level(level)
    }

    /// What a step is given of `n` tokens behind `past` others.
    fn inputs(&self, [past, n]: [usize; 2], rng: &mut Rng) -> Vec<(&'static str, Value)> {
        let total = past + n;
        let mut random = |shape: &[usize]| {
            let numbers = rng.uniforms(shape.iter().product());
            Value::from(Tensor::from_slice(shape, &numbers).unwrap())
        };
        let width = self.kv_heads * 64;
        let mut inputs = vec![
            ("q", random(&[1, n, 768])),
            ("k", random(&[1, n, width])),
            ("v", random(&[1, n, width])),
        ];
        // Nothing is seen by the second query, and by others nothing after them.
        let hides =
            |i: usize| i % total > past + i / total || (i / total == 1 && self.name != "GPT-2");
        if self.inputs.contains("seen") {
            let flags: Vec<Bool> = (0..n * total).map(|i| Bool::from(!hides(i))).collect();
            inputs.push(("seen", Tensor::from_slice(&[1, 1, n, total], &flags).unwrap().into()));
        }
        if self.inputs.contains("table") {
            let hidden = |i: usize| if i % 1024 > i / 1024 { f32::MIN } else { 0.0 };
            let table: Vec<f32> = (0..1024 * 1024).map(hidden).collect();
            inputs.push(("table", Tensor::from_slice(&[1024, 1024], &table).unwrap().into()));
        }
        if self.inputs.contains("mask") {
            let rows = if self.inputs.contains("mask: float[b,1,1,t]") { 1 } else { n };
            inputs.push(("mask", random(&[1, 1, rows, total])));
        }
        if self.inputs.contains("cos") {
            inputs.extend([("cos", random(&[1, 1, n, 64])), ("sin", random(&[1, 1, n, 64]))]);
        }
        inputs
    }
}

fn floats(value: &Value) -> &[f32] {
    value.as_tensor().unwrap().as_slice().unwrap()
}

#[test]
fn attention_behind_a_past_is_one_operator() {
    for form in [GPT2, TABLE, FLAGS, LLAMA, GEMMA2] {
        let optimized = form.builder(Level::All).optimize(form.bytes()).unwrap();
        let operators = optimized.operators();
        let after = |name| {
            let found = operators.iter().find(|change| change.op_type == name);
            found.map_or(0, |change| change.after)
        };
        let attention = if form.kv_heads == 12 { "MultiHeadAttention" } else { "Attention" };
        let counts = [attention, "Softmax", "IsNaN"].map(after);
        assert_eq!(counts, [1, 0, 0], "{}: {}", form.name, optimized.text());
        let (fused, plain) = (optimized.commit().unwrap(), form.session(Level::Disable));
        let (mut state, mut rng) = (fused.new_state().unwrap(), Rng::new(3));
        let none = Tensor::zeros(ort_session::DType::F32, &[1, form.kv_heads, 0, 64]).unwrap();
        let mut kept = [Value::from(none.clone()), Value::from(none)];
        state.reserve(700).unwrap();
        let mut past = 0;
        for n in [300, 1, 1, 200, 7, 1] {
            let given = form.inputs([past, n], &mut rng);
            let inputs = || given.iter().map(|(name, x)| (*name, x)).collect::<RunInputs<'_>>();
            let by_hand = inputs().with("past.0.key", &kept[0]).with("past.0.value", &kept[1]);
            let made = plain.run(by_hand).unwrap().into_values();
            let outputs = fused.run_state(&mut state, inputs()).unwrap();
            let pairs = floats(&made[0]).iter().zip(floats(outputs.get("y").unwrap()));
            // Means of numbers below 1, whose weights err by a few roundings.
            let worst = pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
            assert!(worst < 4e-6, "{} of {n} behind {past}: {worst}", form.name);
            assert_eq!(state.get("past.0.key").unwrap().as_ref(), Some(&made[1]), "{}", form.name);
            assert_eq!(state.moved_bytes(), 0, "{}", form.name);
            kept = [made[1].clone(), made[2].clone()];
            past += n;
        }
    }
}

#[test]
fn only_packed_files_have_operators_newer_than_the_models() {
    let optimized = LLAMA.builder(Level::All).optimize(LLAMA.bytes()).unwrap();
    let is_fused = |text: String| text.contains("Attention-23");
    assert!(is_fused(optimized.text()));
    let of = |level, bytes| LLAMA.builder(level).optimize(ModelBytes::from_vec(bytes)).unwrap();
    let plain = of(Level::Disable, optimized.to_bytes().unwrap());
    assert!(!is_fused(plain.text()), "{}", plain.text());
    let onnx = optimized.to_onnx_bytes().unwrap();
    assert!(!String::from_utf8_lossy(&onnx).contains("Attention"));
    let packed = of(Level::All, optimized.to_packed_bytes(Pack::KeepOriginals).unwrap());
    assert!(packed.is_packed() && is_fused(packed.text()));
    let mut rng = Rng::new(5);
    let given = LLAMA.inputs([40, 7], &mut rng);
    let past = |rng: &mut Rng| {
        let numbers = rng.uniforms(LLAMA.kv_heads * 40 * 64);
        Value::from(Tensor::from_slice(&[1, LLAMA.kv_heads, 40, 64], &numbers).unwrap())
    };
    let kept = [past(&mut rng), past(&mut rng)];
    let results = [optimized, plain, packed].map(|optimized| {
        let inputs = given.iter().map(|(name, x)| (*name, x)).collect::<RunInputs<'_>>();
        let inputs = inputs.with("past.0.key", &kept[0]).with("past.0.value", &kept[1]);
        optimized.commit().unwrap().run(inputs).unwrap().into_values()
    });
    for others in &results[1..] {
        let pairs = floats(&results[0][0]).iter().zip(floats(&others[0]));
        let worst = pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        assert!(worst < 4e-6, "{worst}");
        assert_eq!(results[0][1..], others[1..]);
    }
}
