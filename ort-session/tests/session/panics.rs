//! A panic in a kernel of a user's provider does not affect other runs.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_ep::Threads;
use ort_session::{Arena, Denormals, Level, ModelBytes, RunError, Session, Tensor};

use crate::hooked::Hooked;
use crate::model::{gated, gated_value};

/// Without printing the panic's message.
fn panic_with(message: &'static str) {
    resume_unwind(Box::new(message));
}

/// A session of `gated` whose every second run panics in its first node.
fn session(n_threads: usize, panic: fn(&dyn Threads)) -> Session {
    let n_runs = AtomicUsize::new(0);
    let hook = Hooked::new(move |threads| {
        if n_runs.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            panic(threads);
        }
    });
    let builder = Session::builder().level(Level::Disable).threads(n_threads).arena(Arena::Keep);
    builder.provider(hook).commit(ModelBytes::from_vec(gated())).unwrap()
}

/// On the caller's thread, and on the thread that takes the last part.
const PANICS: [fn(&dyn Threads); 2] = [
    |_| panic_with("no more"),
    |threads| {
        threads.for_each(64, &|i| {
            if i == 63 {
                panic_with("no more")
            }
        })
    },
];

/// Runs once; returns whether it panicked.
fn run(session: &Session, x: &Tensor) -> bool {
    match session.run([("x", x)]) {
        Ok(outputs) => {
            let y = outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
            assert_eq!(y, gated_value(x.as_slice().unwrap()));
            false
        }
        Err(error) => {
            let (node, op_type) = ("Add_0".to_owned(), "Add".to_owned());
            assert_eq!(error, RunError::Panicked { node, op_type, message: "no more".to_owned() });
            true
        }
    }
}

#[test]
fn a_panic_is_an_error_that_names_the_node() {
    let x = Tensor::from_slice(&[1, 3], &[0.5_f32, 4.0, -1.0]).unwrap();
    for panic in PANICS {
        for n_threads in [1, 2, 4] {
            let session = session(n_threads, panic);
            for i in 0..20 {
                assert_eq!(run(&session, &x), i % 2 == 0);
                assert_eq!(
                    session.memory().activations_retained.n_bytes(),
                    64,
                    "one block is retained"
                );
            }
        }
    }
}

#[test]
fn other_users_of_the_session_and_its_pool_are_not_affected() {
    let quiet = Session::builder().threads(3).commit(ModelBytes::from_vec(gated())).unwrap();
    for panic in PANICS {
        let session = session(3, panic);
        let n_panics = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for n in 1..=4_usize {
                let (session, quiet, n_panics) = (&session, &quiet, &n_panics);
                scope.spawn(move || {
                    let x = Tensor::from_slice(&[n, 3], &vec![n as f32; 3 * n]).unwrap();
                    for _ in 0..50 {
                        n_panics.fetch_add(run(session, &x).into(), Ordering::Relaxed);
                        assert!(!run(quiet, &x));
                    }
                });
            }
        });
        assert_eq!(n_panics.into_inner(), 100);
    }
}

#[test]
fn the_callers_denormal_mode_is_restored_after_a_panic_or_an_error() {
    let tiny_product = || std::hint::black_box(1e-40_f32) * std::hint::black_box(1.0);
    let x = Tensor::from_slice(&[1, 3], &[0.5_f32, 4.0, -1.0]).unwrap();
    let in_run = |_: &dyn Threads| {
        assert_eq!(std::hint::black_box(1e-40_f32) * std::hint::black_box(1.0), 0.0);
        panic_with("no more");
    };
    let session = session(2, in_run); // Denormals are flushed by default.
    for i in 0..4 {
        assert_eq!(run(&session, &x), i % 2 == 0);
        assert_eq!(tiny_product(), 1e-40);
    }
    let wrong = Tensor::from_slice(&[1, 4], &[0.0_f32; 4]).unwrap();
    assert!(session.run([("x", &wrong)]).is_err());
    assert_eq!(tiny_product(), 1e-40);
}

#[test]
fn the_workers_denormal_mode_is_restored_after_a_panic() {
    let x = Tensor::from_slice(&[1, 3], &[0.5_f32, 4.0, -1.0]).unwrap();
    let tiny_products = |threads: &dyn Threads, expected: f32| {
        threads.for_each(64, &|_| {
            let product = std::hint::black_box(1e-40_f32) * std::hint::black_box(1.0);
            assert_eq!(product, expected);
        });
    };
    let hook = Hooked::new(move |threads| tiny_products(threads, 1e-40));
    let exact = Session::builder().level(Level::Disable).threads(5).provider(hook);
    let exact = exact.denormals(Denormals::Preserve);
    let exact = exact.commit(ModelBytes::from_vec(gated())).unwrap();
    // Both sessions share their workers.
    let flushing = session(5, |threads| {
        threads.for_each(64, &|i| {
            assert_eq!(std::hint::black_box(1e-40_f32) * std::hint::black_box(1.0), 0.0);
            if i % 8 == 7 {
                panic_with("no more");
            }
        });
    });
    for i in 0..50 {
        assert_eq!(run(&flushing, &x), i % 2 == 0);
        assert!(!run(&exact, &x));
    }
}

#[test]
fn a_panic_while_preparing_is_an_error_too() {
    let hook = Hooked::preparing(|| {
        panic_with("no such shape");
        Ok(())
    });
    let builder = Session::builder().level(Level::Disable).provider(hook);
    let session = builder.commit(ModelBytes::from_vec(gated())).unwrap();
    let x = Tensor::from_slice(&[1, 3], &[0.5_f32, 4.0, -1.0]).unwrap();
    for _ in 0..3 {
        let error = session.run([("x", &x)]).unwrap_err();
        assert_eq!(error.to_string(), "node `Add_0` panicked: no such shape");
    }
}
