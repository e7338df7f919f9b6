//! State that stays from run to run: the same results as by hand, and nothing that is there is copied.

use std::fs;

use ort_session::{
    Cancel, DType, LoadError, ModelBytes, RunError, RunInputs, RunOptions, Session, State,
    StateError, StateFileError, Tensor, Value,
};
use ort_testing::Rng;

use crate::model::{of_text, of_text_at};

/// Two heads of attention as exporters write it out.
const DECODER: &str = "graph(x: float[b,2,n,4], past.0.key: float[b,2,p,4], past.0.value: float[b,2,p,4]) -> (y, present.0.key, present.0.value) {
  present.0.key: float[b,2,t,4] = Concat-13 [axis: 2] (past.0.key, x)
  w = const float[4,4] fill 0.5
  v = MatMul-13 (x, w)
  present.0.value: float[b,2,t,4] = Concat-13 [axis: -2] (past.0.value, v)
  k = Transpose-13 [perm: [0, 1, 3, 2]] (present.0.key)
  s = MatMul-13 (x, k)
  p = Softmax-13 [axis: -1] (s)
  y: float[b,2,n,4] = MatMul-13 (p, present.0.value)
}";

/// The same cache, which a kernel reads that cannot do so with its room, and a value that each run makes anew.
const WHOLE: &str = "graph(x: float[1,2,n,4], past_key_values.0.key: float[1,2,p,4], past_h: float[4]) -> (y, present.0.key, present_h) {
  present.0.key: float[1,2,t,4] = Concat-13 [axis: 2] (past_key_values.0.key, x)
  y: float[1,2,1,4] = ReduceMax-13 [axes: [2]] (present.0.key)
  s: float[4] = ReduceSum-11 [axes: [0, 1, 2], keepdims: 0] (x)
  present_h: float[4] = Add-14 (past_h, s)
}";

fn session(text: &str) -> Session {
    Session::builder().threads(1).commit(ModelBytes::from_vec(of_text(text))).unwrap()
}

/// `n` tokens.
fn tokens(rng: &mut Rng, n: usize) -> Tensor {
    Tensor::from_slice(&[1, 2, n, 4], &rng.uniforms(2 * n * 4)).unwrap()
}

fn empty() -> Value {
    Tensor::zeros(DType::F32, &[1, 2, 0, 4]).unwrap().into()
}

/// `y`, and the caches, of a run by hand.
fn by_hand(session: &Session, x: &Tensor, caches: &[Value]) -> Vec<Value> {
    let inputs = RunInputs::positional([x]);
    let names = ["past.0.key", "past.0.value"].into_iter().zip(caches);
    let inputs = names.fold(inputs, |inputs, (name, cache)| inputs.with(name, cache));
    session.run(inputs).unwrap().into_values()
}

fn caches(state: &State) -> Vec<Value> {
    ["past.0.key", "past.0.value"].map(|name| state.get(name).unwrap().unwrap()).into()
}

fn run(session: &Session, state: &mut State, x: &Tensor) -> Value {
    let outputs = session.run_state(state, [("x", x)]).unwrap();
    assert_eq!(outputs.len(), 1);
    outputs.get("y").unwrap().clone()
}

#[test]
fn a_generation_is_what_it_is_by_hand_and_moves_nothing_that_is_there() {
    let (session, mut rng) = (session(DECODER), Rng::new(1));
    let mut state = session.new_state().unwrap();
    let pairs: Vec<_> = state.pairs().collect();
    assert_eq!(pairs[1], ("present.0.value", "past.0.value"));
    state.reserve(300).unwrap();
    let mut kept = vec![empty(), empty()];
    for step in 0..200 {
        let x = tokens(&mut rng, if step % 50 == 0 { 7 } else { 1 });
        let mut made = by_hand(&session, &x, &kept);
        assert_eq!(run(&session, &mut state, &x), made.remove(0), "step {step}");
        assert_eq!(caches(&state), made, "step {step}");
        assert_eq!(state.moved_bytes(), 0, "step {step}");
        kept = made;
    }
    assert_eq!(state.len(), Some(224));
}

#[test]
fn room_grows_by_half() {
    let (session, mut rng) = (session(DECODER), Rng::new(2));
    let mut state = session.new_state().unwrap();
    assert!(state.is_empty());
    let (mut n_moves, mut moved) = (0, 0);
    for _ in 0..2000 {
        run(&session, &mut state, &tokens(&mut rng, 1));
        n_moves += usize::from(state.moved_bytes() > 0);
        moved += state.moved_bytes();
    }
    let kept = 2 * 2 * 2000 * 4 * 4;
    assert!(n_moves <= 8, "{n_moves} moves");
    assert!(moved <= 2 * kept, "{moved} bytes moved to keep {kept}");
    assert!(state.n_bytes() <= kept * 3 / 2 + 4 * 4096, "{} bytes to keep {kept}", state.n_bytes());
}

#[test]
fn forks_and_what_is_taken_back_are_as_a_fresh_run() {
    let (session, mut rng) = (session(DECODER), Rng::new(3));
    let (mut state, mut xs) = (session.new_state().unwrap(), Vec::new());
    for n in [5, 1, 1, 1] {
        xs.push(tokens(&mut rng, n));
        run(&session, &mut state, &xs[xs.len() - 1]);
    }
    let mut fork = state.clone();
    let [own, other] = [tokens(&mut rng, 1), tokens(&mut rng, 2)];
    let forked = run(&session, &mut fork, &other);
    assert!(fork.moved_bytes() > 0, "the fork shares no memory any more");
    let made = run(&session, &mut state, &own);
    let fresh = |last: &Tensor| {
        let mut fresh = session.new_state().unwrap();
        xs.iter().for_each(|x| drop(run(&session, &mut fresh, x)));
        let y = run(&session, &mut fresh, last);
        (y, caches(&fresh))
    };
    assert_eq!((made, caches(&state)), fresh(&own));
    assert_eq!((forked, caches(&fork)), fresh(&other));
    state.truncate(8).unwrap();
    let again = run(&session, &mut state, &other);
    assert_eq!((again, caches(&state)), fresh(&other));
    let error = state.truncate(11).unwrap_err();
    assert_eq!(error, StateError::TooShort { len: 10, wanted: 11 });
    state.clear();
    let first = run(&session, &mut session.new_state().unwrap(), &own);
    assert_eq!(run(&session, &mut state, &own), first);
}

#[test]
fn values_that_cannot_stay_are_kept_whole() {
    let (session, mut rng) = (session(WHOLE), Rng::new(4));
    let mut state = session.new_state().unwrap();
    let mut kept = vec![empty(), Tensor::zeros(DType::F32, &[4]).unwrap().into()];
    for _ in 0..5 {
        let x = tokens(&mut rng, 1);
        let value = Value::from(x.clone());
        let inputs = RunInputs::positional([&value, &kept[0], &kept[1]]);
        let mut made = session.run(inputs).unwrap().into_values();
        assert_eq!(run(&session, &mut state, &x), made.remove(0));
        kept = made;
        assert_eq!(state.moved_bytes(), kept.iter().map(Value::n_bytes).sum::<usize>());
    }
    assert_eq!(state.get("past_key_values.0.key").unwrap().as_ref(), Some(&kept[0]));
    let error = state.truncate(3).unwrap_err();
    assert_eq!(error, StateError::Fixed { input: "past_h".to_owned() });
    // The cache alone can go back.
    let mut state = session.new_state_of([("present.%d.key", "past_key_values.%d.key")]).unwrap();
    let options = RunOptions::new().outputs(["y"]);
    let h = Tensor::zeros(DType::F32, &[4]).unwrap();
    for _ in 0..3 {
        let x = tokens(&mut rng, 1);
        let inputs = [("x", &x), ("past_h", &h)];
        let outputs = session.run_state_with(&mut state, inputs, &options).unwrap();
        assert_eq!(outputs.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["y"]);
    }
    state.truncate(1).unwrap();
    assert_eq!(state.len(), Some(1));
}

#[test]
fn a_run_that_fails_leaves_the_state_as_it_was() {
    let (session, mut rng) = (session(DECODER), Rng::new(5));
    let mut state = session.new_state().unwrap();
    let cancel = Cancel::new();
    cancel.cancel();
    let cancelled = RunOptions::new().cancel(&cancel);
    let x = tokens(&mut rng, 3);
    assert!(session.run_state_with(&mut state, [("x", &x)], &cancelled).is_err());
    assert!(state.is_empty());
    run(&session, &mut state, &x);
    let before = caches(&state);
    let error = session.run_state_with(&mut state, [("x", &x)], &cancelled).unwrap_err();
    assert!(matches!(error, RunError::Cancelled { .. }), "{error}");
    let wrong = Tensor::zeros(DType::F32, &[2, 2, 1, 4]).unwrap();
    assert!(session.run_state(&mut state, [("x", &wrong)]).is_err());
    assert!(session.run_state(&mut state, [("x", &x), ("past.0.key", &x)]).is_err());
    assert_eq!(caches(&state), before);
}

#[test]
fn states_are_saved_and_loaded_and_damage_is_told() {
    let (session, mut rng) = (session(DECODER), Rng::new(6));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversation.state");
    let like = session.new_state().unwrap();
    let mut state = like.clone();
    run(&session, &mut state, &tokens(&mut rng, 9));
    state.save(&path).unwrap();
    let other = self::session(DECODER);
    let mut loaded = other.load_state(&path, &other.new_state().unwrap()).unwrap();
    assert_eq!(caches(&loaded), caches(&state));
    let x = tokens(&mut rng, 1);
    assert_eq!(run(&other, &mut loaded, &x), run(&session, &mut state, &x));
    let error = session.run_state(&mut loaded, [("x", &x)]).unwrap_err();
    assert_eq!(error, RunError::State(StateError::OtherSession));

    let bytes = fs::read(&path).unwrap();
    for i in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[i] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let error = session.load_state(&path, &like).unwrap_err();
        assert!(matches!(error, StateFileError::Damaged { .. }), "byte {i}: {error}");
        fs::write(&path, &bytes[..i]).unwrap();
        let error = session.load_state(&path, &like).unwrap_err();
        let is_told = match error {
            StateFileError::Load(LoadError::Empty { .. }) => i == 0,
            StateFileError::Damaged { .. } => i > 0,
            _ => false,
        };
        assert!(is_told, "{i} bytes: {error}");
    }
    fs::write(&path, &bytes).unwrap();
    let whole = self::session(WHOLE);
    let error = whole.load_state(&path, &whole.new_state().unwrap()).unwrap_err();
    assert!(matches!(error, StateFileError::State { .. }), "{error}");
    let error = whole.load_state(&path, &like).unwrap_err().to_string();
    assert!(error.ends_with("the state is not of this session"), "{error}");
    let error = session.load_state(folder.path().join("none"), &like).unwrap_err();
    assert!(matches!(error, StateFileError::Load(LoadError::Missing { .. })), "{error}");
    #[cfg(unix)]
    {
        let error = session.load_state("/dev/null", &like).unwrap_err();
        assert!(matches!(error, StateFileError::Load(LoadError::NotAFile { .. })), "{error}");
    }
}

/// Queries, keys and values of 2 heads in one, and a cache of so many rows, or one that grows.
fn grouped(past: &str, present: &str) -> Session {
    session(&format!(
        "graph(x: float[b,n,48], lasts: int32[b], total: int32[], past.0.key: float[b,1,{past},16], past.0.value: float[b,1,{past},16]) -> (y, present.0.key, present.0.value) {{
  w = const float[48,64] fill 0.125
  qkv = MatMul-13 (x, w)
  y: float[b,n,32], present.0.key: float[b,1,{present},16], present.0.value: float[b,1,{present},16] = com.microsoft:GroupQueryAttention-1 [num_heads: 2, kv_num_heads: 1] (qkv, _, _, past.0.key, past.0.value, lasts, total)
}}"
    ))
}

#[test]
fn group_query_attention_writes_its_cache_where_it_lies() {
    for (past, present, rows) in [("p", "t", 0), ("32", "32", 32), ("s", "s", 32)] {
        let (session, mut rng) = (grouped(past, present), Rng::new(7));
        let mut state = session.new_state().unwrap();
        state.reserve(32).unwrap();
        let first = || Value::from(Tensor::zeros(DType::F32, &[1, 1, rows, 16]).unwrap());
        let mut kept = vec![first(), first()];
        if past == "s" {
            for name in ["past.0.key", "past.0.value"] {
                state.set(name, first()).unwrap();
            }
        }
        let mut len = 0;
        for step in 0..20 {
            let n = if step == 0 { 5 } else { 1 };
            len += n;
            let x = Tensor::from_slice(&[1, n, 48], &rng.uniforms(n * 48)).unwrap();
            let total = i32::try_from(len).unwrap();
            let lasts = Tensor::from_slice(&[1], &[total - 1]).unwrap();
            let total = Tensor::scalar(total);
            let inputs = [("x", &x), ("lasts", &lasts), ("total", &total)];
            let y = session.run_state(&mut state, inputs).unwrap().into_values().remove(0);
            let by_hand: RunInputs<'_> = inputs.into();
            let by_hand = by_hand.with("past.0.key", &kept[0]).with("past.0.value", &kept[1]);
            let mut made = session.run(by_hand).unwrap().into_values();
            assert_eq!(y, made.remove(0), "{past}: step {step}");
            assert_eq!(caches(&state), made, "{past}: step {step}");
            assert_eq!(state.moved_bytes(), 0, "{past}: step {step}");
            kept = made;
        }
        assert_eq!(state.len(), (past == "p").then_some(24));
        if past != "p" {
            state.truncate(0).unwrap();
            assert_eq!(caches(&state), kept);
        }
        if past == "p" {
            // Lengths that do not fit are told, and nothing is lost.
            let x = Tensor::from_slice(&[1, 1, 48], &[0.5_f32; 48]).unwrap();
            let (lasts, total) = (Tensor::from_slice(&[1], &[3]).unwrap(), Tensor::scalar(90));
            let inputs = [("x", &x), ("lasts", &lasts), ("total", &total)];
            let error = session.run_state(&mut state, inputs).unwrap_err().to_string();
            assert!(error.contains("no length of the sequences"), "{error}");
            assert_eq!(caches(&state), kept);
        }
    }
}

/// The standard's operator, whose heads lie beside each other in what is new.
const STANDARD: &str = "graph(x: float[b,n,32], past.0.key: float[b,2,p,16], past.0.value: float[b,2,p,16]) -> (y, present.0.key, present.0.value) {
  w = const float[32,32] fill 0.0625
  v = MatMul-13 (x, w)
  y: float[b,n,32], present.0.key: float[b,2,t,16], present.0.value: float[b,2,t,16] = Attention-23 [is_causal: 1, q_num_heads: 2, kv_num_heads: 2] (x, x, v, _, past.0.key, past.0.value)
}";

#[test]
fn the_standards_attention_writes_its_cache_where_it_lies() {
    let bytes = ModelBytes::from_vec(of_text_at(23, STANDARD));
    let session = Session::builder().threads(1).commit(bytes).unwrap();
    let (mut state, mut rng) = (session.new_state().unwrap(), Rng::new(9));
    state.reserve(200).unwrap();
    let first = || Value::from(Tensor::zeros(DType::F32, &[1, 2, 0, 16]).unwrap());
    let mut kept = vec![first(), first()];
    for step in 0..60 {
        let n = if step % 20 == 0 { 9 } else { 1 };
        let x = Tensor::from_slice(&[1, n, 32], &rng.uniforms(n * 32)).unwrap();
        let mut made = by_hand(&session, &x, &kept);
        assert_eq!(run(&session, &mut state, &x), made.remove(0), "step {step}");
        assert_eq!(caches(&state), made, "step {step}");
        assert_eq!(state.moved_bytes(), 0, "step {step}");
        kept = made;
    }
}

#[test]
fn pairs_that_do_not_fit_are_told() {
    let session = session(DECODER);
    let of = |pairs: &[(&str, &str)]| session.new_state_of(pairs.iter().copied()).unwrap_err();
    let error = of(&[("present.0.kye", "past.0.key")]);
    assert_eq!(error.to_string(), "there is no output `present.0.kye`");
    assert_eq!(of(&[("present.*", "last.*")]).to_string(), "there is no input `last.0.key`");
    let error = of(&[("present.0.key", "past.0.key"), ("present.*", "past.*")]);
    assert_eq!(error, StateError::Duplicate { name: "past.0.key".to_owned() });
    let whole = self::session(WHOLE);
    let error = whole.new_state_of([("present_h", "x")]).unwrap_err();
    assert!(matches!(error, StateError::Type { .. }), "{error}");
    let alone = self::session("graph(x: float[n]) -> (y) { y = Relu-14 (x) }");
    let error = alone.new_state().unwrap_err().to_string();
    assert_eq!(error, "no output is named as the next value of an input; the outputs are `y`");
}

#[test]
fn a_state_is_sent_to_another_thread() {
    fn is_sent<T: Send + Sync + Clone>() {}
    is_sent::<State>();
}
