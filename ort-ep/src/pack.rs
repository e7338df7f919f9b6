//! Packed constants: what a kernel wants its weights to look like.
//!
//! Packing is a pure function of the constant and the recipe, and what comes out is just bytes; so
//! the store may keep them in memory, share them between nodes, or find them in a file.

use bytes::Bytes;
use ort_tensor::Tensor;

/// Which packing, with everything that its bytes depend on apart from the constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// The packing and its parameters, unique among all kernels: `gemm_f32/b/avx512_14x32`.
    pub name: &'static str,
    /// Numbers that the packing depends on (transposition, groups, …).
    pub parameters: Vec<u64>,
    /// How many bytes come out.
    pub n_bytes: usize,
}

/// Packed bytes, aligned to 64; a clone shares them.
#[derive(Clone, Debug)]
pub struct Packed(Bytes);

impl Packed {
    /// Packed bytes.
    pub const fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Where packed constants come from and stay.
pub trait PackStore {
    /// The bytes of `constant` packed by `recipe`: those the store has, or those that `pack`
    /// writes into a zeroed buffer of `recipe.n_bytes`.
    fn pack(
        &mut self,
        constant: &Tensor,
        recipe: &Recipe,
        pack: &mut dyn FnMut(&mut [u8]),
    ) -> Packed;
}
