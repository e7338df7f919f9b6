//! Distances beside those of the operator.

use ort_graph::Attr;
use ort_tensor::{Number, Tensor, n_elements};

use crate::case::{Case, relative};

fn numbers<T: Number>(shape: &[usize]) -> Tensor {
    let n = n_elements(shape).unwrap();
    let number = |i: usize| match i {
        1501 => f64::NAN,
        1777 => f64::INFINITY,
        _ => (i * 7919 % 251) as f64 / 8.0,
    };
    let numbers: Vec<T> = (0..n).map(|i| T::from_f64(number(i + n))).collect();
    Tensor::from_slice(shape, &numbers).unwrap()
}

#[test]
fn errors_are_within_the_bound() {
    // Rows around the origin, rows beside others, and rows whose squares are subnormal or infinite.
    for (center, size) in [(0.0, 1.0), (1.0, 1.0), (100.0, 0.01), (0.0, 1e-25), (0.0, 1e25)] {
        for [m, k, n] in [[9, 70, 7], [9, 70, 40], [5, 33, 300]] {
            let number = |i: usize| (i * 7919 % 1009) as f64 / 504.5 - 1.0;
            let rows = |rows: usize, seed| {
                let numbers = (0..rows * n).map(|i| center + size * number(i * i + seed));
                let numbers: Vec<_> = numbers.map(f32::from_f64).collect();
                Tensor::from_slice(&[rows, n], &numbers).unwrap()
            };
            let n = n as f64;
            let error = super::NEAR * (n + n / 16.0 + 9.0) * f64::from(f32::EPSILON) / 2.0;
            for metric in ["euclidean", "sqeuclidean"] {
                let case = Case::new("CDist", 1).domain("com.microsoft");
                let case = case.attr("metric", Attr::String(metric.into()));
                case.input(rows(m, 3)).input(rows(k, 5)).check(relative(f32::from_f64(error)));
            }
        }
    }
}

#[test]
fn distances_are_those_of_eval() {
    let sizes =
        [[1, 1, 1], [3, 5, 17], [7, 130, 64], [100, 900, 33], [2, 3, 0], [0, 3, 2], [3, 0, 2]];
    for [m, k, n] in sizes {
        for metric in ["euclidean", "sqeuclidean"] {
            let case = Case::new("CDist", 1).domain("com.microsoft");
            let case = case.attr("metric", Attr::String(metric.into()));
            let check = |a, b, error| case.clone().input(a).input(b).check(relative(error));
            let (a, b) = ([m, n], [k, n]);
            check(numbers::<f32>(&a), numbers::<f32>(&b), 1.2e-7);
            check(numbers::<f64>(&a), numbers::<f64>(&b), 1e-14);
        }
    }
}
