//! Attention on a state: every operator with a past appends to its cache in place, and gives the results of a run
//! that gets the cache as an input.

use ort_session::provider::{Dim, GrowingTensor, Type};
use ort_session::{DType, ModelBytes, RunInputs, Session, State, Tensor, Value};
use ort_testing::Rng;

use crate::model::of_text_at;

/// A model with one attention of 2 heads of 16 elements.
struct Form {
    name: &'static str,
    caches: Caches,
    /// What is given beside them.
    inputs: &'static str,
    /// The nodes; of `PRESENTS` as outputs.
    nodes: &'static str,
    /// The most tokens of a step.
    most: usize,
}

/// What a model keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caches {
    Growing,
    /// Of 64 rows, of which the model is told how many count.
    Buffers,
    /// Keys and values in one tensor.
    Joined,
    JoinedBuffer,
}

impl Caches {
    const fn is_buffer(self) -> bool {
        matches!(self, Self::Buffers | Self::JoinedBuffer)
    }

    /// The names and types of inputs or outputs.
    fn of(self, name: &str, len: &str) -> Vec<(String, String)> {
        let len = if self.is_buffer() { "64" } else { len };
        match self {
            Self::Growing | Self::Buffers => ["key", "value"]
                .map(|of| (format!("{name}.0.{of}"), format!("T[b,2,{len},16]")))
                .into(),
            Self::Joined | Self::JoinedBuffer => {
                vec![(format!("{name}_0"), format!("T[2,b,2,{len},16]"))]
            }
        }
    }
}

const FORMS: [Form; 13] = [
    form(
        "Attention",
        Caches::Growing,
        "",
        "y, PRESENTS = Attention-23 [is_causal: 1, q_num_heads: 2, kv_num_heads: 2] (q, k, v, _, past.0.key, past.0.value)",
    ),
    form(
        "Attention by head",
        Caches::Growing,
        "",
        "y, PRESENTS = Attention-24 [is_causal: 1] (qh, kh, vh, _, past.0.key, past.0.value)",
    ),
    form(
        "Attention behind Concat",
        Caches::Growing,
        "",
        "
  present.0.key: T[b,2,t,16] = Concat-13 [axis: 2] (past.0.key, kh)
  present.0.value: T[b,2,t,16] = Concat-13 [axis: -2] (past.0.value, vh)
  y = Attention-23 [scale: 0.5] (qh, present.0.key, present.0.value)",
    ),
    form(
        "GroupQueryAttention",
        Caches::Growing,
        ", lasts: int32[b], total: int32[]",
        "y, PRESENTS = com.microsoft:GroupQueryAttention-1 [num_heads: 2, kv_num_heads: 2] (q, k, v, past.0.key, past.0.value, lasts, total)",
    ),
    form(
        "GroupQueryAttention in buffers",
        Caches::Buffers,
        ", lasts: int32[b], total: int32[]",
        "y, PRESENTS = com.microsoft:GroupQueryAttention-1 [num_heads: 2, kv_num_heads: 2] (q, k, v, past.0.key, past.0.value, lasts, total)",
    ),
    form(
        "MultiHeadAttention",
        Caches::Growing,
        "",
        "y, PRESENTS = com.microsoft:MultiHeadAttention-1 [num_heads: 2, unidirectional: 1] (q, k, v, _, _, _, past.0.key, past.0.value)",
    ),
    form(
        "MultiHeadAttention in buffers",
        Caches::Buffers,
        ", used: int32[1]",
        "y, PRESENTS = com.microsoft:MultiHeadAttention-1 [num_heads: 2] (q, k, v, bias, _, _, past.0.key, past.0.value, used)",
    ),
    form(
        "MultiHeadAttention behind Concat",
        Caches::Growing,
        "",
        "
  present.0.key: T[b,2,t,16] = Concat-13 [axis: 2] (past.0.key, kh)
  present.0.value: T[b,2,t,16] = Concat-13 [axis: -2] (past.0.value, vh)
  y = com.microsoft:MultiHeadAttention-1 [num_heads: 2] (q, present.0.key, present.0.value)",
    ),
    Form {
        most: 1,
        ..form(
            "DecoderMaskedMultiHeadAttention",
            Caches::Growing,
            "",
            "y, PRESENTS = com.microsoft:DecoderMaskedMultiHeadAttention-1 [num_heads: 2] (q, k, v, _, _, past.0.key, past.0.value)",
        )
    },
    Form {
        most: 1,
        ..form(
            "DecoderMaskedMultiHeadAttention in buffers",
            Caches::Buffers,
            ", used: int32[1]",
            "y, PRESENTS = com.microsoft:DecoderMaskedMultiHeadAttention-1 [num_heads: 2, past_present_share_buffer: 1] (q, k, v, _, _, past.0.key, past.0.value, used, _, _, bias)",
        )
    },
    form(
        "com.microsoft's Attention",
        Caches::Joined,
        "",
        "y, PRESENTS = com.microsoft:Attention-1 [num_heads: 2, unidirectional: 1] (h, w, wide, _, past_0)",
    ),
    form(
        "com.microsoft's Attention in a buffer",
        Caches::JoinedBuffer,
        ", used: int32[1]",
        "y, PRESENTS = com.microsoft:Attention-1 [num_heads: 2, past_present_share_buffer: 1] (h, w, wide, _, past_0, _, used)",
    ),
    form(
        "TensorScatter",
        Caches::Buffers,
        ", starts: int64[b], ends: int64[b]",
        "
  present.0.key: T[b,2,64,16] = TensorScatter-24 [axis: 2] (past.0.key, kh, starts)
  present.0.value: T[b,2,64,16] = TensorScatter-24 (past.0.value, vh, starts)
  y = Attention-24 [is_causal: 1] (qh, present.0.key, present.0.value, _, _, _, ends)",
    ),
];

const fn form(
    name: &'static str,
    caches: Caches,
    inputs: &'static str,
    nodes: &'static str,
) -> Form {
    Form { name, caches, inputs, nodes, most: 5 }
}

impl Form {
    /// `x: [b, n, 96]` is queries, keys and values, by row and by head.
    fn session(&self, dtype: DType) -> Session {
        let joined = |parts: Vec<(String, String)>, with: fn((String, String)) -> String| {
            parts.into_iter().map(with).collect::<Vec<_>>().join(", ")
        };
        let (typed, name) = (|(name, ty)| format!("{name}: {ty}"), |(name, _)| name);
        let (pasts, presents) = (self.caches.of("past", "p"), self.caches.of("present", "t"));
        let to = match dtype {
            DType::F16 => 10,
            DType::Bf16 => 16,
            _ => 1,
        };
        let text = format!(
            "graph(x: float[b,n,96], {}{}) -> (y, {}) {{
  w = const float[96,96] {:?}
  wide = const float[96] fill 0.5
  b32 = const float[96] {:?}
  bias = Cast-13 [to: {to}] (b32)
  h = Cast-13 [to: {to}] (x)
  widths = const int64[3] [32, 32, 32]
  q, k, v = Split-13 [axis: 2] (h, widths)
  heads = const int64[4] [0, 0, 2, 16]
  q4 = Reshape-14 (q, heads)
  k4 = Reshape-14 (k, heads)
  v4 = Reshape-14 (v, heads)
  qh = Transpose-13 [perm: [0, 2, 1, 3]] (q4)
  kh = Transpose-13 [perm: [0, 2, 1, 3]] (k4)
  vh = Transpose-13 [perm: [0, 2, 1, 3]] (v4)
  {}
}}",
            joined(pasts, typed),
            self.inputs,
            joined(presents.clone(), name),
            Rng::new(5).uniforms(96 * 96),
            Rng::new(6).uniforms(96),
            self.nodes.replace("PRESENTS", &joined(presents, typed)),
        );
        let bytes = of_text_at(24, &text.replace("T[", &format!("{dtype}[")));
        Session::builder().threads(1).commit(ModelBytes::from_vec(bytes)).unwrap()
    }
}

/// A state, and the same caches kept by hand.
#[derive(Clone)]
struct Conversation<'s> {
    form: &'s Form,
    session: &'s Session,
    state: State,
    kept: Vec<Value>,
    len: usize,
}

impl<'s> Conversation<'s> {
    fn new(form: &'s Form, session: &'s Session) -> Self {
        let state = session.new_state().unwrap();
        let first = |(_, input): (&str, &str)| {
            let inputs = session.inputs();
            let input = inputs.iter().find(|found| found.name == input).unwrap();
            let Type::Tensor(tensor) = &input.ty else { unreachable!("{input:?}") };
            let dim = |dim: &Dim| match dim {
                Dim::Known(n) => *n,
                dim => usize::from(dim.to_string() == "b"),
            };
            let shape: Vec<usize> = tensor.dims.as_ref().unwrap().iter().map(dim).collect();
            Value::from(Tensor::zeros(tensor.dtype, &shape).unwrap())
        };
        let kept = state.pairs().map(first).collect();
        Self { form, session, state, kept, len: 0 }
    }

    fn caches(&self) -> Vec<Value> {
        let names = self.state.pairs().map(|(_, input)| input);
        names.map(|name| self.state.get(name).unwrap().unwrap()).collect()
    }

    /// The first `len` rows of caches. The contents of a buffer's other rows are unspecified.
    fn used(&self, caches: Vec<Value>, len: usize) -> Vec<Value> {
        let axis = match self.form.caches {
            Caches::Growing | Caches::Joined => return caches,
            Caches::Buffers => 2,
            Caches::JoinedBuffer => 3,
        };
        let used = |value: Value| {
            let mut rows = GrowingTensor::new(value.as_tensor().unwrap().clone(), axis).unwrap();
            rows.truncate(len);
            Value::from(rows.to_tensor().unwrap())
        };
        caches.into_iter().map(used).collect()
    }

    /// A run on the state, whose results equal those of a run with caches kept by the caller. Returns the moved bytes.
    fn step(&mut self, n: usize, rng: &mut Rng) -> usize {
        let int = |n: usize| i32::try_from(n).unwrap();
        let one = |n: usize| Tensor::from_slice(&[1], &[int(n)]).unwrap();
        let wide = |n: usize| Tensor::from_slice(&[1], &[i64::from(int(n))]).unwrap();
        let total = self.len + n;
        let given = [
            ("x", Tensor::from_slice(&[1, n, 96], &rng.uniforms(n * 96)).unwrap()),
            ("used", one(self.len)),
            ("lasts", one(total - 1)),
            ("total", Tensor::scalar(int(total))),
            ("starts", wide(self.len)),
            ("ends", wide(total)),
        ];
        let is_input = |name: &str| name == "x" || self.form.inputs.contains(&format!(" {name}:"));
        let given: Vec<_> = given.into_iter().filter(|(name, _)| is_input(name)).collect();
        let inputs = || given.iter().map(|(name, value)| (*name, value)).collect::<RunInputs<'_>>();
        let pasts = self.state.pairs().map(|(_, input)| input.to_owned()).zip(&self.kept);
        let by_hand = pasts.fold(inputs(), |inputs, (name, value)| inputs.with(name, value));
        let mut made = self.session.run(by_hand).unwrap().into_values();
        let outputs = self.session.run_state(&mut self.state, inputs()).unwrap();
        let place = (self.form.name, self.len);
        assert_eq!(outputs.get("y").unwrap(), &made.remove(0), "{place:?}");
        assert_eq!(self.used(self.caches(), total), self.used(made.clone(), total), "{place:?}");
        (self.kept, self.len) = (made, total);
        self.state.moved_bytes()
    }

    /// Goes back to `len` tokens, of which the caches were these.
    fn go_back(&mut self, len: usize, caches: &[Value]) {
        if !self.form.caches.is_buffer() {
            self.state.truncate(len).unwrap();
            assert_eq!(self.caches(), caches, "{}", self.form.name);
            self.kept = caches.to_vec();
        }
        self.len = len;
    }
}

/// Sizes of steps whose sum is `len`.
fn steps(form: &Form, len: usize) -> impl Iterator<Item = usize> + use<> {
    let most = form.most.min(len);
    [most, len.min(2).min(most)].into_iter().chain(std::iter::repeat(1)).scan(len, |left, n| {
        let n = n.min(*left);
        *left -= n;
        (n > 0).then_some(n)
    })
}

#[test]
fn caches_are_written_where_they_lie() {
    for form in &FORMS {
        let (session, mut rng) = (form.session(DType::F32), Rng::new(7));
        let mut talk = Conversation::new(form, &session);
        talk.state.reserve(64).unwrap();
        for n in steps(form, 40) {
            assert_eq!(talk.step(n, &mut rng), 0, "{} at {}", form.name, talk.len);
        }
        let before = talk.kept.clone();
        let mut fork = talk.clone();
        assert!(fork.step(1, &mut rng) > 0, "{}: the fork shares no memory", form.name);
        for talk in [&mut talk, &mut fork] {
            (0..3).for_each(|_| assert_eq!(talk.step(1, &mut rng), 0, "{}", form.name));
            talk.go_back(40, &before);
            (0..5).for_each(|_| assert_eq!(talk.step(1, &mut rng), 0, "{}", form.name));
        }
    }
}

#[test]
fn caches_of_16_bits_are_written_where_they_lie() {
    let is_float_only = |form: &Form| matches!(form.caches, Caches::Joined | Caches::JoinedBuffer);
    for form in FORMS.iter().filter(|form| !is_float_only(form)) {
        for dtype in [DType::F16, DType::Bf16] {
            let (session, mut rng) = (form.session(dtype), Rng::new(8));
            let mut talk = Conversation::new(form, &session);
            talk.state.reserve(32).unwrap();
            for n in steps(form, 20) {
                assert_eq!(talk.step(n, &mut rng), 0, "{} of {dtype}", form.name);
            }
        }
    }
}

#[test]
fn caches_without_room_move_seldom() {
    for form in FORMS.iter().filter(|form| !form.caches.is_buffer()) {
        let (session, mut rng) = (form.session(DType::F32), Rng::new(9));
        let mut talk = Conversation::new(form, &session);
        let (mut n_moves, mut moved) = (0, 0);
        for n in steps(form, 300) {
            let bytes = talk.step(n, &mut rng);
            (n_moves, moved) = (n_moves + usize::from(bytes > 0), moved + bytes);
        }
        let kept: usize = talk.kept.iter().map(Value::n_bytes).sum();
        assert!(n_moves <= 5 && moved <= 2 * kept, "{}: {n_moves}, {moved}", form.name);
        assert_eq!(talk.state.len(), Some(300));
    }
}
