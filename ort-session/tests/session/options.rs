//! The effect of settings, set by key; that methods set the same is tested with the keys.

use ort_format::open;
use ort_session::{
    Kind, Level, ModelBytes, Optimized, Session, SessionBuilder, SessionError, Tensor,
};

use crate::model::{gated, of_text};

/// Dequantized and quantized again, a quantized product, and a dequantized result.
const QUANTIZED: &str = "graph(x: float[4,8]) -> (y) {
      s = const float[] 0.0625
      z = const uint8[] 3
      w = const uint8[8,2] fill 5
      q = QuantizeLinear-13 (x, s, z)
      d = DequantizeLinear-13 (q, s, z)
      q2 = QuantizeLinear-13 (d, s, z)
      d2 = DequantizeLinear-13 (q2, s, z)
      v = DequantizeLinear-13 (w, s, z)
      m = MatMul-13 (d2, v)
      qm = QuantizeLinear-13 (m, s, z)
      dm = DequantizeLinear-13 (qm, s, z)
      y = Sin-7 (dm)
    }";

fn with(entries: &[(&str, &str)]) -> SessionBuilder {
    let set = |builder: SessionBuilder, (key, value): &(&str, &str)| builder.config(key, value);
    entries.iter().try_fold(Session::builder().threads(1), set).unwrap()
}

fn optimized(builder: SessionBuilder, text: &str) -> Optimized {
    builder.optimize(ModelBytes::from_vec(of_text(text))).unwrap()
}

/// The number of remaining nodes of an operator.
fn count(optimized: &Optimized, op_type: &str) -> usize {
    let operators = optimized.operators();
    operators.iter().filter(|operator| operator.op_type == op_type).map(|it| it.after).sum()
}

#[test]
fn a_level_by_key_is_the_level() {
    for (value, expected) in [("0", 2), ("disable_all", 2), ("1", 1), ("enable_basic", 1)] {
        let text = "graph(x: float[2]) -> (y) { a = Identity-13 (x) b = Sin-7 (a) y = Abs-13 (b) }";
        let optimized = optimized(with(&[("session.graph_optimization_level", value)]), text);
        let n_left = count(&optimized, "Identity") + count(&optimized, "Sin");
        assert_eq!(n_left, expected, "{value}");
    }
}

#[test]
fn quantized_operators_can_be_disabled() {
    let of = |entries: &[(&str, &str)]| optimized(with(entries), QUANTIZED);
    let plain = of(&[]);
    assert_eq!((count(&plain, "MatMul"), count(&plain, "QLinearMatMul")), (0, 1));
    let off = of(&[("session.disable_quant_qdq", "1")]);
    assert_eq!((count(&off, "MatMul"), count(&off, "QLinearMatMul")), (1, 0));
    let on_again = of(&[("session.disable_quant_qdq", "1"), ("session.disable_quant_qdq", "0")]);
    assert_eq!(on_again.text(), plain.text());
}

#[test]
fn quantization_pairs_are_kept_or_dropped() {
    let off = ("session.disable_quant_qdq", "1");
    let quantized =
        |entries: &[(&str, &str)]| count(&optimized(with(entries), QUANTIZED), "QuantizeLinear");
    let keeps = ("session.disable_double_qdq_remover", "1");
    assert_eq!((quantized(&[off]), quantized(&[off, keeps])), (2, 3));
    let cleans = ("session.enable_quant_qdq_cleanup", "1");
    assert_eq!(quantized(&[off, cleans]), 0);
}

#[test]
fn quantized_constants_are_kept_or_dequantized() {
    let off = ("session.disable_quant_qdq", "1");
    let folded = ("session.disable_qdq_constant_folding", "1");
    let quantized_nodes =
        |entries: &[(&str, &str)]| count(&optimized(with(entries), QUANTIZED), "DequantizeLinear");
    assert_eq!(quantized_nodes(&[off, folded]), quantized_nodes(&[off]) + 1);
}

#[test]
fn folding_stops_at_the_memory_limit() {
    let text = "graph(x: float[8]) -> (y) {
      a = const float[8] fill 2
      b = Sin-7 (a)
      y = Add-14 (x, b)
    }";
    let sines = |n_bytes| {
        let key = "optimization.constant_folding_max_output_size_in_bytes";
        count(&optimized(with(&[(key, n_bytes)]), text), "Sin")
    };
    assert_eq!((sines("31"), sines("32"), sines("0")), (1, 0, 0));
}

#[test]
fn consecutive_casts_are_kept_by_default() {
    let text = "graph(x: float[8]) -> (y) {
      a = Cast-13 [to: 10] (x)
      y = Cast-13 [to: 1] (a)
    }";
    let casts = |value| {
        let key = "optimization.enable_cast_chain_elimination";
        count(&optimized(with(&[(key, value)]), text), "Cast")
    };
    assert!(casts("0") == 2 && casts("1") < 2);
}

#[test]
fn denormals_are_flushed_or_preserved() {
    let text = "graph(x: float[1]) -> (y) { two = const float[1] [2] y = Mul-14 (x, two) }";
    let doubled = |value| {
        let builder = with(&[("session.set_denormal_as_zero", value)]);
        let session = builder.commit(ModelBytes::from_vec(of_text(text))).unwrap();
        let x = Tensor::from_slice(&[1], &[1e-39_f32]).unwrap();
        let outputs = session.run([("x", &x)]).unwrap();
        outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap()[0]
    };
    assert_eq!((doubled("1"), doubled("0")), (0.0, 2.0 * 1e-39));
}

#[test]
fn a_file_is_mapped_or_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ort");
    std::fs::write(&path, gated()).unwrap();
    for (value, expected) in [("0", Kind::Heap), ("1", Kind::Mapped)] {
        let builder = with(&[("session.use_memory_mapped_ort_model", value)]);
        assert_eq!(builder.commit_from_file(&path).unwrap().bytes().kind(), expected);
    }
}

#[test]
fn bytes_in_memory_are_used_in_place_with_any_setting() {
    for value in ["0", "1"] {
        let bytes = ModelBytes::from_vec(gated());
        let entries = [
            ("session.use_ort_model_bytes_directly", value),
            ("session.use_ort_model_bytes_for_initializers", value),
        ];
        let session = with(&entries).commit(bytes.clone()).unwrap();
        assert_eq!(session.bytes().as_slice().as_ptr(), bytes.as_slice().as_ptr());
        assert!(session.memory().weights_mapped.count > 0);
    }
}

#[test]
fn the_optimized_model_is_written_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let (path, odd) = (folder.path().join("optimized.ort"), folder.path().join("optimized.onnx"));
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let expected = optimized(with(&[]), QUANTIZED).to_bytes().unwrap();
    let model = || ModelBytes::from_vec(of_text(QUANTIZED));
    let key = "session.optimized_model_filepath";
    let commit = |builder: SessionBuilder| builder.commit(model());
    commit(with(&[(key, &text(&path))])).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    // The same with a cache folder, empty or filled.
    for _ in 0..2 {
        std::fs::remove_file(&path).unwrap();
        let builder = with(&[(key, &text(&path))]);
        commit(builder.cache_dir(folder.path().join("cache"))).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), expected);
    }
    let error = commit(with(&[(key, &text(&odd))])).unwrap_err();
    assert!(matches!(&error, SessionError::SavedFormat { path } if *path == odd), "{error}");
    assert!(!odd.exists());
    commit(with(&[(key, &text(&odd)), ("session.save_model_format", "ORT")])).unwrap();
    assert!(open(&std::fs::read(&odd).unwrap(), &ort_format::Limits::default()).is_ok());
    let nowhere = folder.path().join("none/model.ort");
    let error = commit(Session::builder().optimized_model(&nowhere)).unwrap_err();
    assert!(error.to_string().starts_with("the optimized model cannot be saved"), "{error}");
}

#[test]
fn an_unknown_level_is_an_error() {
    assert_eq!(Level::try_from(99), Ok(Level::All));
    assert!(Level::try_from(4).is_err());
}
