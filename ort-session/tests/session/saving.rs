//! Saving is within the limits of loading, and can be cancelled.

use std::fs;

use ort_session::{
    CacheUse, Cancel, LoadLimitError, LoadLimits, ModelBytes, Optimized, Pack, SaveError, Session,
    SessionBuilder, SessionError, Tensor, TensorError,
};

use crate::model::{ModelWriter, weights};

const N: usize = 512;
/// The size of the model's constant, and of the same packed.
const W_BYTES: usize = N * N * 4;

/// `y = x · w`, with a matrix of a MiB.
fn product() -> Vec<u8> {
    let n = i64::try_from(N).unwrap();
    ModelWriter::default()
        .input("x", &[-1, n])
        .constant("w", &[n, n], &weights(N * N))
        .node("MatMul", 13, &["x", "w"], "y")
        .output("y")
        .bytes()
}

fn limited(max_bytes: usize) -> SessionBuilder {
    let limits = LoadLimits { max_bytes: Some(max_bytes), ..LoadLimits::default() };
    Session::builder().threads(1).load_limits(limits)
}

fn optimized(builder: SessionBuilder) -> Optimized {
    builder.optimize(ModelBytes::from_vec(product())).unwrap()
}

fn is_over(limit: usize, error: &SaveError) -> bool {
    matches!(error, SaveError::Memory(TensorError::NoMemory { limit: Some(of), n_bytes })
        if *of == limit && *n_bytes > W_BYTES / 2)
}

#[test]
fn a_saved_file_counts_against_the_limit_of_loading() {
    // The file and a copy of the elements, or the file and the packed constant.
    let too_small = [W_BYTES / 2, W_BYTES + W_BYTES / 2];
    let [half, more] = too_small.map(|limit| (limit, optimized(limited(limit))));
    for (limit, error) in [
        (half.0, half.1.to_bytes().unwrap_err()),
        (half.0, half.1.to_onnx_bytes().unwrap_err()),
        (more.0, more.1.to_onnx_bytes().unwrap_err()),
        (more.0, more.1.to_packed_bytes(Pack::Replace).unwrap_err()),
    ] {
        assert!(is_over(limit, &error), "{limit}: {error}");
    }
    more.1.to_bytes().unwrap();
    let enough = optimized(limited(4 * W_BYTES));
    enough.to_onnx_bytes().unwrap();
    enough.to_packed_bytes(Pack::KeepOriginals).unwrap();
}

#[test]
fn a_file_of_the_cache_over_the_limit_costs_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let (model, cache) = (folder.path().join("model.ort"), folder.path().join("cache"));
    fs::write(&model, product()).unwrap();
    let builder = limited(W_BYTES + W_BYTES / 2).cache_dir(&cache);
    let session = builder.commit_from_file(&model).unwrap();
    assert_eq!(session.metadata().cache, CacheUse::Failed);
    let [warning] = &session.metadata().packing_warnings[..] else { panic!("one warning") };
    let cache = cache.display().to_string();
    assert!(warning.starts_with(&cache) && warning.matches(&cache).count() == 1, "{warning}");
    assert!(warning.contains(": no memory for the file: cannot allocate"), "{warning}");
    let x = Tensor::from_slice(&[1, N], &weights(N)).unwrap();
    assert!(session.run([("x", &x)]).is_ok());
}

#[test]
fn cancelled_saving_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved");
    let cancel = Cancel::new();
    let optimized = optimized(Session::builder().threads(1).cancel(&cancel));
    optimized.write(&path).unwrap();
    fs::remove_file(&path).unwrap();
    cancel.cancel();
    let errors = [
        optimized.to_bytes().map(drop).unwrap_err(),
        optimized.to_onnx_bytes().map(drop).unwrap_err(),
        optimized.write(&path).unwrap_err(),
        optimized.write_onnx(&path).unwrap_err(),
        optimized.write_packed(&path, Pack::KeepOriginals).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, SaveError::Cancelled), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_limit_without_room_for_the_optimized_model_fails_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved.ort");
    let builder = limited(W_BYTES / 2).prepacking(false).optimized_model(&path);
    let error = builder.commit(ModelBytes::from_vec(product())).unwrap_err();
    assert!(matches!(error, SessionError::Save(SaveError::Memory(_))), "{error}");
    assert!(!path.exists());
}

#[test]
fn packed_constants_over_the_limit_are_not_saved() {
    let error = optimized(limited(W_BYTES / 2)).to_packed_bytes(Pack::Replace).unwrap_err();
    assert!(matches!(error, SaveError::Limit(LoadLimitError::Bytes { .. })), "{error}");
}
