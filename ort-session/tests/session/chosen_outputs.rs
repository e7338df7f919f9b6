//! Outputs selected by name, and the nodes that they need.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_session::{Level, ModelBytes, OutputError, Outputs, RunError, RunOptions, Session, Tensor};

use crate::hooked::Hooked;
use crate::model::{forked, forked_values};

/// A session of `forked`, and how often its first node ran.
fn session() -> (Session, Arc<AtomicUsize>) {
    let n_runs = Arc::new(AtomicUsize::new(0));
    let counter = n_runs.clone();
    let hook = Hooked::new(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let builder = Session::builder().level(Level::Disable).provider(hook);
    (builder.commit(ModelBytes::from_vec(forked())).unwrap(), n_runs)
}

fn floats<'o>(outputs: &'o Outputs, name: &str) -> &'o [f32] {
    outputs.get(name).unwrap().as_tensor().unwrap().as_slice().unwrap()
}

#[test]
fn only_requested_outputs_are_computed_and_returned_in_order() {
    let (session, n_runs) = session();
    // In one session: previous selections do not affect others.
    let sets: &[(&[&str], usize)] = &[
        (&["w"], 0),
        (&["z"], 1),
        (&["w", "y"], 1),
        (&["y", "w"], 1),
        (&["y"], 1),
        (&["w"], 0),
        (&[], 0),
        (&["z", "w", "y"], 1),
    ];
    for round in 1..=3_u8 {
        for (names, needed) in sets {
            for n in [2, 5] {
                let data: Vec<f32> = (0..3 * n).map(|i| f32::from(round) - i as f32).collect();
                let [y, z, w] = forked_values(&data);
                let x = Tensor::from_slice(&[n, 3], &data).unwrap();
                n_runs.store(0, Ordering::Relaxed);
                let options = RunOptions::new().outputs(names.iter().copied());
                let outputs = session.run_with([("x", &x)], &options).unwrap();
                assert_eq!(outputs.iter().map(|(name, _)| name).collect::<Vec<_>>(), *names);
                for name in *names {
                    let expected = [("y", &y), ("z", &z), ("w", &w)];
                    let (_, expected) = expected.iter().find(|(other, _)| other == name).unwrap();
                    assert_eq!(floats(&outputs, name), **expected, "{name} of {names:?}");
                }
                assert_eq!(n_runs.load(Ordering::Relaxed), *needed, "{names:?}");
                let all = session.run([("x", &x)]).unwrap();
                assert_eq!((floats(&all, "y"), floats(&all, "z")), (&*y, &*z));
                assert_eq!(floats(&all, "w"), w);
            }
        }
    }
}

#[test]
fn more_selections_than_are_cached_give_correct_results() {
    const NAMES: [&str; 5] = ["v0", "v1", "v2", "v3", "v4"];
    let model =
        NAMES.iter().zip(["x"].iter().chain(&NAMES)).fold(
            crate::model::ModelWriter::default().input("x", &[2]),
            |model, (&name, &from)| model.node("Neg", 13, &[from], name).output(name),
        );
    let session = Session::builder().commit(ModelBytes::from_vec(model.bytes())).unwrap();
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    for _ in 0..2 {
        for set in 1..32_usize {
            let names = NAMES.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
            let options = RunOptions::new().outputs(names.clone().map(|(_, name)| *name));
            let outputs = session.run_with([("x", &x)], &options).unwrap();
            assert_eq!(outputs.len(), names.clone().count());
            for (i, name) in names {
                let sign = if i % 2 == 0 { -1.0 } else { 1.0 };
                assert_eq!(floats(&outputs, name), [sign, 2.0 * sign]);
            }
        }
    }
}

#[test]
fn unknown_and_repeated_names_are_errors() {
    let (session, _) = session();
    let x = Tensor::from_slice(&[1, 3], &[0.0_f32; 3]).unwrap();
    for (names, expected) in [
        (&["zz"][..], "there is no output `zz`; did you mean `z`?; the outputs are `y`, `z`, `w`"),
        (&["logits"], "there is no output `logits`; the outputs are `y`, `z`, `w`"),
        (&["z", "z"], "output `z` was requested twice"),
    ] {
        let options = RunOptions::new().outputs(names.iter().copied());
        let error = session.run_with([("x", &x)], &options).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(matches!(
            error,
            RunError::Output(OutputError::Unknown { .. } | OutputError::Duplicate { .. })
        ));
    }
}
