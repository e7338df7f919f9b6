//! The operators of ai.onnx.ml: classical machine learning.

// One a line, in alphabetical order.
ops! {
    array_feature_extractor,
    cast_map,
    category_mapper,
    dict_vectorizer,
    label_encoder,
    one_hot_encoder,
    zip_map,
}
