//! Without packing, kernels read weights unpacked.

use ort_session::{CacheUse, Level, ModelBytes, Pack, Session, SessionBuilder, Tensor};
use ort_testing::Rng;

use crate::model::of_text;
use crate::networks::{SHAPE, network};

/// A model of one node: its text, and the type and shape of its input.
const NODES: &[(&str, &str, &[usize])] = &[
    ("MatMul", "w = const float[24,8] fill 0.25\n y = MatMul-13 (x, w)", &[5, 24]),
    (
        "Gemm",
        "w = const float[8,24] fill 0.25\n b = const float[8] fill 1\n
         y = Gemm-13 [transB: 1] (x, w, b)",
        &[5, 24],
    ),
    (
        "Conv",
        "w = const float[6,4,3,3] fill 0.25\n
         y = Conv-11 [kernel_shape: [3, 3], pads: [1, 1, 1, 1]] (x, w)",
        &[1, 4, 9, 9],
    ),
    (
        "Conv of 1×1",
        "w = const float[32,32,1,1] fill 0.25\n y = Conv-11 [kernel_shape: [1, 1]] (x, w)",
        &[1, 32, 9, 9],
    ),
    (
        "ConvTranspose",
        "w = const float[4,6,3,3] fill 0.25\n
         y = ConvTranspose-11 [kernel_shape: [3, 3], strides: [2, 2]] (x, w)",
        &[1, 4, 9, 9],
    ),
    (
        "LSTM",
        "w = const float[1,24,5] fill 0.25\n r = const float[1,24,6] fill 0.25\n
         y = LSTM-14 [hidden_size: 6] (x, w, r)",
        &[3, 2, 5],
    ),
    (
        "GRU",
        "w = const float[1,18,5] fill 0.25\n r = const float[1,18,6] fill 0.25\n
         y = GRU-14 [hidden_size: 6] (x, w, r)",
        &[3, 2, 5],
    ),
    (
        "MatMulInteger",
        "w = const int8[24,8] fill 3\n
         q, s, z = DynamicQuantizeLinear-11 (x)\n
         i = MatMulInteger-10 (q, w, z)\n y = Cast-13 [to: 1] (i)",
        &[5, 24],
    ),
    (
        "QLinearMatMul",
        "w = const int8[24,8] fill 3\n s = const float[] 0.0625\n z = const uint8[] 3\n
         zw = const int8[] 0\n q = QuantizeLinear-13 (x, s, z)\n
         p = QLinearMatMul-10 (q, s, z, w, s, zw, s, z)\n y = DequantizeLinear-13 (p, s, z)",
        &[5, 24],
    ),
    (
        "QLinearConv",
        "w = const int8[6,4,3,3] fill 3\n s = const float[] 0.0625\n z = const uint8[] 3\n
         zw = const int8[] 0\n q = QuantizeLinear-13 (x, s, z)\n
         p = QLinearConv-10 [kernel_shape: [3, 3]] (q, s, z, w, s, zw, s, z)\n
         y = DequantizeLinear-13 (p, s, z)",
        &[1, 4, 9, 9],
    ),
    (
        "QLinearConv of planes",
        "w = const uint8[6,1,3,3] fill 200\n s = const float[] 0.0625\n z = const uint8[] 3\n
         zw = const uint8[] 40\n q = QuantizeLinear-13 (x, s, z)\n
         p = QLinearConv-10 [kernel_shape: [3, 3], group: 6] (q, s, z, w, s, zw, s, z)\n
         y = DequantizeLinear-13 (p, s, z)",
        &[1, 6, 9, 9],
    ),
    (
        "QLinearConv of pixels",
        "w = const int8[6,1,3,3] fill 3\n s = const float[] 0.0625\n z = const uint8[] 3\n
         zw = const int8[] 0\n q = QuantizeLinear-13 (x, s, z)\n
         p = com.microsoft:QLinearConv-1 [kernel_shape: [3, 3], group: 6, channels_last: 1]
             (q, s, z, w, s, zw, s, z)\n
         y = DequantizeLinear-13 (p, s, z)",
        &[1, 9, 9, 6],
    ),
    // So large that it is packed after all kernels are compiled.
    (
        "ConvInteger",
        "w = const int8[256,256,3,3] fill 3\n
         q, s, z = DynamicQuantizeLinear-11 (x)\n
         i = ConvInteger-10 [kernel_shape: [3, 3]] (q, w, z)\n y = Cast-13 [to: 1] (i)",
        &[1, 256, 4, 4],
    ),
];

fn commit(builder: SessionBuilder, text: &str) -> Session {
    builder.commit(ModelBytes::from_vec(of_text(text))).unwrap()
}

fn result(session: &Session, shape: &[usize]) -> Vec<f32> {
    let x = Rng::new(3).uniforms(shape.iter().product());
    let x = Tensor::from_slice(shape, &x).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn nothing_is_packed_and_results_agree() {
    for &(name, nodes, shape) in NODES {
        let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
        let text = format!("graph(x: float[{}]) -> (y) {{\n{nodes}\n}}", dims.join(","));
        for level in [Level::Disable, Level::All] {
            let of = |is_on| commit(Session::builder().level(level).prepacking(is_on), &text);
            let (packed, plain) = (of(true), of(false));
            let memory = plain.memory();
            assert_eq!(memory.packed_heap.count, 0, "{name} at {level}");
            assert_eq!(memory.weights_released, 0, "{name} at {level}");
            let (expected, found) = (result(&packed, shape), result(&plain, shape));
            // Sums of up to 96 products of at most 1, in another order.
            let bound = ort_testing::sum_bound(96, 96.0);
            ort_testing::assert_close(&expected, &found, |_| bound);
        }
    }
}

#[test]
fn packed_forms_replace_constants_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed.ort");
    for &(name, nodes, shape) in NODES {
        let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
        let text = format!("graph(x: float[{}]) -> (y) {{\n{nodes}\n}}", dims.join(","));
        let session = commit(Session::builder(), &text);
        let optimized = Session::builder().optimize(ModelBytes::from_vec(of_text(&text))).unwrap();
        let size = optimized.write_packed(&path, Pack::Replace).unwrap();
        assert!(size.left_out_bytes > 0, "{name}");
        let loaded = Session::builder().commit_from_file(&path);
        let loaded = loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(result(&loaded, shape), result(&session, shape), "{name}");
    }
}

#[test]
fn kernels_pack_by_default() {
    for &(name, nodes, shape) in NODES {
        let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
        let text = format!("graph(x: float[{}]) -> (y) {{\n{nodes}\n}}", dims.join(","));
        let session = commit(Session::builder().level(Level::Disable), &text);
        assert!(session.memory().packed_heap.count > 0, "{name}");
    }
}

#[test]
fn the_key_has_the_same_effect() {
    let text = network(2, 4);
    let builder = || Session::builder().level(Level::Basic);
    let by_key = commit(builder().config("session.disable_prepacking", "1").unwrap(), &text);
    let by_method = commit(builder().prepacking(false), &text);
    assert_eq!((by_key.memory().packed_heap.count, by_method.memory().packed_heap.count), (0, 0));
    assert_eq!(result(&by_key, &SHAPE), result(&by_method, &SHAPE));
    let on = commit(builder().config("session.disable_prepacking", "0").unwrap(), &text);
    assert!(on.memory().packed_heap.count > 0);
}

#[test]
fn a_cache_folder_has_files_with_and_without() {
    let (folder, text) = (tempfile::tempdir().unwrap(), network(5, 3));
    let of = |is_on| commit(Session::builder().cache_dir(folder.path()).prepacking(is_on), &text);
    for (is_on, cache) in [
        (true, CacheUse::Made),
        (false, CacheUse::Made),
        (true, CacheUse::Found),
        (false, CacheUse::Found),
    ] {
        let session = of(is_on);
        assert_eq!(session.metadata().cache, cache);
        assert_eq!(session.memory().packed_mapped.count > 0, is_on);
        assert_eq!(session.memory().packed_heap.count, 0);
    }
}
