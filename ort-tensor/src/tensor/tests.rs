//! Which tensors share data.

use super::*;

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
