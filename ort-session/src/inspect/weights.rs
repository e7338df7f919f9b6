//! Weights with denormal numbers: too small for a normal float, and slow wherever they are not
//! flushed to zero.

// collects are bounded: as long as the file's lists

use ort_graph::parsed::{Contents, Tensor};
use ort_loader::ModelBytes;
use ort_tensor::DType;

use super::opened;
use crate::error::SessionError;

/// An initializer with denormal numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DenormalWeights {
    /// The initializer.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// The number of denormal elements.
    pub n_denormal: usize,
    /// The number of elements.
    pub n_elements: usize,
}

/// The initializers of all graphs with denormal numbers, those with most of them
/// first. Types: float16, bfloat16, float and double. Reads every weight of these types once.
///
/// # Errors
/// As [`inspect`](super::inspect).
pub fn denormal_weights(bytes: &ModelBytes) -> Result<Vec<DenormalWeights>, SessionError> {
    let opened = opened(bytes)?;
    let mut found = Vec::new();
    opened.model.graph.visit(&mut |graph| {
        let sparse = graph.sparse_initializers.iter().map(|tensor| &tensor.values);
        found.extend(graph.initializers.iter().chain(sparse).filter_map(of_tensor));
    });
    found.sort_by_key(|weights| std::cmp::Reverse(weights.n_denormal));
    Ok(found)
}

fn of_tensor(tensor: &Tensor<'_>) -> Option<DenormalWeights> {
    let Contents::Bytes(raw) = &tensor.contents else { return None };
    let dtype = tensor.dtype;
    let n_denormal = match dtype {
        DType::F32 => denormal_floats(raw),
        DType::F16 => denormal_words(raw, 0x7C00, 0x03FF),
        DType::Bf16 => denormal_words(raw, 0x7F80, 0x007F),
        DType::F64 => denormal_doubles(raw),
        _ => return None,
    };
    let n_elements = raw.len() * 8 / dtype.bits();
    let name = tensor.name.to_string();
    (n_denormal > 0).then_some(DenormalWeights { name, dtype, n_denormal, n_elements })
}

/// A number is denormal if its exponent is zero and its fraction is not. The data may be unaligned;
/// a loop without branches lets the compiler vectorize.
fn denormal_floats(raw: &[u8]) -> usize {
    let (words, _) = raw.as_chunks();
    let is_denormal = |word: &[u8; 4]| f32::from_le_bytes(*word).is_subnormal();
    words.iter().map(|word| usize::from(is_denormal(word))).sum()
}

fn denormal_doubles(raw: &[u8]) -> usize {
    let (words, _) = raw.as_chunks();
    let is_denormal = |word: &[u8; 8]| f64::from_le_bytes(*word).is_subnormal();
    words.iter().map(|word| usize::from(is_denormal(word))).sum()
}

fn denormal_words(raw: &[u8], exponent: u16, fraction: u16) -> usize {
    let (words, _) = raw.as_chunks();
    let is_denormal = |word: &[u8; 2]| {
        let word = u16::from_le_bytes(*word);
        word & exponent == 0 && word & fraction != 0
    };
    words.iter().map(|word| usize::from(is_denormal(word))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ort_tensor::{bf16, f16};

    #[test]
    fn numbers_below_the_smallest_normal_one_are_denormal_and_zeros_are_not() {
        let floats = [0.0, -0.0, 1.0, f32::MIN_POSITIVE, 1e-40, -1e-45, f32::NAN, f32::INFINITY];
        let raw: Vec<u8> = floats.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(denormal_floats(&raw), 2);
        let doubles = [0.0, f64::MIN_POSITIVE, 1e-310, -5e-324, f64::NEG_INFINITY];
        let raw: Vec<u8> = doubles.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(denormal_doubles(&raw), 2);
        let halves = [0.0, 6.2e-5, 6e-5, -6e-8, 1.0].map(f16::from_f32);
        let raw: Vec<u8> = halves.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(denormal_words(&raw, 0x7C00, 0x03FF), 2);
        let brains = [0.0, 1.2e-38, 1e-38, -1e-40, 1.0].map(bf16::from_f32);
        let raw: Vec<u8> = brains.iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(denormal_words(&raw, 0x7F80, 0x007F), 2);
    }
}
