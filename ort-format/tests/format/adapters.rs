//! LoRA adapters: one that ONNX Runtime 1.32 wrote, round trips, and files that are rejected.

use ort_format::record::{Adapter, Parameter};
use ort_format::{
    Damage, DataType, Fault, FormatError, Limits, WriteError, open_adapter, write_adapter,
};

/// Versions 3 and 7; `w` float [2, 3], `b` int64 [5], `h` float16 [3].
const WRITTEN: &[u8] = include_bytes!("adapter.onnx_adapter");

fn parameter(name: &str, dims: &[i64], data_type: DataType, data: &[u8]) -> Parameter<'static> {
    Parameter {
        name: name.to_owned().into(),
        dims: dims.to_vec(),
        data_type,
        raw_data: Some(data.to_vec().into()),
    }
}

fn adapter(parameters: Vec<Parameter<'static>>) -> Adapter<'static> {
    Adapter { format_version: 1, adapter_version: 3, model_version: 7, parameters }
}

#[test]
fn a_file_of_onnxruntime_is_read_and_written_again() {
    let limits = Limits::default();
    let read = open_adapter(WRITTEN, &limits).unwrap();
    let halves: Vec<u8> = [0_u16, 0x3c00, 0x4000].iter().flat_map(|it| it.to_le_bytes()).collect();
    let whole: Vec<u8> = (0..5_i64).flat_map(i64::to_le_bytes).collect();
    let floats: Vec<u8> = (0_u8..6).flat_map(|it| f32::from(it).to_le_bytes()).collect();
    let expected = adapter(vec![
        parameter("w", &[2, 3], DataType::Float, &floats),
        parameter("b", &[5], DataType::Int64, &whole),
        parameter("h", &[3], DataType::Float16, &halves),
    ]);
    assert_eq!(read.to_record(), expected);
    let bytes = write_adapter(&expected).unwrap();
    assert_eq!(open_adapter(&bytes, &limits).unwrap().to_record(), expected);
    for parameter in open_adapter(&bytes, &limits).unwrap().parameters().iter() {
        let data = parameter.raw_data().unwrap();
        assert_eq!((data.as_ptr().addr() - bytes.as_ptr().addr()) % 64, 0);
    }
}

#[test]
fn parameters_that_contradict_themselves_are_rejected() {
    let float = |dims: &[i64], data: &[u8]| parameter("w", dims, DataType::Float, data);
    let fault = |parameters: Vec<Parameter<'static>>| match write_adapter(&adapter(parameters)) {
        Err(WriteError::Invalid(FormatError::Invalid { fault, .. })) => fault,
        other => panic!("{other:?}"),
    };
    let wrong = fault(vec![float(&[2], &[0; 7])]);
    assert_eq!(wrong, Fault::DataLength { expected: 8, found: 7 });
    let wrong = fault(vec![float(&[-1], &[])]);
    assert_eq!(wrong, Fault::NegativeDimension { index: 0, value: -1 });
    assert_eq!(fault(vec![float(&[i64::MAX, 4], &[])]), Fault::Overflow);
    let wrong = fault(vec![parameter("w", &[0], DataType::String, &[])]);
    assert_eq!(wrong, Fault::DataType(DataType::String));
    let wrong = fault(vec![float(&[1], &[0; 4]), float(&[1], &[0; 4])]);
    assert_eq!(wrong, Fault::Duplicate { what: "parameter", name: "w".to_owned() });
    let wrong = fault(vec![Parameter { raw_data: None, ..float(&[1], &[]) }]);
    assert_eq!(wrong, Fault::Missing { field: "raw_data" });
}

#[test]
fn other_files_and_versions_are_named() {
    let limits = Limits::default();
    let open = |bytes: &[u8]| open_adapter(bytes, &limits).map(|_| ()).unwrap_err();
    assert_eq!(open(b""), FormatError::NotAdapter { found: String::new() });
    assert_eq!(open(b"\x08\0\0\0ORTM....."), FormatError::NotAdapter { found: "ORTM".into() });
    let newer = Adapter { format_version: 2, ..adapter(Vec::new()) };
    let wrong = write_adapter(&newer).unwrap_err();
    assert_eq!(wrong, WriteError::Invalid(FormatError::AdapterVersion { found: 2 }));
    let mut far = WRITTEN.to_vec();
    far[..4].copy_from_slice(&4000_u32.to_le_bytes());
    assert_eq!(open(&far), FormatError::AdapterVersion { found: 0 });
    let cut = &WRITTEN[..WRITTEN.len() - 40];
    let Err(FormatError::Damaged { place, damage: Damage::OutOfBounds { .. } }) =
        open_adapter(cut, &limits)
    else {
        panic!("{:?}", open_adapter(cut, &limits));
    };
    assert!(place.starts_with("file.parameters["), "{place}");
}

#[test]
fn damaged_files_are_errors_or_adapters() {
    let limits = Limits::default();
    // The last name ends in a zero and two bytes of padding.
    for end in 0..WRITTEN.len() - 2 {
        assert!(open_adapter(&WRITTEN[..end], &limits).is_err(), "{end} bytes");
    }
    for at in 0..WRITTEN.len() {
        for bit in 0..8 {
            let mut bytes = WRITTEN.to_vec();
            bytes[at] ^= 1 << bit;
            if let Ok(adapter) = open_adapter(&bytes, &limits) {
                assert!(adapter.parameters().len() <= 3);
            }
        }
    }
}
