//! Large weights whose numbers are all 16-bit floats are packed in 16 bits.

use ort_session::{ModelBytes, Pack, Session, SessionBuilder, Tensor};

use crate::model::{ModelWriter, weights};

const K: usize = 600;
const N: usize = 512;
const DIMS: [i64; 2] = [600, 512];

/// A product, with a MatMul or a Gemm.
fn product(op: &'static str, weights: &[f32]) -> Vec<u8> {
    ModelWriter::default()
        .input("x", &[-1, DIMS[0]])
        .constant("w", &DIMS, weights)
        .node(op, 13, &["x", "w"], "y")
        .output("y")
        .bytes()
}

fn builder() -> SessionBuilder {
    Session::builder().threads(1)
}

/// The result for some rows, as bits.
fn result(session: &Session, rows: usize) -> Vec<u32> {
    let x = Tensor::from_slice(&[rows, K], &weights(rows * K)).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    let y = outputs[0].as_tensor().unwrap();
    y.as_slice::<f32>().unwrap().iter().map(|y| y.to_bits()).collect()
}

#[test]
fn weights_of_16_bits_take_two_bytes_also_in_a_packed_file() {
    let rounded = |round: fn(f32) -> f32| weights(K * N).into_iter().map(round).collect();
    let f16: Vec<f32> = rounded(|x| (x * 64.0).round() / 64.0);
    let bf16: Vec<f32> = rounded(|x| f32::from_bits((x * 1e-30).to_bits() & 0xffff_0000));
    for (weights, size) in [(f16, 2), (bf16, 2), (rounded(|x| x / 3.0), 4)] {
        for op in ["MatMul", "Gemm"] {
            let model = || ModelBytes::from_vec(product(op, &weights));
            let session = builder().commit(model()).unwrap();
            assert_eq!(session.memory().packed_heap.n_bytes(), K * N * size);
            let optimized = builder().optimize(model()).unwrap();
            let file = ModelBytes::from_vec(optimized.to_packed_bytes(Pack::Replace).unwrap());
            let of_file = builder().commit(file).unwrap();
            let memory = of_file.memory();
            let packed = memory.packed_heap.n_bytes() + memory.packed_mapped.n_bytes();
            assert_eq!(packed, K * N * size);
            let unpacked = builder().prepacking(false).commit(model()).unwrap();
            for rows in [1, 3, 40] {
                let expected = result(&session, rows);
                assert_eq!(result(&of_file, rows), expected, "{op} of {rows} rows");
                assert_eq!(result(&unpacked, rows), expected, "{op} of {rows} rows");
            }
        }
    }
}
