//! Decodes messages after counting what they take in memory: a submessage of two bytes becomes a struct of hundreds, so
//! that a small message could become a large one.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Buf;
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

use crate::budget::Reservation;

/// What an element of a list of messages, strings or bytes takes, with the growth of the list.
const ELEMENT_BYTES: usize = 256;

/// What a message has before it on the wire: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The widest number.
const NUMBER_BYTES: usize = 8;

/// A codec whose messages in are counted, and come with their reservation.
#[derive(Debug)]
pub(super) struct CountingCodec<R, M> {
    counted: Counted,
    messages: PhantomData<(R, M)>,
}

/// What the body and its messages count against.
#[derive(Clone, Debug)]
struct Counted {
    reservation: Arc<Reservation>,
    /// Whether each message gets a reservation of its own, split off that of the body.
    is_stream: bool,
}

impl<R, M> CountingCodec<R, M> {
    /// For one message, whose reservation is that of the body.
    pub(super) fn new(reservation: Arc<Reservation>) -> Self {
        Self { counted: Counted { reservation, is_stream: false }, messages: PhantomData }
    }

    /// For a stream of messages.
    pub(super) fn of_stream(reservation: Arc<Reservation>) -> Self {
        Self { counted: Counted { reservation, is_stream: true }, messages: PhantomData }
    }
}

impl<R: Message + 'static, M: Message + Default + 'static> Codec for CountingCodec<R, M> {
    type Encode = R;
    type Decode = (M, Arc<Reservation>);
    type Encoder = ProstEncoder<R>;
    type Decoder = CountingDecoder<M>;

    fn encoder(&mut self) -> ProstEncoder<R> {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> CountingDecoder<M> {
        CountingDecoder { counted: self.counted.clone(), message: PhantomData }
    }
}

#[derive(Debug)]
pub(super) struct CountingDecoder<M> {
    counted: Counted,
    message: PhantomData<M>,
}

impl<M: Message + Default> Decoder for CountingDecoder<M> {
    type Item = (M, Arc<Reservation>);
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let bytes = buf.copy_to_bytes(buf.remaining());
        let invalid = |what: String| {
            Status::invalid_argument(format!("the message cannot be decoded: {what}"))
        };
        let n_bytes = decoded_bytes(Level::Request, &bytes);
        let n_bytes = n_bytes.ok_or_else(|| invalid("a field exceeds it".to_owned()))?;
        let Counted { reservation, is_stream } = &self.counted;
        reservation.add(n_bytes)?;
        let own = match is_stream {
            true => reservation.split(PREFIX_BYTES + bytes.len() + n_bytes),
            false => reservation.clone(),
        };
        let message = M::decode(bytes).map_err(|error| invalid(error.to_string()))?;
        Ok(Some((message, own)))
    }
}

/// A message, by what its fields are.
#[derive(Clone, Copy, Debug)]
enum Level {
    /// `ModelInferRequest`. Other messages are limited to a size at which this does not matter.
    Request,
    /// `InferInputTensor`.
    Tensor,
    /// `InferTensorContents`.
    Contents,
}

/// What a length-delimited field becomes.
enum Field {
    /// A slice of the message.
    Slice,
    Element,
    Numbers,
    Message(Level),
}

impl Level {
    fn field(self, tag: u64) -> Field {
        match (self, tag) {
            (Level::Request, 5) => Field::Message(Level::Tensor),
            (Level::Tensor, 5) => Field::Message(Level::Contents),
            (Level::Request, 4 | 6 | 7) | (Level::Tensor, 4) | (Level::Contents, 8) => {
                Field::Element
            }
            (Level::Tensor, 3) | (Level::Contents, _) => Field::Numbers,
            (Level::Request | Level::Tensor, _) => Field::Slice,
        }
    }
}

/// An upper bound on the memory of the decoded message, without the message itself; `None` if it is not valid.
fn decoded_bytes(level: Level, mut rest: &[u8]) -> Option<usize> {
    let mut sum = 0_usize;
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let n_bytes = match key & 7 {
            0 => {
                varint(&mut rest)?;
                NUMBER_BYTES
            }
            1 => {
                take(&mut rest, 8)?;
                NUMBER_BYTES
            }
            2 => {
                let len = usize::try_from(varint(&mut rest)?).ok()?;
                let payload = take(&mut rest, len)?;
                match level.field(key >> 3) {
                    Field::Slice => 0,
                    Field::Element => ELEMENT_BYTES,
                    Field::Numbers => len.checked_mul(NUMBER_BYTES)?,
                    Field::Message(level) => {
                        ELEMENT_BYTES.checked_add(decoded_bytes(level, payload)?)?
                    }
                }
            }
            5 => {
                take(&mut rest, 4)?;
                NUMBER_BYTES
            }
            // Groups are no part of these messages.
            _ => return None,
        };
        sum = sum.checked_add(n_bytes)?;
    }
    Some(sum)
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(n)?;
    *rest = after;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = *take(rest, 1)? else { return None };
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The bytes of a message on the wire: whether it is compressed, its length, and itself.
#[cfg(test)]
pub(super) fn framed(message: &impl Message) -> bytes::Bytes {
    let bytes = message.encode_to_vec();
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    [&[0], &length[..], &bytes].concat().into()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::grpc::messages::{InferTensor, InferTensorContents, ModelInferRequest};

    #[test]
    fn lists_count_what_they_take_in_memory() {
        let tensor = InferTensor {
            shape: vec![1, 2, 3],
            contents: Some(Box::new(InferTensorContents {
                ints: vec![1; 100],
                bytes: vec![Bytes::new(); 10],
                ..InferTensorContents::default()
            })),
            ..InferTensor::default()
        };
        let request = ModelInferRequest {
            inputs: vec![tensor],
            raw_input_contents: vec![Bytes::from_static(&[0; 1000])],
            ..ModelInferRequest::default()
        };
        let expected = 2 * 256 + 3 * 8 + 256 + 100 * 8 + 10 * 256;
        assert_eq!(decoded_bytes(Level::Request, &request.encode_to_vec()), Some(expected));
        let empty = [0x2a, 0].repeat(1000);
        assert_eq!(decoded_bytes(Level::Request, &empty), Some(256_000));
        assert!(size_of::<InferTensor>() <= ELEMENT_BYTES / 2);
    }

    #[test]
    fn damaged_messages_are_invalid() {
        for bytes in
            [&[0x2a][..], &[0x2a, 5, 0], &[0x80; 11], &[0x0b], &[0x0d, 1, 2], &[0x2a, 1, 0x1a]]
        {
            assert_eq!(decoded_bytes(Level::Request, bytes), None, "{bytes:?}");
        }
    }
}
