//! The operators of ai.onnx.ml: classical machine learning.

// One a line, in alphabetical order.
ops! {
    binarizer,
    feature_vectorizer,
    imputer,
    linear_classifier,
    linear_regressor,
    normalizer,
    scaler,
    svm,
    tree_ensemble,
    tree_ensemble_classifier,
}
