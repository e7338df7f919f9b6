//! Round trips through files, and values that cannot be written.

use ort_tensor::{DType, Map, Tensor};
use proptest::prelude::*;

use super::*;

fn strings(strings: &[&str]) -> Tensor {
    Tensor::from_strings(&[strings.len()], strings.iter().map(|&s| s.to_owned()).collect()).unwrap()
}

fn map(keys: Tensor, values: Tensor) -> Value {
    Value::Map(Map { keys, values })
}

fn some(value: Value) -> Value {
    Value::Optional(Some(Box::new(value)))
}

fn kind(value: &Value) -> Kind {
    match value {
        Value::Tensor(_) => Kind::Tensor,
        Value::Sequence(_) => Kind::Sequence,
        Value::Map(_) => Kind::Map,
        _ => Kind::Optional,
    }
}

#[test]
fn every_kind_of_value_round_trips() {
    let floats = Value::Tensor(Tensor::from_slice(&[2, 1], &[1_f32, f32::NAN]).unwrap());
    let ints = Tensor::from_slice(&[2], &[-1_i64, 5]).unwrap();
    let values = [
        floats.clone(),
        Value::Tensor(strings(&["", "ä"])),
        Value::Tensor(Tensor::scalar(1_u8)),
        Value::Sequence(vec![]),
        Value::Sequence(vec![floats.clone(), Value::Tensor(strings(&["a"]))]),
        Value::Sequence(vec![Value::Sequence(vec![floats.clone()])]),
        Value::Sequence(vec![some(floats.clone()), Value::Optional(None)]),
        map(ints.clone(), strings(&["a", "b"])),
        map(strings(&["a", "b"]), ints.clone()),
        Value::Sequence(vec![map(ints.clone(), ints.clone())]),
        Value::Optional(None),
        some(floats.clone()),
        some(Value::Sequence(vec![floats])),
        some(map(ints.clone(), ints)),
        some(some(Value::Optional(None))),
    ];
    for value in values {
        let bytes = Bytes::from(encode("x", &value).unwrap());
        let named = decode(&bytes, kind(&value)).unwrap();
        assert_eq!(named, Named { name: "x".to_owned(), value });
    }
}

#[test]
fn every_element_type_round_trips() {
    for &dtype in DType::ALL {
        let mut tensor = Tensor::zeros(dtype, &[3]).unwrap();
        if let Some(bytes) = tensor.view_mut().into_bytes() {
            bytes[0] = 1;
        }
        let value = Value::Tensor(tensor);
        let bytes = Bytes::from(encode("", &value).unwrap());
        assert_eq!(decode(&bytes, Kind::Tensor).unwrap().value, value, "{dtype}");
    }
}

#[test]
fn tensors_are_distinguished_from_sequences_with_any_name() {
    let tensor = Value::Tensor(Tensor::scalar(1_f32));
    for name in ["", "x", "\u{1}", "a longer name"] {
        for value in [
            tensor.clone(),
            Value::Sequence(vec![]),
            Value::Sequence(vec![tensor.clone()]),
            Value::Sequence(vec![Value::Sequence(vec![])]),
        ] {
            let bytes = Bytes::from(encode(name, &value).unwrap());
            assert_eq!(Kind::guess(&bytes), kind(&value), "{name:?} {value:?}");
        }
    }
}

#[test]
fn a_sequence_of_several_kinds_cannot_be_written() {
    let tensor = Value::Tensor(Tensor::scalar(1_f32));
    let mixed = Value::Sequence(vec![tensor, Value::Sequence(vec![])]);
    let error = PbError::MixedSequence { index: 1, expected: "tensor", found: "sequence" };
    assert_eq!(encode("", &mixed), Err(error));
}

#[test]
fn a_map_needs_a_value_for_each_key() {
    let ints = |n: usize| Tensor::from_slice(&[n], &vec![0_i64; n]).unwrap();
    let wrong = map(ints(2), ints(1));
    assert_eq!(encode("", &wrong), Err(PbError::MapLength { n_keys: 2, n_values: 1 }));
    let float_keys = map(Tensor::from_slice(&[1], &[1_f32]).unwrap(), ints(1));
    assert_eq!(encode("", &float_keys), Err(PbError::MapKeys { dtype: DType::F32 }));
}

proptest! {
    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let bytes = Bytes::from(bytes);
        for kind in [Kind::Tensor, Kind::Sequence, Kind::Map, Kind::Optional] {
            let _ = decode(&bytes, kind);
        }
    }
}
