//! Initializers that the caller replaces.

use std::sync::Arc;

use ort_session::{
    CacheUse, InitializerError, Level, ModelBytes, Session, SessionBuilder, SessionError, Tensor,
};

use crate::cache::{Place, bits, product};
use crate::model::{ModelWriter, weights};

const N: usize = 64;

/// `y = x + w`, and `z` is the sum of −w and x, which the optimizer folds.
fn sums() -> ModelBytes {
    let model = ModelWriter::default()
        .input("x", &[3])
        .constant("w", &[3], &[1.0, 2.0, 3.0])
        .node("Add", 14, &["x", "w"], "y")
        .node("Neg", 13, &["w"], "negative")
        .node("Add", 14, &["x", "negative"], "z")
        .output("y")
        .output("z");
    ModelBytes::from_vec(model.bytes())
}

/// Elements with an owner, which live as long as they are read.
struct Owner(Arc<Vec<u8>>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn lent(elements: &Arc<Vec<u8>>, shape: &[usize]) -> Tensor {
    let bytes = ModelBytes::from_owner(Owner(elements.clone()));
    Tensor::from_bytes(ort_session::DType::F32, shape, bytes.bytes().clone()).unwrap()
}

fn floats(data: &[f32]) -> Tensor {
    Tensor::from_slice(&[data.len()], data).unwrap()
}

fn results(builder: SessionBuilder) -> [Vec<f32>; 2] {
    let session = builder.threads(1).commit(sums()).unwrap();
    let outputs = session.run([("x", &floats(&[0.0; 3]))]).unwrap();
    [0, 1].map(|i| outputs[i].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec())
}

fn refused(builder: SessionBuilder) -> InitializerError {
    match builder.commit(sums()).err() {
        Some(SessionError::Initializer(error)) => Some(error),
        _ => None,
    }
    .unwrap()
}

#[test]
fn replacements_take_effect_folded_or_not() {
    for level in [Level::Disable, Level::All] {
        let builder = Session::builder().level(level).initializer("w", floats(&[5.0, 6.0, 7.0]));
        assert_eq!(results(builder), [[5.0, 6.0, 7.0], [-5.0, -6.0, -7.0]]);
    }
    let other = Session::builder().initializer("of another model", floats(&[0.0]));
    assert_eq!(results(other), results(Session::builder()));
}

#[test]
fn sessions_share_replacements_without_a_copy() {
    let elements = Arc::new(weights(3).iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>());
    let builder = Session::builder().level(Level::Disable).threads(1);
    let builder = builder.initializer("w", lent(&elements, &[3]));
    let sessions = [0, 1].map(|_| builder.clone().commit(sums()).unwrap());
    drop(builder);
    assert_eq!(Arc::strong_count(&elements), 2, "one owner for all");
    for session in &sessions {
        assert_eq!(session.memory().copied_bytes(), 0);
        let outputs = session.run([("x", &floats(&[0.0; 3]))]).unwrap();
        assert_eq!(outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap(), weights(3));
    }
    drop(sessions);
    assert_eq!(Arc::strong_count(&elements), 1);
}

#[test]
fn mismatching_replacements_are_errors() {
    let builder = Session::builder;
    let shape = refused(builder().initializer("w", floats(&[1.0; 4])));
    assert_eq!(shape.to_string(), "initializer `w` is float[3], not float[4]");
    let element = Tensor::from_slice(&[3], &[1_i64; 3]).unwrap();
    let element = refused(builder().initializer("w", element));
    assert_eq!(element.to_string(), "initializer `w` is float[3], not int64[3]");
    let unknown = refused(builder().external_initializer("v", floats(&[1.0; 3])));
    assert_eq!(unknown.to_string(), "the model has no initializer `v`; did you mean `w`?");
    let here = refused(builder().external_initializer("w", floats(&[1.0; 3])));
    assert_eq!(here, InitializerError::NotExternal { name: "w".to_owned() });
}

#[test]
fn a_dense_replacement_replaces_a_sparse_initializer() {
    let model = ModelWriter::default().input("x", &[3]).sparse("w", 3);
    let model = model.node("Add", 14, &["x", "w"], "y").output("y").bytes();
    let builder = Session::builder().threads(1).initializer("w", floats(&[1.0, 2.0, 3.0]));
    let session = builder.commit(ModelBytes::from_vec(model)).unwrap();
    let outputs = session.run([("x", &floats(&[0.0; 3]))]).unwrap();
    assert_eq!(outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn a_cache_has_a_file_for_each_value() {
    let place = Place::new();
    let with = |scale: f32| {
        let w: Vec<f32> = weights(N * N).iter().map(|w| w * scale).collect();
        let session = place.builder().initializer("w", Tensor::from_slice(&[N, N], &w).unwrap());
        let session = session.commit_from_file(&place.model).unwrap();
        (session.metadata().cache, bits(&session))
    };
    let plain = |scale| {
        bits(&Session::builder().threads(1).commit(ModelBytes::from_vec(product(scale))).unwrap())
    };
    assert_eq!(with(2.0), (CacheUse::Made, plain(2.0)));
    assert_eq!(with(3.0), (CacheUse::Made, plain(3.0)));
    assert_eq!(with(2.0), (CacheUse::Found, plain(2.0)));
    assert_eq!(bits(&place.session()), plain(1.0));
}

#[test]
fn a_packed_file_packs_replacements_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed.ort");
    let builder = Session::builder().threads(1);
    let optimized = builder.clone().optimize(ModelBytes::from_vec(product(1.0))).unwrap();
    optimized.write_packed(&path, ort_session::Pack::Replace).unwrap();
    let w: Vec<f32> = weights(N * N).iter().map(|w| w * 2.0).collect();
    let given = builder.clone().initializer("w", Tensor::from_slice(&[N, N], &w).unwrap());
    let plain = builder.commit(ModelBytes::from_vec(product(2.0))).unwrap();
    assert_eq!(bits(&given.commit_from_file(&path).unwrap()), bits(&plain));
}
