//! Files as numpy writes them, and others.

use ort_tensor::{Complex, Element, f16};
use proptest::prelude::*;

use super::*;

/// A file as numpy writes it: `header` is padded to 64 bytes.
fn file(version: u8, header: &str, data: &[u8]) -> Bytes {
    let mut file = vec![0x93, b'N', b'U', b'M', b'P', b'Y', version, 0];
    let len_bytes = if version == 1 { 2 } else { 4 };
    let len = (8 + len_bytes + header.len() + 1).next_multiple_of(64) - 8 - len_bytes;
    file.extend_from_slice(&u32::try_from(len).unwrap().to_le_bytes()[..len_bytes]);
    file.extend_from_slice(format!("{header:<width$}\n", width = len - 1).as_bytes());
    file.extend_from_slice(data);
    file.into()
}

fn tensor<T: Element>(shape: &[usize], data: &[T]) -> Tensor {
    Tensor::from_slice(shape, data).unwrap()
}

fn strings(strings: &[&str]) -> Tensor {
    Tensor::from_strings(&[strings.len()], strings.iter().map(|&s| s.to_owned()).collect()).unwrap()
}

#[test]
fn written_files_read_back() {
    let tensors = [
        tensor(&[2, 3], &[0_f32, 1.0, 2.0, 3.0, 4.0, f32::NAN]),
        tensor(&[], &[-1_i64]),
        tensor(&[0, 3], &[] as &[f64]),
        tensor(&[1], &[f16::ONE]),
        tensor(&[2], &[Complex::new(1_f64, 2.0), Complex::new(3.0, 4.0)]),
        tensor(&[2], &[ort_tensor::Bool::from(true), ort_tensor::Bool::from(false)]),
        tensor(&[3], &[1_u8, 2, 255]),
        strings(&["a", "", "日本"]),
        strings(&["", ""]),
    ];
    for tensor in tensors {
        let bytes = Bytes::from(encode(&tensor).unwrap());
        assert_eq!(decode(&bytes).unwrap(), tensor);
    }
}

#[test]
fn the_file_is_the_one_that_numpy_writes() {
    let header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }";
    assert_eq!(encode(&tensor(&[2], &[1_i16, 2])).unwrap(), file(1, header, &[1, 0, 2, 0]));
}

#[test]
fn every_version_and_spelling_of_the_header_is_read() {
    let expected = tensor(&[3], &[1_u8, 2, 3]);
    let cases = [
        (2, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }"),
        (3, "{'shape': (3,), 'descr': '<u1', 'fortran_order': False}"),
        (1, "{\"descr\":\"|u1\",\"fortran_order\":False,\"shape\":(3L,)}"),
    ];
    for (version, header) in cases {
        assert_eq!(decode(&file(version, header, &[1, 2, 3])).unwrap(), expected, "{header}");
    }
}

#[test]
fn fortran_order_becomes_row_major() {
    let header = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2), }";
    let data: Vec<u8> = (0..12).collect();
    // Element [i, j, k] is at i + 2·j + 6·k.
    let expected = [0_u8, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11];
    assert_eq!(decode(&file(1, header, &data)).unwrap(), tensor(&[2, 3, 2], &expected));
}

#[test]
fn byte_strings_are_read_as_text() {
    let header = "{'descr': '|S2', 'fortran_order': False, 'shape': (2,), }";
    assert_eq!(decode(&file(1, header, b"abc\0")).unwrap(), strings(&["ab", "c"]));
    let error = Err(NpyError::NotUnicode { index: 1 });
    assert_eq!(decode(&file(1, header, b"ab\xff\xff")), error);
}

#[test]
fn other_content_is_an_error() {
    let header =
        |descr: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
    let descr = |descr: &str| NpyError::Descr { descr: descr.to_owned() };
    let whole = file(1, &header("'<f4'"), &[0; 4]);
    let cases = [
        (file(1, &header("'>f4'"), &[0; 4]), descr(">f4")),
        (file(1, &header("'|O'"), &[0; 4]), descr("|O")),
        (file(1, &header("'<U0'"), &[]), descr("<U0")),
        (file(1, &header("[('a', '<f4')]"), &[0; 4]), descr("a record")),
        (file(9, &header("'<f4'"), &[0; 4]), NpyError::Version { major: 9 }),
        (file(1, "{'descr': '<f4', 'shape': (1,)}", &[0; 4]), NpyError::Header { at: 31 }),
        (file(1, "{'else': 1}", &[]), NpyError::Header { at: 1 }),
        (file(1, "{'shape': (-1,)}", &[]), NpyError::Header { at: 11 }),
        (whole.slice(..20), NpyError::Truncated),
        (whole.slice(1..), NpyError::Magic),
    ];
    for (bytes, error) in cases {
        assert_eq!(decode(&bytes), Err(error));
    }
    assert!(matches!(decode(&whole.slice(..130)), Err(NpyError::Tensor(_))));
    let bf16 = Tensor::zeros(DType::Bf16, &[1]).unwrap();
    assert_eq!(encode(&bf16), Err(NpyError::DType { dtype: DType::Bf16 }));
}

#[test]
fn a_header_too_long_for_version_1_is_written_as_version_2() {
    let tensor = tensor(&[1; 40_000], &[1_u8]);
    let bytes = encode(&tensor).unwrap();
    assert_eq!(bytes[6], 2);
    assert_eq!(decode(&bytes.into()).unwrap(), tensor);
}

proptest! {
    #[test]
    fn any_header_is_read_or_refused(
        header in "[{}()\\[\\]':, 0-9a-zTF<|]{0,60}", data in prop::collection::vec(any::<u8>(), 0..9)
    ) {
        let _ = decode(&file(1, &header, &data));
    }

    #[test]
    fn any_damage_is_read_or_refused(at in 0_usize..80, byte in any::<u8>()) {
        let mut bytes = encode(&tensor(&[2], &[1_f32, 2.0])).unwrap();
        bytes[at] = byte;
        let _ = decode(&bytes.into());
    }
}
