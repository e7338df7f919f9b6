//! New operands: like known ones, with other numbers or shapes.

use bytes::Bytes;
use ort_session::{DType, Tensor};
use ort_testing::Rng;

use crate::model::extreme;

/// Elements of an operand.
const MAX_ELEMENTS: usize = 1 << 14;

/// A tensor like this one: most are equal, some have other elements, some another shape.
pub(super) fn varied(like: &Tensor, rng: &mut Rng) -> Tensor {
    let varied = match rng.below(8) {
        0 => reshaped(like, rng),
        1 => with_unusual(like, rng),
        _ => None,
    };
    varied.unwrap_or_else(|| like.clone())
}

/// One dimension has another size; elements repeat.
fn reshaped(like: &Tensor, rng: &mut Rng) -> Option<Tensor> {
    let mut shape = like.shape().to_vec();
    let at = rng.index(shape.len().max(1));
    *shape.get_mut(at)? = [0, 1, 2, 3, 5, 8, 17, 33][rng.index(8)];
    let n: usize = shape.iter().product();
    let bytes = like.view().as_bytes()?;
    let n_bytes = like.dtype().n_bytes(n).filter(|_| n <= MAX_ELEMENTS && !bytes.is_empty())?;
    let repeated: Vec<u8> = bytes.iter().copied().cycle().take(n_bytes).collect();
    Tensor::from_bytes(like.dtype(), &shape, Bytes::from(repeated)).ok()
}

/// Some elements are at the limits of their type.
fn with_unusual(like: &Tensor, rng: &mut Rng) -> Option<Tensor> {
    let mut bytes = like.view().as_bytes()?.to_vec();
    let mut set = |at: usize, new: &[u8]| {
        if let Some(place) = bytes.get_mut(at * new.len()..(at + 1) * new.len()) {
            place.copy_from_slice(new);
        }
    };
    for _ in 0..=rng.below(3) {
        let at = rng.index(like.len());
        match like.dtype() {
            DType::F32 => set(at, &unusual(rng).to_le_bytes()),
            DType::F64 => set(at, &f64::from(unusual(rng)).to_le_bytes()),
            DType::I64 => set(at, &extreme(rng).to_le_bytes()),
            DType::I32 => set(at, &extreme(rng).to_le_bytes()[..4]),
            DType::F16 | DType::Bf16 => set(at, &rng.next_u64().to_le_bytes()[..2]),
            DType::U8 | DType::I8 => set(at, &extreme(rng).to_le_bytes()[..1]),
            _ => return None,
        }
    }
    Tensor::from_bytes(like.dtype(), like.shape(), Bytes::from(bytes)).ok()
}

/// A float at the limits of the type.
pub(super) fn unusual(rng: &mut Rng) -> f32 {
    const FLOATS: [f32; 12] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
        3.0e9,
    ];
    FLOATS[rng.index(FLOATS.len())]
}
