//! One session, many threads.

use std::ptr::null_mut;

use crate::call::{call, ok};
use crate::{numbers, run, session, tensor};

/// Runs of each thread.
const N: usize = 2000;

#[test]
fn eight_threads_run_one_session() {
    let address = session().expose_provenance();
    let sums: Vec<f32> = std::thread::scope(|scope| {
        let threads = (0..8_u8).map(|i| {
            scope.spawn(move || {
                let session = std::ptr::with_exposed_provenance_mut(address);
                let mut data = [f32::from(i); 3];
                let x = tensor(&mut data, &[1, 3]);
                let mut sum = 0.0;
                for _ in 0..N {
                    let mut outputs = [("y", null_mut())];
                    ok(run(session, &[("x", x)], &mut outputs));
                    sum += numbers(outputs[0].1)[2];
                    call!(ReleaseValue(outputs[0].1));
                }
                call!(ReleaseValue(x));
                sum
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(f32::NAN)).collect()
    });
    let expected: Vec<f32> = (0..8_u8).map(|i| f32::from(i) * -2000.0).collect();
    assert_eq!(sums, expected);
}
