//! Tests of `cast`.

use ort_graph::Attr;
use ort_tensor::{
    Bool, Complex, DType, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E8M0, Tensor, bf16, f16, pack, unpack,
};

use crate::case::{Case, tensor};

fn cast(to: DType) -> Case {
    Case::new("Cast", 25).attr("to", Attr::Int(to.onnx().into()))
}

fn strings(texts: &[&str]) -> Tensor {
    let texts: Vec<_> = texts.iter().map(|&text| text.to_owned()).collect();
    Tensor::from_strings(&[texts.len()], texts).unwrap()
}

fn packed(dtype: DType, elements: &[u8]) -> Tensor {
    let mut tensor = Tensor::zeros(dtype, &[elements.len()]).unwrap();
    pack(elements, dtype.bits(), tensor.view_mut().into_bytes().unwrap());
    tensor
}

#[test]
fn numbers_keep_their_value_or_their_low_bits() {
    let big = [300.7_f32, -129.5, 3e9, f32::NAN, -1.0];
    let cases = [
        (tensor(&[2], &[200_i16, -1]), tensor(&[2], &[-56_i8, -1])),
        (tensor(&[2], &[-1_i64, 1 << 33]), tensor(&[2], &[u32::MAX, 0])),
        (tensor(&[1], &[u64::MAX]), tensor(&[1], &[18_446_744_073_709_551_616.0_f32])),
        (tensor(&[1], &[(1_i64 << 53) + 1]), tensor(&[1], &[9_007_199_254_740_992.0_f64])),
        (tensor(&[5], &big), tensor(&[5], &[44_u8, 127, 0, 0, 255])),
        (tensor(&[5], &big), tensor(&[5], &[300, -129, i32::MIN, i32::MIN, -1])),
        (tensor(&[1], &[1.8e19_f64]), tensor(&[1], &[18_000_000_000_000_000_000_u64])),
        (tensor(&[2], &[70_000_i32, 2049]), tensor(&[2], &[f16::INFINITY, f16::from_f32(2048.0)])),
        (tensor(&[2], &[1e-40_f64, 1e300]), tensor(&[2], &[1e-40_f32, f32::INFINITY])),
        (tensor(&[1], &[f16::from_f32(0.5)]), tensor(&[1], &[bf16::from_f32(0.5)])),
        (tensor(&[3], &[f32::NAN, -0.0, 0.1]), tensor(&[3], &[true, false, true].map(Bool::from))),
        (tensor(&[1], &[Bool::from(true)]), tensor(&[1], &[1.0_f32])),
    ];
    for (x, y) in cases {
        let label = format!("{x:?} to {y:?}");
        assert_eq!(cast(y.dtype()).tensor(&[x]), Ok(y), "{label}");
    }
}

#[test]
fn text_is_what_others_read_and_write() {
    let x = [0.1_f64, -0.0, 1.0 / 3.0, 123_456_789.123, 1e-7, 3e9, f64::NAN, f64::NEG_INFINITY];
    let text =
        strings(&["0.1", "-0", "0.33333333", "1.2345679e+08", "1e-07", "3e+09", "NaN", "-INF"]);
    assert_eq!(cast(DType::String).tensor(&[tensor(&[8], &x)]), Ok(text));
    let x = tensor(&[2], &[true, false].map(Bool::from));
    assert_eq!(cast(DType::String).tensor(&[x]), Ok(strings(&["1", "0"])));
    let x = tensor(&[1], &[300.7_f32]);
    assert_eq!(cast(DType::String).tensor(&[x]), Ok(strings(&["300.70001"])));

    let x = strings(&["+INF", " -0 ", "1E2", "100.5"]);
    let y = tensor(&[4], &[f32::INFINITY, -0.0, 100.0, 100.5]);
    assert_eq!(cast(DType::F32).tensor(&[x]), Ok(y));
    let x = strings(&["9223372036854775807", "100.7", "-3"]);
    assert_eq!(cast(DType::I64).tensor(&[x]), Ok(tensor(&[3], &[i64::MAX, 100, -3])));
    let error = cast(DType::F32).tensor(&[strings(&["1x"])]).unwrap_err();
    assert_eq!(error, "input 0: a string that is not a number");
}

#[test]
fn packed_integers_wrap() {
    let x: Vec<f32> = (-9..16_i16).map(f32::from).collect();
    let elements: Vec<u8> = (-9..16_i8).map(|x| x.to_le_bytes()[0] & 15).collect();
    let y = packed(DType::I4, &elements);
    assert_eq!(cast(DType::I4).tensor(&[tensor(&[25], &x)]), Ok(y.clone()));
    let back = cast(DType::I8).tensor(&[y]).unwrap();
    assert_eq!(back.as_slice::<i8>().unwrap()[..4], [7, -8, -7, -6]);
    let y = cast(DType::U2).tensor(&[tensor(&[3], &[-1_i32, 2, 5])]).unwrap();
    assert_eq!(unpack(y.view().as_bytes().unwrap(), 2, 3), [3, 2, 1]);
}

#[test]
fn small_floats_saturate_by_default() {
    let x = || tensor(&[2], &[1e9_f64, -0.1]);
    let y = tensor(&[2], &[F8E4M3Fn::from_f32(448.0, true), F8E4M3Fn::from_f32(-0.1, true)]);
    assert_eq!(cast(DType::F8E4M3Fn).tensor(&[x()]), Ok(y));
    let free = |to| cast(to).attr("saturate", Attr::Int(0));
    let y = tensor(&[2], &[F8E5M2::from_bits(0x7c), F8E5M2::from_f32(-0.1, true)]);
    assert_eq!(free(DType::F8E5M2).tensor(&[x()]), Ok(y));
    let nan = tensor(&[1], &[F8E4M3Fnuz::from_bits(0x80)]);
    assert_eq!(
        free(DType::F8E4M3Fnuz).tensor(&[Tensor::from_slice(&[1], &[1e9_f32]).unwrap()]),
        Ok(nan)
    );
}

#[test]
fn four_bit_floats_round_to_even() {
    let x = [0.25_f32, 0.75, -1.75, 2.5, 3.5, 5.0, 100.0, f32::NAN, -0.0];
    let y = packed(DType::F4E2M1, &[0, 2, 8 | 4, 4, 6, 6, 7, 8, 8]);
    assert_eq!(cast(DType::F4E2M1).tensor(&[tensor(&[9], &x)]), Ok(y.clone()));
    let back = tensor(&[9], &[0.0_f32, 1.0, -2.0, 2.0, 4.0, 4.0, 6.0, -0.0, -0.0]);
    assert_eq!(cast(DType::F32).tensor(&[y]), Ok(back));
}

#[test]
fn powers_of_two_round_as_the_mode_says() {
    let x = [0.0_f32, 3.0, 2.5, 4.0, f32::INFINITY, f32::MAX];
    let run = |mode: &str, saturate| {
        let case = cast(DType::F8E8M0).attr("round_mode", Attr::String(mode.to_owned()));
        let y = case.attr("saturate", Attr::Int(saturate)).tensor(&[tensor(&[6], &x)]).unwrap();
        y.as_slice::<F8E8M0>().unwrap().iter().map(|y| y.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(run("up", 1), [0, 129, 129, 129, 254, 254]);
    assert_eq!(run("down", 1), [0, 128, 128, 129, 254, 254]);
    assert_eq!(run("nearest", 0), [255, 129, 128, 129, 255, 255]);
    assert!(cast(DType::F32).attr("round_mode", Attr::String("odd".into())).tensor(&[]).is_err());
}

#[test]
fn every_pair_of_types_but_complex_is_converted() {
    let is_complex = |dtype| matches!(dtype, DType::Complex64 | DType::Complex128);
    for &from in DType::ALL {
        for &to in DType::ALL {
            for shape in [&[][..], &[3], &[0, 2]] {
                let zeros = Tensor::zeros(from, shape).unwrap();
                // No string is a number; and the smallest power of two is no zero.
                let expected = !is_complex(from) && !is_complex(to);
                let no_number = from == DType::String && to != from && !zeros.is_empty();
                let made = cast(to).tensor(&[zeros]);
                assert_eq!(made.is_ok(), expected && !no_number, "{from} to {to}");
            }
        }
    }
}

#[test]
fn the_second_input_names_the_type() {
    let y =
        Case::new("CastLike", 19).tensor(&[tensor(&[2], &[1.9_f32, -1.9]), Tensor::scalar(0_i64)]);
    assert_eq!(y, Ok(tensor(&[2], &[1_i64, -1])));
}

#[test]
fn bits_are_kept_where_there_are_as_many() {
    let bitcast = |to: DType| Case::new("BitCast", 26).attr("to", Attr::Int(to.onnx().into()));
    let x = tensor(&[2], &[1.0_f32, -0.0]);
    let y = tensor(&[2], &[0x3f80_0000_u32, 0x8000_0000]);
    assert_eq!(bitcast(DType::U32).tensor(std::slice::from_ref(&x)), Ok(y));
    assert!(bitcast(DType::U64).tensor(&[x]).is_err());
    assert!(bitcast(DType::String).tensor(&[strings(&["a"])]).is_err());
    let elements = packed(DType::I4, &[15, 1, 8]);
    assert_eq!(bitcast(DType::U4).tensor(&[elements]), Ok(packed(DType::U4, &[15, 1, 8])));
    let complex = tensor(&[1], &[Complex::new(1.0_f32, -0.0)]);
    let bits = tensor(&[1], &[0x8000_0000_3f80_0000_u64]);
    assert_eq!(bitcast(DType::U64).tensor(std::slice::from_ref(&complex)), Ok(bits.clone()));
    assert_eq!(bitcast(DType::Complex64).tensor(&[bits]), Ok(complex));
}
