//! Kernels, classes and their scores, by hand.

use ort_graph::Attr;
use ort_tensor::Tensor;

use crate::case::{Case, tensor};

fn svm(op_type: &'static str, kernel: &str, attrs: &[(&str, &[f32])]) -> Case {
    let case = Case::new(op_type, 1)
        .domain("ai.onnx.ml")
        .attr("kernel_type", Attr::String(kernel.to_owned()))
        .attr("kernel_params", Attr::Floats(vec![0.5, 1.0, 2.0]));
    attrs.iter().fold(case, |case, (name, values)| case.attr(name, Attr::Floats(values.to_vec())))
}

/// Labels and scores of one sample.
fn classify(case: &Case, x: &[f32]) -> Result<(Vec<i64>, Vec<f32>), String> {
    let values = case.run(&[tensor(&[1, x.len()], x)])?;
    let [y, z] = [0, 1].map(|i| values[i].as_tensor().unwrap());
    Ok((y.as_slice().unwrap().to_vec(), z.as_slice().unwrap().to_vec()))
}

fn two_classes(attrs: &[(&str, &[f32])]) -> Case {
    let vectors: &[(&str, &[f32])] =
        &[("coefficients", &[1.0, -2.0]), ("support_vectors", &[1.0, 3.0]), ("rho", &[0.5])];
    svm("SVMClassifier", "LINEAR", &[vectors, attrs].concat())
        .outputs(2)
        .attr("vectors_per_class", Attr::Ints(vec![1, 1]))
        .attr("classlabels_ints", Attr::Ints(vec![10, 20]))
}

#[test]
fn each_kernel_is_its_formula() {
    let cases = [
        ("LINEAR", 13.0_f32),
        ("POLY", 33.0),
        // 2 exp(-1/2) + 1 and 2 tanh(4) + 1, rounded.
        ("RBF", 2.213_061_3),
        ("SIGMOID", 2.998_658_7),
    ];
    for (kernel, expected) in cases {
        let attrs: &[(&str, &[f32])] =
            &[("coefficients", &[2.0]), ("support_vectors", &[3.0]), ("rho", &[1.0])];
        let case = svm("SVMRegressor", kernel, attrs).attr("n_supports", Attr::Int(1));
        let y = tensor(&[1, 1], &[expected]);
        assert_eq!(case.tensor(&[tensor(&[1], &[2.0_f32])]), Ok(y), "{kernel}");
    }
}

#[test]
fn one_class_is_a_side_of_the_border() {
    let attrs: &[(&str, &[f32])] = &[("coefficients", &[2.0, 0.0]), ("rho", &[-1.0])];
    let case = svm("SVMRegressor", "RBF", attrs).attr("one_class", Attr::Int(1));
    let x = tensor(&[3, 2], &[1.0_f32, 0.0, 0.5, 0.0, f32::NAN, 0.0]);
    assert_eq!(case.tensor(&[x]), Ok(tensor(&[3, 1], &[1.0_f32, -1.0, -1.0])));
}

#[test]
fn two_classes_have_one_pair_and_two_scores() {
    // 1·1·x - 2·3·x + 0.5
    let cases = [(1.0, 20, -4.5_f32), (0.0, 10, 0.5), (-0.5, 10, 3.0)];
    for (x, label, score) in cases {
        assert_eq!(classify(&two_classes(&[]), &[x]), Ok((vec![label], vec![-score, score])));
        let case = two_classes(&[]).attr("post_transform", Attr::String("SOFTMAX".to_owned()));
        assert_eq!(classify(&case, &[x]), Ok((vec![label], vec![1.0 - score, score])));
    }
}

#[test]
fn probabilities_of_two_classes_are_a_logistic_of_the_score() {
    let case = two_classes(&[("prob_a", &[0.0]), ("prob_b", &[0.0])]);
    assert_eq!(classify(&case, &[1.0]), Ok((vec![20], vec![0.5, 0.5])));
}

#[test]
fn three_classes_have_a_score_for_each_pair() {
    let attrs: &[(&str, &[f32])] = &[
        ("coefficients", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("support_vectors", &[1.0, 1.0, 1.0]),
        ("rho", &[0.0, -20.0, 0.0]),
    ];
    let case = svm("SVMClassifier", "LINEAR", attrs)
        .outputs(2)
        .attr("vectors_per_class", Attr::Ints(vec![1, 1, 1]))
        .attr("classlabels_ints", Attr::Ints(vec![7, 8, 9]));
    // 0-1: 1 + 2; 0-2: 4 + 3 - 20; 1-2: 5 + 6.
    assert_eq!(classify(&case, &[1.0]), Ok((vec![7], vec![3.0, -13.0, 11.0])));
}

#[test]
fn without_vectors_features_are_weighted() {
    let case = |coefficients: &[f32]| {
        let attrs: &[(&str, &[f32])] = &[("coefficients", coefficients), ("rho", &[0.0])];
        let case = svm("SVMClassifier", "RBF", attrs).outputs(2);
        case.attr("classlabels_ints", Attr::Ints(vec![10, 20]))
    };
    // The second class wins if either score is above zero, or a half.
    assert_eq!(classify(&case(&[1.0, -1.0]), &[2.0]), Ok((vec![20], vec![2.0, -2.0])));
    assert_eq!(classify(&case(&[0.4, 0.2]), &[1.0]), Ok((vec![10], vec![0.4, 0.2])));
    assert_eq!(classify(&case(&[0.5, 0.2]), &[1.0]), Ok((vec![20], vec![0.5, 0.2])));
}

#[test]
fn attributes_that_do_not_fit_are_refused() {
    let x = [tensor(&[1, 1], &[1.0_f32])];
    let cases = [
        two_classes(&[]).attr("vectors_per_class", Attr::Ints(vec![1, -1])),
        two_classes(&[]).attr("vectors_per_class", Attr::Ints(vec![i64::MAX, i64::MAX, 2])),
        two_classes(&[]).attr("vectors_per_class", Attr::Ints(vec![1, 2])),
        two_classes(&[]).attr("vectors_per_class", Attr::Ints(vec![2])),
        two_classes(&[("rho", &[])]),
        two_classes(&[("prob_a", &[1.0])]),
        two_classes(&[("kernel_params", &[1.0])]),
        two_classes(&[("support_vectors", &[1.0])]),
    ];
    for (i, case) in cases.iter().enumerate() {
        assert!(case.run(&x).is_err(), "case {i}");
    }
    let wide: Tensor = tensor(&[1, 2], &[1.0_f32, 2.0]);
    assert!(two_classes(&[]).run(&[wide]).is_err());
}
