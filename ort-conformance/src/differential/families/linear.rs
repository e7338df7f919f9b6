//! Linear models and support vector machines: weighted sums of the features, or of kernels.

use super::super::net::{Net, ROUNDING, Value, list};

/// The root mean square of numbers from −1 to 1.
const SIZE: f64 = 0.58;

/// `n` float literals from −1 to 1.
fn numbers(net: &mut Net<'_>, n: usize) -> String {
    let mut number = || format!("{:?}", net.draw.between(0, 2000) as f64 / 1000.0 - 1.0);
    let numbers: Vec<String> = (0..n).map(|_| number()).collect();
    list(&numbers)
}

/// Numbers from −1 to 1.
fn uniform(shape: &[usize]) -> Value {
    Value { name: String::new(), shape: shape.to_vec(), size: SIZE, error: 0.0 }
}

/// Sums of `n_features` features for each of `n_targets`, and of an offset.
fn sums(x: &Value, n_features: usize, n_targets: usize, name: String) -> Value {
    let (w, offset) = (uniform(&[n_features]), uniform(&[1]));
    Value::sums(name, vec![x.shape[0], n_targets], (n_features, [x, &w]), Some(&offset))
}

pub(super) fn regressor(net: &mut Net<'_>) -> Vec<Value> {
    let (n_features, n_targets) = (net.draw.size(1, 300), net.draw.size(1, 40));
    let n = net.draw.size(1, 3_000_000 / (n_features * n_targets).max(1_500));
    let x = net.input(&[n, n_features]);
    let transform = net.draw.pick(&["NONE", "LOGISTIC"]);
    let (weights, offsets) = (numbers(net, n_features * n_targets), numbers(net, n_targets));
    let op = format!(
        "ai.onnx.ml:LinearRegressor-1 [targets: {n_targets}, post_transform: {transform:?}, \
         coefficients: [{weights}], intercepts: [{offsets}]]"
    );
    let name = net.node(&op, &[&x.name]);
    let y = sums(&x, n_features, n_targets, name);
    // A single score is not transformed.
    let is_transformed = transform == "LOGISTIC" && n_targets > 1;
    let (size, error) = if is_transformed { y.after(0.25, 1.0) } else { (y.size, y.error) };
    vec![Value { size, error, ..y }]
}

pub(super) fn classifier(net: &mut Net<'_>) -> Vec<Value> {
    let (n_features, n_classes) = (net.draw.size(1, 300), net.draw.size(2, 20));
    let n = net.draw.size(1, 3_000_000 / (n_features * n_classes).max(1_500));
    let x = net.input(&[n, n_features]);
    let (weights, offsets) = (numbers(net, n_features * n_classes), numbers(net, n_classes));
    let labels: Vec<usize> = (0..n_classes).collect();
    let op = format!(
        "ai.onnx.ml:LinearClassifier-1 [classlabels_ints: [{}], post_transform: \"SOFTMAX\", \
         coefficients: [{weights}], intercepts: [{offsets}]]",
        list(&labels)
    );
    // Classes of equal scores may differ.
    let name = net.node_of(&op, &[&x.name], 2).swap_remove(1);
    let y = sums(&x, n_features, n_classes, name);
    let (size, error) = y.after(0.5, 1.0);
    vec![Value { size, error, ..y }]
}

pub(super) fn support_vectors(net: &mut Net<'_>) -> Vec<Value> {
    let (n_features, n_supports) = (net.draw.size(1, 100), net.draw.size(1, 500));
    let n = net.draw.size(1, 2_000_000 / (n_features * n_supports).max(4_000));
    let x = net.input(&[n, n_features]);
    let kernel = net.draw.pick(&["LINEAR", "POLY", "RBF", "SIGMOID"]);
    let (vectors, weights) = (numbers(net, n_supports * n_features), numbers(net, n_supports));
    let (rho, gamma) = (numbers(net, 1), 1.0 / n_features as f64);
    let op = format!(
        "ai.onnx.ml:SVMRegressor-1 [n_supports: {n_supports}, kernel_type: {kernel:?}, \
         kernel_params: [{gamma:?}, 0.5, 3.0], support_vectors: [{vectors}], \
         coefficients: [{weights}], rho: [{rho}]]"
    );
    let name = net.node(&op, &[&x.name]);
    let product = sums(&x, n_features, n_supports, String::new());
    // Functions of arguments of at most 1.5; squares of distances are sums of terms of one sign.
    let (size, error) = match kernel {
        "LINEAR" => (product.size, product.error),
        "RBF" => (1.0, ROUNDING * (4.0 + (n_features as f64).sqrt())),
        _ => (1.0, 8.0 * ROUNDING),
    };
    let products = Value { size, error, ..product };
    vec![sums(&products, n_supports, 1, name)]
}

pub(super) fn feature_vectorizer(net: &mut Net<'_>) -> Vec<Value> {
    let widths = [0; 3].map(|_| net.draw.size(1, 200));
    let n = net.draw.size(1, 100_000 / widths.iter().sum::<usize>());
    let inputs = widths.map(|width| net.input(&[n, width]).name);
    let lengths = [0; 3].map(|_| net.draw.size(1, 200));
    let op = format!("ai.onnx.ml:FeatureVectorizer-1 [inputdimensions: [{}]]", list(&lengths));
    let name = net.node(&op, &inputs.each_ref().map(String::as_str));
    vec![Value { name, shape: vec![n, lengths.iter().sum()], size: 1.0, error: 0.0 }]
}

pub(super) fn normalizer(net: &mut Net<'_>) -> Vec<Value> {
    let n_features = net.draw.size(1, 2_000);
    let n = net.draw.size(1, 400_000 / n_features);
    let x = net.input(&[n, n_features]);
    let norm = net.draw.pick(&["L1", "L2"]);
    let name = net.node(&format!("ai.onnx.ml:Normalizer-1 [norm: {norm:?}]"), &[&x.name]);
    vec![Value { name, shape: x.shape, size: 1.0, error: 4.0 * ROUNDING }]
}
