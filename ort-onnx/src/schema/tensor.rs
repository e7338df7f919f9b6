//! The encoding of a tensor: as prost would derive it, except that raw elements are copied in pieces, between which encoding
//! can be cancelled.

use ::bytes::{Buf, BufMut};
use ort_tensor::go_on;
use prost::encoding::varint::{encode_varint, encoded_len_varint};
use prost::encoding::wire_type::WireType;
use prost::encoding::{
    DecodeContext, bytes, double, encode_key, float, int32, int64, message, skip_field, string,
    uint64,
};
use prost::{DecodeError, Message};

use super::{SegmentProto, StringStringEntryProto, TensorProto};

/// The number of the field of raw elements.
const RAW_DATA: u32 = 9;

/// Bytes between two checks for cancellation: a millisecond or two.
const PIECE: usize = 1 << 22;

impl Message for TensorProto {
    /// Incomplete if the thread was cancelled.
    fn encode_raw(&self, buf: &mut impl BufMut) {
        int64::encode_repeated(1, &self.dims, buf);
        if self.data_type != 0 {
            int32::encode(2, &self.data_type, buf);
        }
        self.segment.iter().for_each(|segment| message::encode(3, segment, buf));
        float::encode_packed(4, &self.float_data, buf);
        int32::encode_packed(5, &self.int32_data, buf);
        bytes::encode_repeated(6, &self.string_data, buf);
        int64::encode_packed(7, &self.int64_data, buf);
        if !self.name.is_empty() {
            string::encode(8, &self.name, buf);
        }
        if let Some(raw) = &self.raw_data {
            encode_key(RAW_DATA, WireType::LengthDelimited, buf);
            encode_varint(raw.len() as u64, buf);
            for (i, piece) in raw.chunks(PIECE).enumerate() {
                if i > 0 && go_on().is_err() {
                    return;
                }
                buf.put_slice(piece);
            }
        }
        double::encode_packed(10, &self.double_data, buf);
        uint64::encode_packed(11, &self.uint64_data, buf);
        message::encode_repeated(13, &self.external_data, buf);
        if self.data_location != 0 {
            int32::encode(14, &self.data_location, buf);
        }
    }

    fn merge_field(
        &mut self,
        number: u32,
        wire: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match number {
            1 => int64::merge_repeated(wire, &mut self.dims, buf, context),
            2 => int32::merge(wire, &mut self.data_type, buf, context),
            3 => {
                let segment = self.segment.get_or_insert_default();
                message::merge::<SegmentProto, _>(wire, segment, buf, context)
            }
            4 => float::merge_repeated(wire, &mut self.float_data, buf, context),
            5 => int32::merge_repeated(wire, &mut self.int32_data, buf, context),
            6 => bytes::merge_repeated(wire, &mut self.string_data, buf, context),
            7 => int64::merge_repeated(wire, &mut self.int64_data, buf, context),
            8 => string::merge(wire, &mut self.name, buf, context),
            RAW_DATA => bytes::merge(wire, self.raw_data.get_or_insert_default(), buf, context),
            10 => double::merge_repeated(wire, &mut self.double_data, buf, context),
            11 => uint64::merge_repeated(wire, &mut self.uint64_data, buf, context),
            13 => message::merge_repeated::<StringStringEntryProto>(
                wire,
                &mut self.external_data,
                buf,
                context,
            ),
            14 => int32::merge(wire, &mut self.data_location, buf, context),
            _ => skip_field(wire, number, buf, context),
        }
    }

    fn encoded_len(&self) -> usize {
        let number = |tag, n: &i32| if *n == 0 { 0 } else { int32::encoded_len(tag, n) };
        let segment = |segment| message::encoded_len(3, segment);
        // The key of a field below 16 is one byte.
        let raw = |raw: &::bytes::Bytes| 1 + encoded_len_varint(raw.len() as u64) + raw.len();
        let name = if self.name.is_empty() { 0 } else { string::encoded_len(8, &self.name) };
        int64::encoded_len_repeated(1, &self.dims)
            + number(2, &self.data_type)
            + self.segment.as_ref().map_or(0, segment)
            + float::encoded_len_packed(4, &self.float_data)
            + int32::encoded_len_packed(5, &self.int32_data)
            + bytes::encoded_len_repeated(6, &self.string_data)
            + int64::encoded_len_packed(7, &self.int64_data)
            + name
            + self.raw_data.as_ref().map_or(0, raw)
            + double::encoded_len_packed(10, &self.double_data)
            + uint64::encoded_len_packed(11, &self.uint64_data)
            + message::encoded_len_repeated(13, &self.external_data)
            + number(14, &self.data_location)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ::bytes::Bytes;
    use ort_tensor::{Ending, TensorError, ended_by};

    use super::*;
    use crate::schema::{GraphProto, ModelProto};
    use crate::{OnnxError, encode};

    /// The same fields, as prost derives their encoding.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Derived {
        #[prost(int64, repeated, packed = "false", tag = "1")]
        dims: Vec<i64>,
        #[prost(int32, tag = "2")]
        data_type: i32,
        #[prost(message, optional, tag = "3")]
        segment: Option<SegmentProto>,
        #[prost(float, repeated, tag = "4")]
        float_data: Vec<f32>,
        #[prost(int32, repeated, tag = "5")]
        int32_data: Vec<i32>,
        #[prost(bytes = "bytes", repeated, tag = "6")]
        string_data: Vec<Bytes>,
        #[prost(int64, repeated, tag = "7")]
        int64_data: Vec<i64>,
        #[prost(string, tag = "8")]
        name: String,
        #[prost(bytes = "bytes", optional, tag = "9")]
        raw_data: Option<Bytes>,
        #[prost(double, repeated, tag = "10")]
        double_data: Vec<f64>,
        #[prost(uint64, repeated, tag = "11")]
        uint64_data: Vec<u64>,
        #[prost(message, repeated, tag = "13")]
        external_data: Vec<StringStringEntryProto>,
        #[prost(int32, tag = "14")]
        data_location: i32,
    }

    fn full() -> TensorProto {
        let entry = |i: i32| StringStringEntryProto { key: i.to_string(), value: String::new() };
        TensorProto {
            dims: vec![0, -1, 1 << 40],
            data_type: -7,
            segment: Some(SegmentProto { begin: 0, end: 300 }),
            float_data: vec![0.0, 1.5],
            int32_data: vec![-1, 0, 1 << 30],
            string_data: vec![Bytes::new(), Bytes::from_static(b"text")],
            int64_data: vec![i64::MIN, 9],
            name: "x".to_owned(),
            raw_data: Some(Bytes::from(vec![7; PIECE + 1])),
            double_data: vec![-0.0],
            uint64_data: vec![u64::MAX],
            external_data: vec![entry(1), entry(2)],
            data_location: 1,
        }
    }

    #[test]
    fn the_encoding_is_the_derived_one() {
        let without_raw = TensorProto { raw_data: None, ..full() };
        let empty_raw = TensorProto { raw_data: Some(Bytes::new()), ..TensorProto::default() };
        for tensor in [full(), without_raw, empty_raw, TensorProto::default()] {
            let bytes = tensor.encode_to_vec();
            assert_eq!(bytes.len(), tensor.encoded_len());
            let derived = Derived::decode(&*bytes).unwrap();
            assert_eq!(derived.encode_to_vec(), bytes);
            assert_eq!(TensorProto::decode(&*bytes).unwrap(), tensor);
        }
    }

    /// Ends at the second check.
    #[derive(Debug, Default)]
    struct Second(AtomicUsize);

    impl Ending for Second {
        fn is_ended(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed) > 0
        }
    }

    #[test]
    fn encoding_is_cancelled_within_a_tensor() {
        let raw_data = Some(Bytes::from(vec![0; 16 * PIECE]));
        let tensor = TensorProto { raw_data, ..TensorProto::default() };
        let graph = Some(GraphProto { initializer: vec![tensor], ..GraphProto::default() });
        let model = ModelProto { graph, ..ModelProto::default() };
        let ending: Arc<dyn Ending> = Arc::new(Second::default());
        let ended = ended_by(&ending, || encode(&model));
        let path = "model".to_owned();
        assert_eq!(ended, Err(OnnxError::Memory { path, error: TensorError::Ended }));
        let over = ort_tensor::within(9, 9, || encode(&model)).unwrap_err().to_string();
        assert!(over.ends_with("bytes: over the total limit of 9"), "{over}");
    }
}
