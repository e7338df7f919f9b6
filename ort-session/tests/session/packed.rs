//! Packed files.

use ort_session::{
    IsaChoice, Level, Load, ModelBytes, Pack, Session, SessionBuilder, SessionError, Tensor,
};

use crate::model::{ModelWriter, weights};

/// Two products with packed matrices, one of them in a branch, and a bias.
fn products() -> Vec<u8> {
    let branch = |bias: &'static str| {
        ModelWriter::default()
            .node("MatMul", 13, &["h", "w2"], "p")
            .node("Add", 14, &["p", bias], "z")
            .output("z")
    };
    ModelWriter::default()
        .input("x", &[-1, 48])
        .constant("w1", &[48, 40], &weights(48 * 40))
        .constant("w2", &[40, 3], &weights(40 * 3))
        .constant("b1", &[3], &[1.0, -2.0, 0.5])
        .constant("b2", &[3], &[-1.0, 2.0, 0.0])
        .constant("zero", &[], &[0.0])
        .node("MatMul", 13, &["x", "w1"], "h")
        .node("ReduceSum", 13, &["h"], "sum")
        .node("Greater", 13, &["sum", "zero"], "is_positive")
        .node("If", 16, &["is_positive"], "y")
        .subgraph("then_branch", branch("b1"))
        .subgraph("else_branch", branch("b2"))
        .output("y")
        .bytes()
}

fn builder() -> SessionBuilder {
    Session::builder().threads(1)
}

fn packed(builder: SessionBuilder, pack: Pack) -> Vec<u8> {
    let optimized = builder.optimize(ModelBytes::from_vec(products())).unwrap();
    optimized.to_packed_bytes(pack).unwrap()
}

/// The results as bits.
fn results(session: &Session) -> Vec<Vec<f32>> {
    let run = |sign: f32| {
        let x: Vec<f32> = weights(2 * 48).iter().map(|x| x * sign).collect();
        let x = Tensor::from_slice(&[2, 48], &x).unwrap();
        let outputs = session.run([("x", &x)]).unwrap();
        outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
    };
    vec![run(1.0), run(-1.0)]
}

/// Other levels change the order of additions.
fn assert_close(found: &[Vec<f32>], expected: &[Vec<f32>]) {
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn a_packed_file_is_neither_optimized_nor_packed() {
    let expected = results(&builder().commit(ModelBytes::from_vec(products())).unwrap());
    let folder = tempfile::tempdir().unwrap();
    for pack in [Pack::KeepOriginals, Pack::Replace] {
        let path = folder.path().join("packed.ort");
        let optimized = builder().optimize(ModelBytes::from_vec(products())).unwrap();
        assert!(!optimized.is_packed());
        let size = optimized.write_packed(&path, pack).unwrap();
        assert_eq!(size.left_out_bytes > 0, pack == Pack::Replace);
        assert_eq!(size.file_bytes, std::fs::read(&path).unwrap().len());
        for load in [Load::Mapped, Load::Read] {
            let optimized = builder().load(load).optimize_from_file(&path).unwrap();
            assert!(optimized.is_packed() && optimized.report().passes.is_empty());
            let session = optimized.commit().unwrap();
            let memory = session.memory();
            assert_eq!((memory.packed_heap.n_bytes(), memory.copied_bytes()), (0, 0), "{pack:?}");
            assert_eq!(memory.packed_mapped.n_bytes(), size.packed_bytes);
            assert_eq!(results(&session), expected, "{pack:?}");
        }
    }
}

#[test]
fn elements_without_readers_are_left_out() {
    let session = builder().commit(ModelBytes::from_vec(products())).unwrap();
    let memory = session.memory();
    let (w1, w2) = (48 * 40 * 4, 40 * 3 * 4);
    assert!(memory.packed_heap.n_bytes() >= w1 + w2, "{memory:?}");
    assert!(memory.weights_mapped.n_bytes() + memory.copied_bytes() < w2, "{memory:?}");
}

#[test]
fn misaligned_files_are_packed_files_as_well() {
    let bytes = packed(builder(), Pack::Replace);
    let expected = results(&builder().commit(ModelBytes::from_vec(products())).unwrap());
    for shift in [1, 4, 32] {
        let mut moved = vec![0; shift];
        moved.extend_from_slice(&bytes);
        let moved = bytes::Bytes::from(moved).slice(shift..);
        let session = builder().commit(ModelBytes::from_owner(moved)).unwrap();
        assert_eq!(results(&session), expected);
    }
}

#[test]
fn equal_models_are_packed_to_equal_bytes() {
    let threads = |n| Session::builder().threads(n);
    for pack in [Pack::KeepOriginals, Pack::Replace] {
        assert!(packed(threads(1), pack) == packed(threads(3), pack), "{pack:?}");
    }
}

#[test]
fn a_file_for_another_target_is_packed_again_or_refused() {
    let generic = || builder().isa(IsaChoice::Generic);
    let others = [
        generic().level(Level::Basic),
        generic().disable_optimizers(["GeluFusionL2"]),
        generic().enable_optimizers(["GeluApproximation"]),
        generic().winograd(false),
        generic().denormals(ort_session::Denormals::Preserve),
        generic().stop_after(1),
    ];
    let kept = packed(generic(), Pack::KeepOriginals);
    let replaced = packed(generic(), Pack::Replace);
    let expected = results(&generic().commit(ModelBytes::from_vec(products())).unwrap());
    for other in others {
        let session = other.clone().commit(ModelBytes::from_vec(kept.clone())).unwrap();
        let [warning] = &session.metadata().packing_warnings[..] else { panic!("one warning") };
        assert!(warning.contains("packed weights are for `ort-session"), "{warning}");
        assert_close(&results(&session), &expected);
        let error = other.commit(ModelBytes::from_vec(replaced.clone())).unwrap_err();
        let SessionError::IncompatibleTarget { packed_for, here } = &error else {
            panic!("{error}")
        };
        assert!(packed_for.contains("for generic") && packed_for != here);
        assert!(error.to_string().contains("run the original model"), "{error}");
    }
}

#[test]
fn a_packed_file_stays_packed_when_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copy] = ["packed.ort", "copy.ort"].map(|name| folder.path().join(name));
    let expected = results(&builder().commit(ModelBytes::from_vec(products())).unwrap());
    let n_bytes = [Pack::KeepOriginals, Pack::Replace].map(|pack| packed(builder(), pack).len());
    for (pack, n_kept) in [Pack::KeepOriginals, Pack::Replace].into_iter().zip(n_bytes) {
        std::fs::write(&path, packed(builder(), pack)).unwrap();
        let again = builder().optimize_from_file(&path).unwrap();
        let plain = again.to_bytes().unwrap();
        assert!(plain == again.to_packed_bytes(Pack::KeepOriginals).unwrap(), "{pack:?}");
        // A builder saves the optimized model when it builds a session.
        builder().optimized_model(&copy).commit_from_file(&path).unwrap();
        assert!(std::fs::read(&copy).unwrap() == plain, "{pack:?}");
        let replaced = again.to_packed_bytes(Pack::Replace).unwrap();
        for (bytes, n_bytes) in [(plain, n_kept), (replaced, n_bytes[1])] {
            assert_eq!(bytes.len(), n_bytes, "{pack:?}");
            std::fs::write(&copy, bytes).unwrap();
            let session = builder().commit_from_file(&copy).unwrap();
            assert!(session.metadata().packing_warnings.is_empty());
            assert_eq!(session.memory().packed_heap.count, 0, "{pack:?}");
            assert_eq!(results(&session), expected, "{pack:?}");
        }
    }
}

#[test]
fn a_file_for_another_target_is_written_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain.ort");
    let generic = || builder().isa(IsaChoice::Generic);
    let here = || generic().level(Level::Basic);
    let other_target = packed(generic(), Pack::KeepOriginals);
    let optimized = here().optimize(ModelBytes::from_vec(other_target.clone())).unwrap();
    assert!(!optimized.is_packed() && optimized.packing_warnings().len() == 1);
    let expected = results(&here().commit(ModelBytes::from_vec(other_target.clone())).unwrap());
    here().optimized_model(&path).commit(ModelBytes::from_vec(other_target)).unwrap();
    assert!(std::fs::read(&path).unwrap() == optimized.to_bytes().unwrap());
    for builder in [here(), generic()] {
        let session = builder.commit_from_file(&path).unwrap();
        assert!(session.metadata().packing_warnings.is_empty());
        assert!(session.metadata().model.metadata.is_empty());
        assert_close(&results(&session), &expected);
    }
}

#[test]
fn a_flipped_bit_is_detected_on_loading() {
    for pack in [Pack::KeepOriginals, Pack::Replace] {
        let whole = packed(builder(), pack);
        let expected = results(&builder().commit(ModelBytes::from_vec(whole.clone())).unwrap());
        // Steps of a prime, so that every byte of a word is tested.
        for at in (0..whole.len()).step_by(101) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            // The keys of the header may be hit: then there is no header, and elements are read.
            if let Ok(session) = builder().commit(ModelBytes::from_vec(bytes)) {
                assert_eq!(results(&session), expected, "byte {at} of {pack:?}");
                assert!(session.memory().packed_mapped.count == 0, "byte {at} of {pack:?}");
            }
        }
    }
}

#[test]
fn verification_of_checksums_can_be_disabled() {
    let mut bytes = packed(builder(), Pack::Replace);
    let element = weights(40 * 3)[70].to_le_bytes();
    let at = bytes.windows(4).position(|word| word == element).unwrap();
    bytes[at] ^= 1;
    let commit = |checks| builder().check_sums(checks).commit(ModelBytes::from_vec(bytes.clone()));
    assert!(matches!(commit(true), Err(SessionError::Damaged)));
    assert!(commit(false).is_ok());
}
