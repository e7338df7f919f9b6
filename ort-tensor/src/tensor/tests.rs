//! Which tensors share data.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::{reusing, within};

fn materialize_alone(tensor: &Tensor) -> Result<(), TensorError> {
    materialize(&[tensor], |n, part| (0..n).for_each(part))
}

#[test]
fn aligned_bytes_are_borrowed_and_others_copied_once() {
    let file = Bytes::from_owner(AlignedBuf::copy_of(&[1; 32]));
    for (from, dtype, shared) in
        [(0, DType::I64, true), (4, DType::I64, false), (4, DType::F32, true), (1, DType::I4, true)]
    {
        let n_bytes = dtype.n_bytes(2).unwrap();
        let tensor = Tensor::from_bytes(dtype, &[2], file.slice(from..from + n_bytes)).unwrap();
        assert_eq!(tensor.is_shared(), shared, "{dtype} at {from}");
        assert_eq!(tensor.view().as_bytes().unwrap()[0], 1);
    }
}

#[test]
fn unaligned_bytes_are_copied_when_they_are_viewed() {
    let content: Vec<u8> = (0..=255).cycle().take(1 << 18).collect();
    let file = Bytes::from_owner(AlignedBuf::copy_of(&content));
    for (from, n) in [(1, 3), (2, (1 << 16) - 1)] {
        let bytes = file.slice(from..from + 4 * n);
        let place = bytes.as_ptr();
        let is_aligned = |bytes: &[u8]| bytes.as_ptr().align_offset(4) == 0;
        let make = || Tensor::from_bytes(DType::F32, &[n], bytes.clone()).unwrap();
        let tensor = make();
        let in_place =
            |tensor: &Tensor| tensor.unaligned_view().as_bytes().unwrap().as_ptr() == place;
        assert!(in_place(&tensor) && tensor == make());
        assert_eq!((tensor.len(), tensor.n_bytes(), tensor.address()), (n, 4 * n, place.addr()));
        reusing(|| {
            for _ in 0..2 {
                let copy = tensor.materialized().unwrap();
                let copy = copy.view().as_bytes().unwrap();
                assert!(is_aligned(copy) && *copy == *bytes && in_place(&tensor));
            }
        });
        let (clone, mut written) = (tensor.clone(), tensor.clone());
        let copy = clone.as_slice::<f32>().unwrap();
        assert_eq!(bytemuck::cast_slice::<_, u8>(copy), &*bytes);
        materialize_alone(&tensor).unwrap();
        assert_eq!(tensor.as_slice::<f32>().unwrap().as_ptr(), copy.as_ptr());
        assert_eq!(
            tensor.materialized().unwrap().as_slice::<f32>().unwrap().as_ptr(),
            copy.as_ptr()
        );
        assert_eq!(tensor.address(), place.addr());
        written.view_mut().into_slice::<f32>().unwrap()[0] = 0.5;
        assert!(written != tensor && tensor == clone && !tensor.is_shared());
        let beyond = within(4 * n - 1, 4 * n - 1, || {
            Tensor::from_bytes(DType::F32, &[n], bytes.clone()).map(drop)
        });
        assert!(matches!(beyond, Err(TensorError::NoMemory { .. })));
    }
}

#[test]
fn aligned_copies_beyond_the_allowance_are_errors() {
    let file = Bytes::from_owner(AlignedBuf::copy_of(&[7; 4097]));
    within(5000, 5000, || {
        let [first, second] =
            [(); 2].map(|()| Tensor::from_bytes(DType::F32, &[1024], file.slice(1..)).unwrap());
        assert!(first.as_slice::<f32>().is_ok());
        let beyond = TensorError::NoMemory { n_bytes: 4096, limit: Some(5000) };
        assert_eq!(materialize_alone(&second).unwrap_err().to_string(), beyond.to_string());
        assert_eq!(second.as_slice::<f32>().unwrap_err().to_string(), beyond.to_string());
        assert!(second.materialized().is_err() && second.view().to_tensor().is_err());
        assert!(second.view().as_bytes().is_none() && !second.is_released());
        assert!(first == second);
        drop(first);
        assert!(second.as_slice::<f32>().is_ok());
    });
}

#[test]
fn writing_to_a_clone_leaves_the_original_alone() {
    let original = Tensor::from_slice(&[2], &[1_i32, 2]).unwrap();
    let mut clone = original.clone();
    clone.view_mut().into_slice::<i32>().unwrap()[0] = 9;
    assert_eq!(original.as_slice::<i32>().unwrap(), [1, 2]);
    assert_eq!(clone.as_slice::<i32>().unwrap(), [9, 2]);
}

#[test]
fn a_released_tensor_has_a_shape_and_no_elements() {
    let released = Tensor::released(DType::F32, &[2, 3]).unwrap();
    assert_eq!((released.shape(), released.len(), released.n_bytes()), (&[2, 3][..], 6, 0));
    let error = TensorError::Released { dtype: DType::F32, shape: vec![2, 3] };
    assert_eq!(released.as_slice::<f32>(), Err(error.clone()));
    assert_eq!(released.view().as_words::<u32>(), Err(error));
    assert_eq!(released.view().as_bytes(), None);
    assert!(released.reshaped(&[6]).unwrap().is_released());
    assert!(released.reshaped(&[7]).is_err());
    assert!(released.view().to_tensor().unwrap().is_released());
    assert_eq!(released, released.clone());
    assert_ne!(released, Tensor::released(DType::F32, &[2, 3]).unwrap());
    assert_ne!(released, Tensor::zeros(DType::F32, &[2, 3]).unwrap());
}

#[test]
fn a_wrong_length_or_type_is_an_error() {
    assert!(matches!(Tensor::from_slice(&[3], &[1_f32]), Err(TensorError::Length { .. })));
    assert!(matches!(
        Tensor::scalar(1_f32).as_slice::<i32>(),
        Err(TensorError::DType { expected: DType::I32, found: DType::F32 })
    ));
    let huge = Tensor::zeros(DType::F32, &[usize::MAX, 2]);
    assert!(matches!(huge, Err(TensorError::TooLarge { .. })));
}

#[test]
fn deferred_elements_are_computed_when_they_are_read() {
    let times = Arc::new(AtomicUsize::new(0));
    let squares = |n: usize| {
        let times = times.clone();
        Tensor::deferred(DType::I32, &[n], move |bytes| {
            times.fetch_add(1, Relaxed);
            assert!(bytes.iter().all(|&byte| byte == 0));
            for (i, to) in (0..).zip(bytes.as_chunks_mut::<4>().0) {
                *to = i32::to_ne_bytes(i * i);
            }
        })
        .unwrap()
    };
    let expected = |n: i32| (0..n).map(|i| i * i).collect::<Vec<_>>();
    let (tensor, clone) = (squares(5), squares(5));
    let (view, flat, at) = (tensor.view(), tensor.reshaped(&[5, 1]).unwrap(), tensor.address());
    assert_eq!((tensor.len(), tensor.n_bytes(), view.shape()), (5, 20, &[5][..]));
    assert!(tensor.is_uncomputed() && flat.is_uncomputed());
    assert!(tensor.is_deferred() && flat.address() == at && clone.address() != at);
    assert!(view.reshaped(&[6]).is_err() && !view.is_released() && tensor.view().len() == 5);
    let temporary = tensor.materialized().unwrap();
    assert_eq!((temporary.as_slice::<i32>().unwrap(), tensor.is_deferred()), (&*expected(5), true));
    assert_eq!((times.load(Relaxed), view.as_slice::<i32>().unwrap()), (1, &*expected(5)));
    assert_eq!((flat.as_slice::<i32>().unwrap(), times.load(Relaxed)), (&*expected(5), 2));
    assert!(!tensor.is_deferred() && tensor == clone && tensor.address() == at);
    assert!(view.as_slice::<f32>().is_err() && tensor.view().to_tensor().unwrap() == tensor);
    assert!(Tensor::deferred(DType::String, &[1], |_| ()).is_err());
    assert!(Tensor::deferred(DType::F32, &[usize::MAX, 2], |_| ()).is_err());
}

#[test]
fn deferred_elements_share_a_block() {
    let file = Bytes::from_owner(AlignedBuf::copy_of(&[9; 4097]));
    let fill = |byte, n: usize| Tensor::deferred(DType::U8, &[n], move |to| to.fill(byte)).unwrap();
    let unaligned = Tensor::from_bytes(DType::F32, &[1024], file.slice(1..)).unwrap();
    let others = [fill(1, 100_000), fill(2, 1), fill(3, 0), fill(4, 64)];
    let owned = Tensor::scalar(1_i32);
    let mut all: Vec<&Tensor> = others.iter().chain([&unaligned, &owned, &unaligned]).collect();
    materialize(&all, |n, part| (0..n).rev().for_each(part)).unwrap();
    for (tensor, byte) in others.iter().chain([&unaligned]).zip([1, 2, 3, 4, 9]) {
        let bytes = tensor.view().as_bytes().unwrap();
        assert!(!tensor.is_deferred() && bytes.iter().all(|&found| found == byte));
        assert!(bytes.is_empty() || bytes.as_ptr().align_offset(AlignedBuf::ALIGN) == 0);
    }
    let late = fill(5, 4096);
    all.push(&late);
    let beyond = within(4095, 4095, || materialize(&all, |n, part| (0..n).for_each(part)));
    assert!(matches!(beyond, Err(TensorError::NoMemory { n_bytes: 4096, .. })));
    let ended = materialize(&[&late, &fill(6, 1)], |_, part| part(0));
    assert!(matches!(ended, Err(TensorError::Ended)) && late.is_deferred());
    let mut written = late.clone();
    written.view_mut().into_bytes().unwrap()[0] = 0;
    assert!(late.is_deferred() && written.view().as_bytes().unwrap()[..2] == [0, 5]);
}
