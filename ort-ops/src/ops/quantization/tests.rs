//! Tests of `quantization`.

use ort_graph::Attr;
use ort_tensor::{DType, F8E4M3Fn, F8E8M0, Tensor, f16, pack};

use crate::case::{Case, tensor};

fn quantize() -> Case {
    Case::new("QuantizeLinear", 25)
}

fn dequantize() -> Case {
    Case::new("DequantizeLinear", 25)
}

fn packed(dtype: DType, shape: &[usize], quantized: &[u8]) -> Tensor {
    let mut tensor = Tensor::zeros(dtype, shape).unwrap();
    pack(quantized, dtype.bits(), tensor.view_mut().into_bytes().unwrap());
    tensor
}

#[test]
fn one_scale_serves_the_whole_tensor() {
    let x = tensor(&[6], &[0.0_f32, 3.0, 5.0, 1000.0, -254.0, f32::NAN]);
    let (scale, zero) = (Tensor::scalar(2.0_f32), Tensor::scalar(128_u8));
    // 1.5 and 2.5 round to even.
    let y = tensor(&[6], &[128_u8, 130, 130, 255, 1, 0]);
    assert_eq!(quantize().tensor(&[x.clone(), scale.clone(), zero.clone()]), Ok(y.clone()));
    let back = tensor(&[6], &[0.0_f32, 4.0, 4.0, 254.0, -254.0, -256.0]);
    assert_eq!(dequantize().tensor(&[y, scale.clone(), zero]), Ok(back));
    let made = quantize().tensor(&[x, tensor(&[1], &[2.0_f32])]).unwrap();
    assert_eq!(made.as_slice::<u8>().unwrap(), [0, 2, 2, 255, 0, 0]);
    let x = tensor(&[2], &[i32::MAX, -7]);
    let y = dequantize().tensor(&[x, scale]);
    assert_eq!(y, Ok(tensor(&[2], &[4_294_967_296.0_f32, -14.0])));
}

#[test]
fn each_slice_along_the_axis_has_its_scale() {
    let x = tensor(&[1, 3, 2], &[-162.0_f32, 10.0, -100.0, 232.0, -20.0, -50.0]);
    let scale = tensor(&[3], &[2.0_f32, 4.0, 5.0]);
    let zero = tensor(&[3], &[84_u8, 24, 196]);
    let y = tensor(&[1, 3, 2], &[3_u8, 89, 0, 82, 192, 186]);
    for axis in [1, -2] {
        let case = |case: Case| case.attr("axis", Attr::Int(axis));
        let made = case(quantize()).tensor(&[x.clone(), scale.clone(), zero.clone()]);
        assert_eq!(made, Ok(y.clone()), "axis {axis}");
        let back = case(dequantize()).tensor(&[y.clone(), scale.clone(), zero.clone()]).unwrap();
        assert_eq!(back.as_slice::<f32>().unwrap(), [-162.0, 10.0, -96.0, 232.0, -20.0, -50.0]);
    }
    let wrong = quantize().attr("axis", Attr::Int(2)).tensor(&[x.clone(), scale.clone(), zero]);
    assert!(wrong.is_err());
    assert!(quantize().attr("axis", Attr::Int(9)).tensor(&[x, scale]).is_err());
}

#[test]
fn each_block_has_its_scale_and_the_last_may_be_short() {
    let x = tensor(&[2, 5], &[1_i8, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let scale = tensor(&[2, 3], &[1.0_f32, 10.0, 100.0, 2.0, 20.0, 200.0]);
    let block = |case: Case, size| case.attr("block_size", Attr::Int(size));
    let y = [1.0_f32, 2.0, 30.0, 40.0, 500.0, 12.0, 14.0, 160.0, 180.0, 2000.0];
    let y = tensor(&[2, 5], &y);
    assert_eq!(block(dequantize(), 2).tensor(&[x.clone(), scale.clone()]), Ok(y.clone()));
    let zero = tensor(&[2, 3], &[0_i8; 6]);
    assert_eq!(block(quantize(), 2).tensor(&[y, scale.clone(), zero]), Ok(x.clone()));
    let first =
        |scale| block(dequantize(), 2).attr("axis", Attr::Int(0)).tensor(&[x.clone(), scale]);
    let y = first(tensor(&[1, 5], &[1.0_f32, 2.0, 3.0, 4.0, 5.0])).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap()[..6], [1.0, 4.0, 9.0, 16.0, 25.0, 6.0]);
    assert!(block(dequantize(), 4).tensor(&[x.clone(), scale.clone()]).is_err());
    assert!(dequantize().tensor(&[x.clone(), scale]).is_err());
    assert!(block(dequantize(), -1).tensor(&[x]).is_err());
}

#[test]
fn small_types_saturate() {
    let x = tensor(&[4], &[-100.0_f32, -1.0, 1.5, 100.0]);
    let scale = || Tensor::scalar(1.0_f32);
    let cases = [
        (DType::I4, [8, 15, 2, 7]),
        (DType::U4, [0, 0, 2, 15]),
        (DType::I2, [2, 3, 1, 1]),
        (DType::U2, [0, 0, 2, 3]),
        (DType::F4E2M1, [15, 10, 3, 7]),
    ];
    for (dtype, quantized) in cases {
        let case = quantize().attr("output_dtype", Attr::Int(dtype.onnx().into()));
        let y = packed(dtype, &[4], &quantized);
        assert_eq!(case.tensor(&[x.clone(), scale()]), Ok(y.clone()), "{dtype}");
        assert!(dequantize().tensor(&[y, scale()]).is_ok(), "{dtype}");
    }
    let zero = Tensor::scalar(F8E4M3Fn::from_bits(0));
    let y = quantize().tensor(&[tensor(&[2], &[1e6_f32, -3.0]), scale(), zero]).unwrap();
    assert_eq!(dequantize().tensor(&[y, scale()]), Ok(tensor(&[2], &[448.0_f32, -3.0])));
}

#[test]
fn types_follow_scale_and_attributes() {
    let x = tensor(&[2], &[3_i16, -4]);
    let half = f16::from_f32;
    let y = dequantize().tensor(&[x.clone(), Tensor::scalar(half(0.5))]);
    assert_eq!(y, Ok(tensor(&[2], &[half(1.5), half(-2.0)])));
    let power = Tensor::scalar(F8E8M0::from_bits(128));
    assert_eq!(dequantize().tensor(&[x.clone(), power]), Ok(tensor(&[2], &[6.0_f32, -8.0])));
    let named = dequantize().attr("output_dtype", Attr::Int(DType::F16.onnx().into()));
    let y = named.tensor(&[x, Tensor::scalar(1.0_f32)]);
    assert_eq!(y, Ok(tensor(&[2], &[half(3.0), half(-4.0)])));

    // 2049 / 1 is halfway between two float16 and goes to the even one.
    let x = Tensor::scalar(2049.0_f32);
    let precise = |dtype: DType| quantize().attr("precision", Attr::Int(dtype.onnx().into()));
    let inputs = [x, Tensor::scalar(1.0_f32), Tensor::scalar(0_i16)];
    assert_eq!(precise(DType::F32).tensor(&inputs), Ok(Tensor::scalar(2049_i16)));
    assert_eq!(precise(DType::F16).tensor(&inputs), Ok(Tensor::scalar(2048_i16)));
    let contradiction = quantize().attr("output_dtype", Attr::Int(DType::U8.onnx().into()));
    assert!(contradiction.tensor(&inputs).is_err());
}

#[test]
fn the_range_of_the_data_gives_scale_and_zero_point() {
    let run = |x: &[f32]| {
        let case = Case::new("DynamicQuantizeLinear", 11).outputs(3);
        let made = case.run(&[tensor(&[x.len()], x)]).unwrap();
        let tensors: Vec<_> = made.iter().map(|value| value.as_tensor().unwrap().clone()).collect();
        (
            tensors[0].as_slice::<u8>().unwrap().to_vec(),
            tensors[1].as_slice::<f32>().unwrap()[0],
            tensors[2].as_slice::<u8>().unwrap()[0],
        )
    };
    let x = [0.0, 2.0, -3.0, -2.5, 1.34, 0.5];
    assert_eq!(run(&x), (vec![153, 255, 0, 26, 221, 179], 5.0 / 255.0, 153));
    let x = [-1.0, -2.1, -1.3, -2.5, -3.34, -4.0];
    assert_eq!(run(&x), (vec![191, 121, 172, 96, 42, 0], 4.0 / 255.0, 255));
    assert_eq!(run(&[0.0]), (vec![0], 1.0, 0));
    assert_eq!(run(&[]), (vec![], 1.0, 0));
}
