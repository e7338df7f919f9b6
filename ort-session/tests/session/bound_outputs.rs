//! Memory of the caller for outputs: kernels write to it.

use std::sync::{Arc, Mutex};

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_session::{
    BoundOutputs, DType, Level, ModelBytes, RunOptions, Session, Tensor, TensorViewMut,
};

use crate::model::{ModelWriter, forked, forked_values};
use crate::taking::Taking;

fn session(bytes: Vec<u8>) -> Session {
    Session::builder().level(Level::Disable).commit(ModelBytes::from_vec(bytes)).unwrap()
}

/// Computes `Relu`, and records where it writes.
#[derive(Clone, Debug, Default)]
struct Recording(Arc<Mutex<Vec<usize>>>);

impl Kernel for Recording {
    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        let y = io.outputs[0].tensor(DType::F32, x.shape())?.into_slice::<f32>()?;
        self.0.lock().unwrap().push(y.as_ptr().addr());
        y.iter_mut().zip(x.as_slice::<f32>()?).for_each(|(y, x)| *y = x.max(0.0));
        Ok(())
    }
}

#[test]
fn kernels_write_to_bound_memory_without_copies() {
    let noting = Recording::default();
    let builder =
        Session::builder().level(Level::Disable).provider(Taking::new("Relu", noting.clone()));
    let session = builder.commit(ModelBytes::from_vec(forked())).unwrap();
    let (mut first, mut second) = ([0.0_f32; 6], Tensor::zeros(DType::F32, &[2, 3]).unwrap());
    for run in 0..3_u8 {
        let data: Vec<f32> = (0..6).map(|i| f32::from(run) * 2.0 - i as f32).collect();
        let [y, z, w] = forked_values(&data);
        let x = Tensor::from_slice(&[2, 3], &data).unwrap();
        // The output that another node reads, in two kinds of memory.
        let bound = BoundOutputs::default();
        let bound = if run == 0 {
            bound.with("y", TensorViewMut::from_slice(&[2, 3], &mut first).unwrap())
        } else {
            bound.with("y", &mut second)
        };
        let outputs = session.run_into([("x", &x)], bound, &RunOptions::new()).unwrap();
        let written = if run == 0 { &first[..] } else { second.as_slice().unwrap() };
        assert_eq!(written, y);
        assert_eq!(noting.0.lock().unwrap().pop(), Some(written.as_ptr().addr()));
        let rest: Vec<_> = outputs.iter().map(|(name, value)| (name, value.as_tensor())).collect();
        let rest = rest.into_iter().map(|(name, tensor)| (name, tensor.unwrap().as_slice()));
        let rest: Vec<(&str, &[f32])> = rest.map(|(name, data)| (name, data.unwrap())).collect();
        assert_eq!(rest, [("z", &*z), ("w", &*w)]);
    }
}

#[test]
fn bound_outputs_are_computed_in_addition_to_selected_ones() {
    let session = session(forked());
    let data = [3.0_f32, 1.0, -2.0];
    let [_, z, w] = forked_values(&data);
    let x = Tensor::from_slice(&[1, 3], &data).unwrap();
    let mut place = Tensor::zeros(DType::F32, &[1, 3]).unwrap();
    for names in [&["w"][..], &["z", "w"]] {
        let options = RunOptions::new().outputs(names.iter().copied());
        let outputs = session.run_into([("x", &x)], [("z", &mut place)], &options).unwrap();
        assert_eq!(outputs.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["w"]);
        assert_eq!(outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap(), w);
        assert_eq!(place.as_slice::<f32>().unwrap(), z);
    }
}

#[test]
fn outputs_without_a_kernel_are_copied() {
    let model = ModelWriter::default()
        .input("x", &[4])
        .constant("c", &[2], &[5.0, 6.0])
        .node("NonZero", 13, &["x"], "n")
        .output("x")
        .output("c")
        .output("n");
    let session = session(model.bytes());
    let x = Tensor::from_slice(&[4], &[0.0_f32, 1.0, 0.0, 2.0]).unwrap();
    let mut x_out = Tensor::zeros(DType::F32, &[4]).unwrap();
    let mut c = Tensor::zeros(DType::F32, &[2]).unwrap();
    let mut n = Tensor::zeros(DType::I64, &[1, 2]).unwrap();
    let bound = [("x", &mut x_out), ("c", &mut c), ("n", &mut n)];
    let outputs = session.run_into([("x", &x)], bound, &RunOptions::new()).unwrap();
    assert!(outputs.is_empty());
    assert_eq!((&x_out, c.as_slice::<f32>().unwrap()), (&x, &[5.0, 6.0][..]));
    assert_eq!(n.as_slice::<i64>().unwrap(), [1, 3]);
}

#[test]
fn mismatching_memory_is_an_error() {
    let model = ModelWriter::default().input("x", &[2]).node("NonZero", 13, &["x"], "n");
    let model = model.node("Neg", 13, &["x"], "y").output("n").output("y").bytes();
    let session = session(model);
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    for (name, dtype, shape, expected) in [
        ("y", DType::F32, &[3][..], "output `y` is float[2], and the memory for it is float[3]"),
        ("y", DType::I64, &[2], "output `y` is float[2], and the memory for it is int64[2]"),
        ("n", DType::I64, &[1, 1], "output `n` is int64[1,2], and the memory for it is int64[1,1]"),
        (
            "m",
            DType::F32,
            &[2],
            "there is no output `m`; did you mean `n`?; the outputs are `n`, `y`",
        ),
    ] {
        let mut memory = Tensor::zeros(dtype, shape).unwrap();
        let bound = [(name, &mut memory)];
        let error = session.run_into([("x", &x)], bound, &RunOptions::new()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let mut places = [0.0_f32; 4];
    let (first, second) = places.split_at_mut(2);
    let view = |data| TensorViewMut::from_slice(&[2], data).unwrap();
    let bound = [("y", view(first)), ("y", view(second))];
    let error = session.run_into([("x", &x)], bound, &RunOptions::new()).unwrap_err();
    assert_eq!(error.to_string(), "output `y` was requested twice");
}
