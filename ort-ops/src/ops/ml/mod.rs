//! The operators of ai.onnx.ml: classical machine learning.

// One per line, in alphabetical order.
ops! {
    array_feature_extractor,
    binarizer,
    cast_map,
    category_mapper,
    dict_vectorizer,
    feature_vectorizer,
    imputer,
    label_encoder,
    linear_classifier,
    linear_regressor,
    normalizer,
    one_hot_encoder,
    scaler,
    svm,
    tree_ensemble,
    tree_ensemble_classifier,
    zip_map,
}
