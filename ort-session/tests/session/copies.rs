//! States of loops, and copies of inputs, count against the limit of a run.

use ort_session::{
    DType, LimitError, ModelBytes, RunError, RunLimits, RunOptions, Session, Tensor,
};

use crate::model::of_text;

const MIB: usize = 1 << 20;

fn limited() -> RunOptions {
    let limits = RunLimits { max_bytes: Some(64 * MIB), ..RunLimits::default() };
    RunOptions::new().limits(limits)
}

#[test]
fn the_state_of_a_loop_counts_beside_the_next() {
    let text = "graph(x: float[n], n: int64[]) -> (y) {
        y = Loop-16 [body: graph(i: int64[], go: bool[], a: float[n]) -> (go, b) {
          b = Concat-13 [axis: 0] (a, a)
        }] (n, _, x)
    }";
    let session = Session::builder().threads(1).commit(ModelBytes::from_vec(of_text(text)));
    let session = session.unwrap();
    let x = Tensor::zeros(DType::F32, &[MIB]).unwrap();
    let run = |n: i64| {
        session.run_with([("x", &x), ("n", &Tensor::scalar(n))], &limited()).map(|y| y.len())
    };
    // 16 MiB and the next 32 MiB, but not these and 64 MiB.
    assert_eq!(run(3).unwrap(), 1);
    let error = run(4).unwrap_err();
    assert!(
        matches!(error, RunError::Limit(LimitError::Bytes { found, .. }) if found >= 96 * MIB),
        "{error}"
    );
    assert_eq!(run(3).unwrap(), 1);
}

#[test]
fn copies_of_inputs_as_outputs_count() {
    let names: Vec<String> = (0..20).map(|i| format!("y{i}")).collect();
    let identities: Vec<String> = names.iter().map(|y| format!("{y} = Identity-16 (x)")).collect();
    let (listed, states) = (names.join(", "), vec!["x"; names.len()].join(", "));
    let inner: Vec<String> = (0..names.len()).map(|i| format!("a{i}")).collect();
    let typed: Vec<String> = inner.iter().map(|a| format!("{a}: float[n]")).collect();
    let (typed, inner) = (typed.join(", "), inner.join(", "));
    let aliases =
        format!("graph(x: float[n], n: int64[]) -> ({listed}) {{ {} }}", identities.join("\n"));
    let idle = format!(
        "graph(x: float[n], n: int64[]) -> ({listed}) {{
          {listed} = Loop-16 [body: graph(i: int64[], go: bool[], {typed}) -> (go, {inner}) {{ }}] (n, _, {states})
        }}"
    );
    for text in [aliases, idle] {
        let session = Session::builder().threads(1).commit(ModelBytes::from_vec(of_text(&text)));
        let session = session.unwrap();
        let run = |len| {
            let x = Tensor::zeros(DType::F32, &[len]).unwrap();
            session.run_with([("x", &x), ("n", &Tensor::scalar(0_i64))], &limited())
        };
        assert_eq!(run(MIB / 2).unwrap().len(), names.len());
        assert!(run(MIB).is_err());
    }
}
