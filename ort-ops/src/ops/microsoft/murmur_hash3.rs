//! MurmurHash3: a 32-bit hash of each element.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace};

use crate::elementwise::{shaped_like_first, unsupported};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "MurmurHash3",
    versions: (1, 1),
    types: is_hashed,
    build: MurmurHash3::build,
}];

/// MurmurHash3: `y[i] = murmur3_x86_32(bytes of x[i], seed)`: the four or eight bytes of a number,
/// the lowest first, or the UTF-8 of a string.
///
/// Source: com.microsoft, MurmurHash3-1 (ONNX Runtime 1.31); A. Appleby, MurmurHash3, 2011.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MurmurHash3 {
    /// The initial hash.
    pub seed: u32,
    /// Whether the hashes are uint32, not int32.
    pub is_positive: bool,
}

impl MurmurHash3 {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let [seed, _] = halves(spec.int("seed")?.unwrap_or(0).cast_unsigned());
        Ok(Arc::new(Self { seed, is_positive: spec.int("positive")?.unwrap_or(1) == 1 }))
    }

    const fn dtype(self) -> DType {
        if self.is_positive { DType::U32 } else { DType::I32 }
    }
}

const fn is_hashed(dtype: DType) -> bool {
    use DType::{F32, F64, I32, I64, String, U32, U64};
    matches!(dtype, I32 | U32 | I64 | U64 | F32 | F64 | String)
}

/// The low and the high half.
const fn halves(x: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = x.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

fn hash(bytes: &[u8], seed: u32) -> u32 {
    let scramble = |block: [u8; 4]| {
        let block = u32::from_le_bytes(block).wrapping_mul(0xcc9e_2d51);
        block.rotate_left(15).wrapping_mul(0x1b87_3593)
    };
    let (blocks, tail) = bytes.as_chunks::<4>();
    let mut hash = seed;
    for &block in blocks {
        hash = (hash ^ scramble(block)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let mut last = [0; 4];
    last[..tail.len()].copy_from_slice(tail);
    hash ^= scramble(last);
    // Modulo 2^32, as in the reference.
    hash ^= halves(bytes.len() as u64)[0];
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

impl Operator for MurmurHash3 {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, is_hashed)?;
        Ok(vec![shaped_like_first(inputs, self.dtype())?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let y = outputs[0].tensor(self.dtype(), x.shape())?.into_words::<u32>()?;
        let mut pace = Pace::new();
        match (x.as_bytes(), x.dtype().word_bytes()) {
            (None, _) => {
                let strings = x.as_strings()?;
                for (y, x) in y.iter_mut().zip(strings) {
                    pace.go(x.len() + 1)?;
                    *y = hash(x.as_bytes(), self.seed);
                }
            }
            (Some(bytes), Some(n_bytes)) => {
                let elements = bytes.chunks_exact(n_bytes);
                for (y, x) in y.iter_mut().zip(elements) {
                    pace.go(n_bytes)?;
                    *y = hash(x, self.seed);
                }
            }
            (Some(_), None) => return Err(unsupported(0, x.dtype())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn case(seed: i64, positive: i64) -> Case {
        Case::new("MurmurHash3", 1)
            .domain("com.microsoft")
            .attr("seed", Attr::Int(seed))
            .attr("positive", Attr::Int(positive))
    }

    #[test]
    fn numbers_are_hashed_by_their_bytes() {
        let cases = [
            (tensor(&[2], &[3_i32, 4]), vec![847_579_505_u32, 1_889_779_975]),
            (tensor(&[1], &[3_u32]), vec![847_579_505]),
            (tensor(&[2], &[3_i64, -1]), vec![2_738_575_283, 1_651_860_712]),
            (tensor(&[1], &[3_u64]), vec![2_738_575_283]),
            (tensor(&[1], &[3.5_f32]), vec![2_136_317_940]),
            (tensor(&[1], &[3.5_f64]), vec![1_347_587_445]),
            (tensor(&[0], &[0_i32; 0]), vec![]),
        ];
        for (x, y) in cases {
            let found = case(0, 1).tensor(std::slice::from_ref(&x));
            assert_eq!(found, Ok(tensor(&[y.len()], &y)), "{x:?}");
        }
        let y = tensor(&[1], &[2_890_270_129_u32]);
        assert_eq!(case(-1, 1).tensor(&[tensor(&[1], &[3_i32])]), Ok(y));
        assert!(case(0, 1).tensor(&[tensor(&[1], &[3_i8])]).is_err());
    }

    #[test]
    fn strings_are_hashed_whatever_their_length() {
        let words = ["foo", "", "é", "abcdefgh", "abcde"].map(str::to_owned).to_vec();
        let x = Tensor::from_strings(&[5], words).unwrap();
        let y = [4_138_058_784_u32, 0, 269_551_495, 1_239_272_644, 3_902_511_862];
        assert_eq!(case(0, 1).tensor(std::slice::from_ref(&x)), Ok(tensor(&[5], &y)));
        let y = [-1_322_301_282, 142_593_372, 1_023_967_903, -804_741_815, -1_361_433_616];
        assert_eq!(case(42, 0).tensor(&[x]), Ok(tensor(&[5], &y)));
    }
}
